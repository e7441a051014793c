"""The poverty experiment, on a few people."""

from __future__ import annotations

import csv
from collections.abc import Callable

import numpy as np
import pytest

from experiments import panels, poverty
from experiments.report import Settings


@pytest.fixture(scope="module")
def lines(settings: Settings) -> list[dict[str, str]]:
    poverty.report(settings, panels.poverty(300), "poverty", "a few people")
    with (settings.out / "poverty.csv").open() as file:
        return list(csv.DictReader(file))


def test_there_is_a_line_for_each_question_period_and_budget(lines: list[dict[str, str]], settings: Settings) -> None:
    assert len(lines) == 3 * (4 * 4 + 10)
    assert {line["period"] for line in lines if line["question"] == "all three months"} == {"3", "6", "9", "12"}
    for name in ("poverty.png", "poverty-cumulative.png"):
        assert (settings.out / name).read_bytes().startswith(b"\x89PNG")


def test_the_truth_is_that_of_the_panel(lines: list[dict[str, str]]) -> None:
    months = panels.poverty(300).astype(bool)
    for quarter in (3, 6, 9, 12):
        a, b, c = months[:, quarter - 3 : quarter].T
        expected = {
            "at least one month": a | b | c,
            "at least two months": (a & b) | (b & c) | (a & c),
            "two months in a row": (a & b) | (b & c),
            "all three months": a & b & c,
            "at least 3 months so far": months[:, :quarter].sum(axis=1) >= 3,
        }
        for question, holds in expected.items():
            found = {line["truth"] for line in lines if (line["question"], line["period"]) == (question, str(quarter))}
            assert found == {f"{holds.mean():.6g}"}


def test_a_larger_budget_is_more_accurate(lines: list[dict[str, str]]) -> None:
    by_budget = [np.mean([float(line["rmse"]) for line in lines if line["rho"] == str(rho)]) for rho in poverty.RHOS]

    assert by_budget == sorted(by_budget, reverse=True)


def test_the_budgets_are_explained_as_epsilon(lines: list[dict[str, str]], printed: Callable[[], str]) -> None:
    assert "rho 0.005 is epsilon 0.430" in " ".join(printed().split())

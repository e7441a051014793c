"""What a plan warns about and notes."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from streamproc.planning import StudyPlan, plan_study
from tests.planning.formulas import N, months, only, poverty_study, quarterly


def test_padding_that_outweighs_people_is_warned_about_with_a_k_that_helps() -> None:
    plan = plan_study(poverty_study(quarterly(k=6)), 2_000)
    (warning,) = [warning for warning in plan.warnings if warning.code == "padding_outweighs_people"]
    fits = [k for k in range(1, 6) if _padding(plan_study(poverty_study(quarterly(k=k)), 2_000)) <= 2_000]

    assert warning.release == "quarterly"
    assert _padding(plan) > 2_000
    assert f"take k = {max(fits)}, or" in warning.message


def _padding(plan: StudyPlan) -> int:
    rows, n = only(plan).memory.rows, plan.n
    assert rows is not None
    assert n is not None
    return rows - n


def test_padding_is_warned_about_as_soon_as_it_outweighs_people() -> None:
    padding = _padding(plan_study(poverty_study(quarterly()), N))  # it does not depend on the number of people

    def codes(people: int) -> list[str]:
        return [warning.code for warning in plan_study(poverty_study(quarterly()), people).warnings]

    assert "padding_outweighs_people" in codes(padding - 1)
    assert "padding_outweighs_people" not in codes(padding)


def test_the_budget_a_padding_warning_names_is_about_enough() -> None:
    plan = plan_study(poverty_study(quarterly(k=6)), 2_000)
    (warning,) = [warning for warning in plan.warnings if warning.code == "padding_outweighs_people"]
    rho = float(warning.message.partition("rho = ")[2].split()[0])

    assert _padding(plan_study(poverty_study(quarterly(k=6), rho=1.2 * rho), 2_000)) <= 2_000
    assert _padding(plan_study(poverty_study(quarterly(k=6), rho=0.8 * rho), 2_000)) > 2_000


def test_no_budget_is_advised_that_a_study_file_may_not_have() -> None:
    beyond = plan_study(poverty_study(quarterly()), 2).warnings

    assert [warning.code for warning in beyond] == ["padding_outweighs_people", "wide_interval"]
    for warning in beyond:
        assert warning.message.endswith("(rho up to 1000) would be enough with this release's share of it")
        assert "rho = " not in warning.message
        assert "times the budget" not in warning.message


def test_the_budget_advised_can_be_had_with_the_share_that_the_release_has() -> None:
    def advice(share: Fraction) -> str:
        """To a release that has rho = 0.5 and would need about 510."""
        plan = plan_study(poverty_study(quarterly(share=share), rho=float(0.5 / share)), 4)
        return plan.warnings[0].message

    assert "rho = 510 " in advice(Fraction(1))
    assert "rho = 510 " not in advice(Fraction(1, 2))
    # With another share there is one.
    assert "; no budget that" in advice(Fraction(1, 2))
    assert advice(Fraction(1, 2)).endswith(" would be enough with this release's share of it")


def test_wide_intervals_are_warned_about_from_ten_points_on() -> None:
    release = only(plan_study(poverty_study(months()), 1_000))
    widest = max(query.worst.half_people for query in release.queries)
    just_enough = math.ceil(widest / 0.10)

    wide = plan_study(poverty_study(months()), just_enough - 10)
    fine = plan_study(poverty_study(months()), just_enough + 10)

    assert [(warning.code, warning.release) for warning in wide.warnings] == [("wide_interval", "months")]
    assert fine.warnings == ()


def test_a_comfortable_study_has_no_warnings() -> None:
    assert plan_study(poverty_study(quarterly(), rho=0.05), N).warnings == ()


def test_without_a_roster_the_plan_says_who_is_not_protected() -> None:
    plan = plan_study(poverty_study(quarterly(), roster=None), N)

    assert [note.code for note in plan.notes] == ["no_roster", "people_assumed"]
    assert "period 1" in plan.notes[0].message
    assert f"{N:,}" in plan.notes[1].message


def test_a_roster_of_another_size_than_expected_is_noted() -> None:
    made = poverty_study(quarterly())
    made = replace(made, population=replace(made.population, size=5))

    assert [note.code for note in plan_study(made, 7).notes] == ["roster_differs_from_size"]

"""The dashboards: whole, self-contained, and the steward's made of public data only."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.deploy import dashboards
from tests.deploy.prometheus import rules
from tests.stream.test_listeners import PUBLIC

every_dashboard = pytest.mark.parametrize("path", dashboards.FILES, ids=lambda path: path.stem)


def test_there_is_one_for_the_steward_and_one_for_the_operator() -> None:
    assert [path.stem for path in dashboards.FILES] == ["operator", "steward"]
    assert len({dashboards.read(path)["uid"] for path in dashboards.FILES}) == 2


@every_dashboard
def test_the_data_source_is_chosen_by_who_looks(path: Path) -> None:
    dashboard = dashboards.read(path)
    chosen = {"type": "prometheus", "uid": "${datasource}"}
    assert dashboard["templating"]["list"][0]["type"] == "datasource"
    for panel in dashboards.panels(dashboard):
        assert panel["datasource"] == chosen
        assert all(target["datasource"] == chosen for target in panel["targets"])
    assert all(variable["datasource"] == chosen for variable in dashboard["templating"]["list"][1:])


@every_dashboard
def test_nothing_is_fetched_from_elsewhere(path: Path) -> None:
    assert "://" not in path.read_text()


@every_dashboard
def test_every_panel_says_what_it_shows_and_has_a_place_of_its_own(path: Path) -> None:
    dashboard = dashboards.read(path)
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
    for panel in dashboards.panels(dashboard):
        assert panel["title"]
        assert panel["description"].endswith(".")


@every_dashboard
def test_one_study_does_not_hide_another(path: Path) -> None:
    """Sums and counts are of all that are chosen; the largest or the smallest is of each."""
    for query in dashboards.queries(dashboards.read(path)):
        assert not re.search(r"\b(max|min) ?\(|\bby \((?!study\b)", query), query


@every_dashboard
def test_every_query_is_of_the_studies_that_are_chosen(path: Path) -> None:
    for panel in dashboards.panels(dashboards.read(path)):
        for target in panel["targets"]:
            selectors = re.findall(r"{[^}]*}", target["expr"])
            assert selectors, target["expr"]
            assert all('study=~"$study' in selector for selector in selectors), target["expr"]


def test_the_steward_sees_public_data_only() -> None:
    made = {rule["record"]: names(rule["expr"]) for rule in rules("record")}
    for query in dashboards.queries(dashboards.read(dashboards.FOLDER / "dashboards" / "steward.json")):
        assert names(query), query
        for name in names(query):
            assert made.get(name, {name}) <= PUBLIC, query
        assert "streamproc-operator" not in query


def test_an_epsilon_is_rounded_up_to_the_digits_that_are_shown() -> None:
    shown = dashboards.panels(dashboards.read(dashboards.FOLDER / "dashboards" / "steward.json"))
    epsilons = [panel for panel in shown if "epsilon" in panel["targets"][0]["expr"]]
    assert len(epsilons) == 2
    for panel in epsilons:
        assert re.fullmatch(
            r"ceil\(1000 \* max by \(study\) \(streamproc_epsilon_spent{.*}\)\) / 1000", panel["targets"][0]["expr"]
        )
        assert panel["fieldConfig"]["defaults"]["decimals"] == 3


def names(expression: str) -> set[str]:
    """The metrics and recorded series an expression names."""
    return set(re.findall(r"\b(?:\w+:)?streamproc_\w+(?::\w+)?\b", expression))


def test_grafana_is_given_the_dashboards_and_a_data_source() -> None:
    provisioning = dashboards.FOLDER / "provisioning"
    [provider] = yaml.safe_load((provisioning / "dashboards" / "streamproc.yml").read_text())["providers"]
    [source] = yaml.safe_load((provisioning / "datasources" / "prometheus.yml").read_text())["datasources"]
    assert (provider["type"], source["type"]) == ("file", "prometheus")

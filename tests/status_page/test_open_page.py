"""The page of an open study: no horizon, estimates of who is present, and as small after 10,000 periods as after 400."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from streamproc.panel.series import MAX_POINTS
from streamproc.privacy.types import Period
from streamproc.service.http_server import Address, Listener
from streamproc.status_page import StatusPage, views
from streamproc.status_page.follower import PageSnapshot
from streamproc.study import CumulativeRelease, Schedule, SpellRelease, WindowRelease
from tests.status_page.browser import Chromium, Visit
from tests.status_page.open_snapshot import open_snapshot, open_tallies, repeated
from tests.studies import build_open_study

STUDY = build_open_study(
    WindowRelease("recent", k=2),
    SpellRelease("spells", length=3, event=("1",)),
    CumulativeRelease("counts", event=("1",), most=2),
    absent_after=2,
    rho=5.0,
)
TALLIES = list(open_tallies(STUDY, 12))
SNAPSHOT = open_snapshot(STUDY, TALLIES)
LONG = repeated(SNAPSHOT, 10_000)


def test_status_states_no_number_of_people_and_no_horizon() -> None:
    found = views.status(STUDY, SNAPSHOT)
    json.dumps(found, allow_nan=False)
    assert (found["n"], found["horizon"], found["state"], found["released"]) == (None, None, "running", 12)
    assert (found["open"], found["tenure"], found["absent_after"], found["sample"]) == (True, 4, 2, None)
    for release in found["releases"]:
        contract = SNAPSHOT.histories[release["name"]].contract
        exact = contract.true_counts([TALLIES[-1][release["name"]]])[0][-3:].tolist()
        for name, truth in zip(("present", "entered", "left"), exact, strict=True):
            people = release["people"][name]
            assert abs(people["value"] - truth) < 6 * people["stderr"] + 3
            assert people["low"] <= people["value"] <= people["high"]
        assert release["columns"] == 12
        assert release["column_bytes"] == -(
            -2 * (release["people"]["present"]["value"] + release["people"]["left"]["value"]) // 8
        )


def test_before_the_first_column_nobody_is_known_to_be_present() -> None:
    found = views.status(STUDY, PageSnapshot(following=True))
    assert (found["n"], found["state"]) == (None, "waiting")
    assert [release["people"] for release in found["releases"]] == [None] * 3


def test_a_study_is_over_with_the_period_that_is_marked_as_the_last() -> None:
    schedule = Schedule(datetime(2026, 1, 1, tzinfo=UTC), timedelta(days=1), release_after=timedelta(hours=1))
    scheduled = replace(STUDY, schedule=schedule)
    going_on = views.status(scheduled, SNAPSHOT)
    assert (going_on["next_cut"]["period"], going_on["next_release"]["period"]) == (13, 13)
    over = views.status(scheduled, open_snapshot(STUDY, TALLIES, over=True))
    assert (over["state"], over["next_cut"], over["next_release"]) == ("over", None, None)


def test_shares_are_among_those_present_and_numbers_have_no_share() -> None:
    history = SNAPSHOT.histories["recent"]
    found = views.answers(history, ["bin:01", "bin:^1", "present", "left"], 1, None)
    assert found["n"] is None
    assert [one["unit"] for one in found["series"]] == ["share", "share", "people", "people"]
    windows, since_entry, present, left = found["series"]
    assert present["periods"] == list(range(1, 13))
    assert left["value"][0] == 0.0
    labels = history.contract.labels(Period(12))
    counts = dict(zip(labels, history.counts[-1].tolist(), strict=True))
    full = sum(count for label, count in counts.items() if not label.startswith(("^", "#")))
    assert windows["value"][-1] == pytest.approx(counts["01"] / full)
    assert since_entry["value"][-1] == pytest.approx(counts["^1"] / counts["#present"])
    bounds = zip(windows["low"], windows["value"], windows["high"], strict=True)
    assert all(low <= value <= high for low, value, high in bounds)


def test_a_period_in_which_too_few_people_can_be_asked_has_no_answer() -> None:
    """In period 1 nobody has a window of two symbols."""
    history = SNAPSHOT.histories["recent"]
    [asked] = views.answers(history, ["bin:01"], 1, None)["series"]
    assert 1 not in asked["periods"]
    assert asked["periods"][-1] == 12
    first = open_snapshot(STUDY, TALLIES[:1])
    values = {one["label"]: one["value"] for one in views.bins(first.histories["recent"], "", 12)["bins"]}
    assert values["01"] is None
    assert values["^1"] is not None


def test_bins_are_those_of_the_kind_alone() -> None:
    found = views.bins(SNAPSHOT.histories["recent"], "", 100)
    assert {one["label"] for one in found["bins"]} == {"^0", "^1", "00", "01", "10", "11"}
    assert (found["total"], found["padding"]) == (6, 0)
    assert {one["label"] for one in views.bins(SNAPSHOT.histories["spells"], "", 100)["bins"]} == {"1", "2", "3"}


def test_responses_are_bounded_after_ten_thousand_periods() -> None:
    """Compared with those after 400 periods, the longest list of a response."""
    short = repeated(SNAPSHOT, MAX_POINTS)
    for view in (
        lambda shown: dict(views.status(STUDY, shown)),
        lambda shown: views.answers(shown.histories["recent"], ["bin:01", "present"], 1, None),
        lambda shown: views.bins(shown.histories["recent"], "", 12),
        lambda shown: views.chain(shown.ledger, None, 24),
    ):
        assert len(json.dumps(view(LONG))) < 1.1 * len(json.dumps(view(short))) + 100
    [thinned] = views.answers(LONG.histories["recent"], ["present"], 1, None)["series"]
    assert (len(thinned["periods"]), thinned["periods"][0], thinned["periods"][-1]) == (MAX_POINTS, 1, 10_000)


def test_the_counts_of_ten_thousand_periods_take_a_few_megabytes() -> None:
    """The arrays of one release: its counts and estimates of every period, 16 bytes each and 224 for the objects."""
    history = SNAPSHOT.histories["recent"]
    each = 2 * 8 * len(history.counts[-1]) + 2 * (np.zeros(0).__sizeof__())
    assert 10_000 * each < 5_000_000


@asynccontextmanager
async def listening(snapshot: PageSnapshot) -> AsyncIterator[str]:
    """The page over a snapshot, without a broker. Yields its address."""
    page, listener = StatusPage(STUDY), Listener(Address("127.0.0.1", 0), CollectorRegistry(), lambda: True)
    page.attach(listener.app)
    page._follower.snapshot, page._follower.version = snapshot, 1
    address = await listener.start()
    try:
        yield f"http://{address.host}:{address.port}"
    finally:
        await listener.stop()


async def asked(url: str, address: str) -> dict[str, Any]:
    async with aiohttp.ClientSession() as session, session.get(f"{url}/api/v1/{address}") as answer:
        assert answer.status == 200
        return dict(await answer.json())


async def test_without_a_range_the_newest_periods_are_shown_and_older_ones_on_request() -> None:
    async with listening(LONG) as url:
        for parameters, first, last, count in (
            ("", 9_601, 10_000, 400),
            ("&to=5000", 4_601, 5_000, 400),
            ("&from=1&to=60", 1, 60, 60),
            ("&from=9990", 9_990, 10_000, 11),
            ("&from=1", 1, 10_000, 400),
            ("&to=100", 1, 100, 100),
        ):
            [found] = (await asked(url, f"series?release=recent&query=present{parameters}"))["series"]
            assert (found["periods"][0], found["periods"][-1], len(found["periods"])) == (first, last, count)


def numbered(visit: Visit) -> list[str]:
    """The periods of the timeline."""
    return [" ".join(text.split()) for text in visit.texts(".timeline .number")]


async def browsed(snapshot: PageSnapshot, browser: Chromium, look: Callable[[Visit], None], **options: Any) -> None:
    """Look at the page over a snapshot, in a thread, because the server runs in this one."""
    async with listening(snapshot) as url:
        await asyncio.to_thread(lambda: look(browser.visit(**options).go(url)))


@pytest.mark.browser
async def test_the_page_shows_estimates_of_who_is_present_and_the_cost_of_one_person(browser: Chromium) -> None:
    def look(visit: Visit) -> None:
        present = views.status(STUDY, SNAPSHOT)["releases"][0]["people"]["present"]
        assert visit.texts("#facts .figure")[:2] == [f"{present['value']:,.0f}", "12"]
        assert "the end is not fixed" in visit.text("#facts")
        assert "People may enter in any period. A person is present for at most 4 periods" in visit.text("#lede")
        assert numbered(visit) == [f"Period {period}" for period in range(1, 14)]
        assert "One person’s whole participation" in visit.text("#budget-meters")
        assert "per person" in visit.texts("#budget-meters .meter-text")[-1]
        assert visit.ask("document.getElementById('headroom').hidden") is True
        assert visit.ask("document.getElementById('view').hidden") is True
        visit.see(lambda page: page.select_option("#question", "present"))
        visit.wait_text("#asked", "Number of people present")
        assert visit.text("#reading-value") == f"{present['value']:,.0f}"
        assert "everything since a person entered" in visit.text("#bins-summary")
        assert visit.complaints == []

    await browsed(SNAPSHOT, browser, look)


@pytest.mark.browser
async def test_older_periods_are_paged_to(browser: Chromium) -> None:
    def look(visit: Visit) -> None:
        assert visit.text("#view-text") == "Periods 9,941 to 10,000 of 10,000"
        numbers = numbered(visit)
        assert (numbers[0], numbers[1], numbers[-1]) == ("Periods 1 – 9,989", "Period 9990", "Period 10001")
        assert visit.ask("document.getElementById('view-newer').disabled") is True
        visit.click("#view-older")
        visit.wait_text("#view-text", "Periods 9,881 to 9,940 of 10,000")
        visit.wait_text("#reading-rest", "in period 9,940")
        visit.see(lambda page: page.select_option("#view-size", "Infinity"))
        visit.wait_text("#view-text", "Periods 1 to 10,000 of 10,000, of which 400 are shown")
        visit.wait_text("#reading-rest", "in period 10,000")
        visit.see(lambda page: page.select_option("#view-size", "400"))
        visit.wait_text("#view-text", "Periods 9,601 to 10,000 of 10,000")
        assert visit.complaints == []

    await browsed(LONG, browser, look)


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1200])
async def test_no_screen_is_scrolled_sideways(browser: Chromium, width: int) -> None:
    def look(visit: Visit) -> None:
        assert visit.ask("document.documentElement.scrollWidth <= document.documentElement.clientWidth") is True

    await browsed(LONG, browser, look, viewport={"width": width, "height": 800})

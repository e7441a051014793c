"""The page on a bad line: whatever does not come the first time is asked for again, and nothing is mistaken for a proof."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Route

from tests.status_page.browser import Chromium, Visit
from tests.status_page.studies import ShownStudy

pytestmark = pytest.mark.browser

PARTS = ["page.js", "chart.js", "theme.js", "parts.css"]
ANSWERED = ["status", "series", "bins", "ledger"]


def at_first(times: int, trouble: Callable[[Route], None]) -> Callable[[Route], None]:
    """So many requests meet with trouble, the others do not."""
    left = times

    def handle(route: Route) -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            trouble(route)
        else:
            route.continue_()

    return handle


def lost(route: Route) -> None:
    route.abort("connectionreset")


def refused(route: Route) -> None:
    route.fulfill(status=503, json={"error": "too many ask at once; try again"})


def with_trouble(browser: Chromium, address: str, handle: Callable[[Route], None]) -> Visit:
    visit = browser.visit()
    visit.see(lambda page: page.route(address, handle))
    return visit


@pytest.mark.parametrize("part", PARTS)
def test_a_page_of_which_a_part_did_not_come_is_loaded_again(half_way: ShownStudy, browser: Chromium, part: str) -> None:
    visit = with_trouble(browser, f"**/static/{part}", at_first(1, lost)).go(half_way.url)
    visit.until(lambda: sum(url.endswith(f"/static/{part}") for url in visit.requests) > 1)
    visit.wait('html[data-shown="3"]')
    assert visit.ask("getComputedStyle(document.querySelector('.verdict')).borderRadius") == "8px"
    assert visit.ask("!document.getElementById('theme').hidden")


@pytest.mark.parametrize("question", [*ANSWERED, "events"])
def test_a_question_that_is_lost_is_asked_again(half_way: ShownStudy, browser: Chromium, question: str) -> None:
    visit = with_trouble(browser, f"**/api/v1/{question}*", at_first(1, lost)).go(half_way.url, released=3)
    visit.wait(".live[data-state=live]")
    visit.wait("#bins button:nth-child(2)")
    visit.wait("#chain tbody tr:nth-child(3)")


@pytest.mark.parametrize("question", ANSWERED)
def test_a_page_that_was_given_no_answer_is_brought_up_to_date_later(
    half_way: ShownStudy, browser: Chromium, question: str
) -> None:
    with_trouble(browser, f"**/api/v1/{question}*", at_first(1, refused)).go(half_way.url, released=3)


def test_a_line_that_stays_away_for_long_is_tried_again_and_again(half_way: ShownStudy, browser: Chromium) -> None:
    with_trouble(browser, "**/api/v1/status*", at_first(7, lost)).go(half_way.url, released=3)


def test_an_answer_that_a_reader_asked_for_and_did_not_get_comes_later(half_way: ShownStudy, browser: Chromium) -> None:
    visit = browser.visit().go(half_way.url, released=3)
    visit.see(lambda page: page.route("**/api/v1/series*", at_first(2, refused)))
    visit.see(lambda page: page.check("input[value=ever]"))
    visit.wait_text("#asked", "so far")
    visit.wait_text("#bins-title", "At least so many periods")
    assert not [complaint for complaint in visit.complaints if "Uncaught" in complaint]


@pytest.mark.parametrize("trouble", [lost, refused])
def test_a_ledger_that_cannot_be_read_is_not_called_broken(
    half_way: ShownStudy, browser: Chromium, trouble: Callable[[Route], None]
) -> None:
    visit = browser.visit().go(half_way.url, released=3)
    visit.see(lambda page: page.route("**/api/v1/records/synthetic/*", trouble))
    visit.click("#verify-button")
    visit.wait(".verdict[data-state=unknown], .verdict[data-state=good], .verdict[data-state=bad]")
    assert visit.text("#verdict").startswith("Not verified. The server cannot"), visit.text("#verdict")
    assert visit.ask("document.querySelectorAll('#chain tr.verified').length") == 0
    visit.see(lambda page: page.unroute("**/api/v1/records/synthetic/*"))
    visit.click("#verify-button")
    visit.wait(".verdict[data-state=good]")

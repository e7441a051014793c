"""The page on a bad line: whatever does not come the first time is asked for again, and nothing is mistaken for a proof."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Route

from tests.status_page.browser import Chromium, Visit
from tests.status_page.shown_study import ShownStudy

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


def after_first(trouble: Callable[[Route], None]) -> Callable[[Route], None]:
    """The first request comes through."""
    first = True

    def handle(route: Route) -> None:
        nonlocal first
        if first:
            first = False
            route.continue_()
        else:
            trouble(route)

    return handle


def lost(route: Route) -> None:
    route.abort("connectionreset")


def refused(route: Route) -> None:
    route.fulfill(status=503, json={"error": "too many requests at once; try again"})


def with_trouble(browser: Chromium, address: str, handle: Callable[[Route], None]) -> Visit:
    visit = browser.visit()
    visit.see(lambda page: page.route(address, handle))
    return visit


@pytest.mark.parametrize("part", PARTS)
def test_a_page_of_which_a_part_did_not_come_is_loaded_again(half_way: ShownStudy, browser: Chromium, part: str) -> None:
    visit = with_trouble(browser, f"**/static/{part}", at_first(1, lost)).go(half_way.url)
    page, asset = f"{half_way.url}/", f"{half_way.url}/static/{part}"

    def is_asked_for_by_the_second_page() -> bool:
        first = visit.requests.index(page) + 1
        return page in visit.requests[first:] and asset in visit.requests[visit.requests.index(page, first) :]

    visit.until(is_asked_for_by_the_second_page)
    visit.wait('html[data-shown="3"]')
    assert visit.ask("getComputedStyle(document.querySelector('.verdict')).borderRadius") == "8px"
    assert visit.ask("!document.getElementById('theme').hidden")
    assert visit.ask("history.state") is None


def test_a_page_is_not_loaded_again_before_what_it_lacks_can_be_had(half_way: ShownStudy, browser: Chromium) -> None:
    """A proxy that answers in place of the server would take the page away for good."""
    visit = with_trouble(browser, "**/static/chart.js", at_first(1, lost))
    visit.see(lambda page: page.route("**/static/page.js", after_first(at_first(2, refused))))
    visit.go(half_way.url, released=3)
    assert visit.requests.count(half_way.url + "/") == 2


def test_a_page_that_lacks_a_part_for_good_is_not_loaded_forever(half_way: ShownStudy, browser: Chromium) -> None:
    visit = browser.visit().go(half_way.url, released=3)
    visit.see(lambda page: page.route("**/static/chart.js", lambda route: route.fulfill(status=404)))
    visit.ask("history.replaceState({ tries: 5 }, '')")
    visit.see(lambda page: page.reload())
    visit.wait_text("#lede", "A part of this page cannot be loaded.")
    assert visit.ask("history.state") is None  # a manual reload resets the count of tries


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
    visit.wait_text("#bins-title", "At least this many periods")
    assert visit.errors == []


def test_no_answer_stands_below_a_question_to_which_it_is_none(half_way: ShownStudy, browser: Chromium) -> None:
    visit = browser.visit().go(half_way.url, released=3)
    waiting: list[Route] = []
    visit.see(lambda page: page.route("**/api/v1/series*", at_first(1, lambda route: waiting.append(route))))  # noqa: PLW0108
    visit.see(lambda page: page.check("input[value=ever]"))
    assert visit.text("#asked") == "Loading…"
    assert visit.text("#reading-value") + visit.text("#reading-rest") == ""
    assert visit.text("#chart") == "Loading…"
    assert visit.see(lambda page: page.is_disabled("#period"))
    visit.until(lambda: len(waiting) == 1)
    visit.see(lambda page: waiting[0].continue_())
    visit.wait_text("#asked", "so far")
    assert visit.see(lambda page: page.is_enabled("#period"))
    assert visit.errors == []


HURRIED = "const timeout = AbortSignal.timeout; AbortSignal.timeout = (time) => timeout.call(AbortSignal, time / 40);"


def test_a_question_that_is_never_answered_is_given_up_and_asked_again(half_way: ShownStudy, browser: Chromium) -> None:
    visit = with_trouble(browser, "**/api/v1/status*", at_first(1, lambda route: None))
    visit.see(lambda page: page.add_init_script(HURRIED))
    visit.go(half_way.url, released=3)


def test_a_page_that_is_not_up_to_date_says_so(half_way: ShownStudy, browser: Chromium) -> None:
    visit = browser.visit().go(half_way.url, released=3)
    visit.wait(".live[data-state=live]")
    visit.see(lambda page: page.route("**/api/v1/series*", at_first(2, refused)))
    visit.see(lambda page: page.check("input[value=ever]"))
    visit.wait_text("#live-text", "Not up to date")
    visit.wait(".live[data-state=live]")
    visit.wait_text("#asked", "so far")


def test_a_page_that_has_everything_asks_for_nothing_but_the_status(half_way: ShownStudy, browser: Chromium) -> None:
    visit = browser.visit().go(half_way.url, released=3)
    asked = len(visit.requests)
    for _ in range(2):
        visit.ask("document.dispatchEvent(new Event('visibilitychange'))")  # as if somebody had come back to it
    visit.until(lambda: any("/status" in url for url in visit.requests[asked:]))
    assert {url.rpartition("/")[2] for url in visit.requests[asked:]} <= {"status", "events"}


LATEST = 40
"""Periods of a ledger that is longer than the page shows at first."""


def longer(route: Route) -> None:
    answer = route.fetch()
    found, query = answer.json(), parse_qs(urlsplit(route.request.url).query)
    before, limit = int(query.get("before", [str(LATEST + 1)])[0]), int(query["limit"][0])
    periods = range(before - 1, max(0, before - 1 - limit), -1)
    found |= {"periods": [found["periods"][0] | {"period": period} for period in periods], "total": LATEST}
    route.fulfill(response=answer, json=found)


def test_earlier_periods_that_did_not_come_come_later(half_way: ShownStudy, browser: Chromium) -> None:
    visit = with_trouble(browser, "**/api/v1/ledger*", longer).go(half_way.url, released=3)
    periods = "[...document.querySelectorAll('#chain tbody th')].map(cell => parseInt(cell.textContent))"
    assert visit.ask(periods) == list(range(LATEST, LATEST - 24, -1))
    visit.see(lambda page: page.route("**/api/v1/ledger?*before*", refused))
    visit.click("#chain button")
    visit.wait("#chain tbody tr:nth-child(40)")
    assert visit.ask(periods) == list(range(LATEST, 0, -1))


def forbidden(route: Route) -> None:
    route.fulfill(status=429, body="not so fast")


def somebody_else(route: Route) -> None:
    """A network that wants to be paid first."""
    route.fulfill(status=200, body="<html>Welcome!</html>", content_type="text/html")


@pytest.mark.parametrize("trouble", [lost, refused, forbidden, somebody_else])
def test_a_ledger_that_cannot_be_read_is_not_called_broken(
    half_way: ShownStudy, browser: Chromium, trouble: Callable[[Route], None]
) -> None:
    visit = browser.visit().go(half_way.url, released=3)
    visit.see(lambda page: page.route("**/api/v1/records/synthetic/*", trouble))
    visit.click("#verify-button")
    visit.wait(".verdict[data-state=unknown], .verdict[data-state=good], .verdict[data-state=bad]")
    assert visit.text("#verdict").startswith("Not verified. The server "), visit.text("#verdict")
    assert visit.ask("document.querySelectorAll('#chain tr.verified').length") == 0
    visit.see(lambda page: page.unroute("**/api/v1/records/synthetic/*"))
    visit.click("#verify-button")
    visit.wait(".verdict[data-state=good]")

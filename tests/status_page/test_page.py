"""The page in a real browser: what it shows, how it is used, and that it keeps to itself."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from matplotlib.image import imread
from playwright.sync_api import Page, Route

from streamproc.cli.formatting import format_epsilon, format_rounded_up
from streamproc.panel.column_packing import column_digest
from streamproc.protocol.codec import pack
from streamproc.protocol.columns import MatrixChunk
from tests.protocol.examples import COLUMN, EXAMPLES, MONTHS_POOR
from tests.status_page.browser import Chromium, Visit
from tests.status_page.screenshots import finished
from tests.status_page.shown_study import ShownStudy, sticky
from tests.stream.programs import Programs
from tests.studies import StudyParameters

pytestmark = pytest.mark.browser

PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}


def open_page(browser: Chromium, shown: ShownStudy, **options: Any) -> Visit:
    return browser.visit(**options).go(shown.url, released=3)


def verdict(visit: Visit) -> tuple[str, str]:
    visit.ask("document.getElementById('verdict').removeAttribute('data-state')")
    visit.click("#verify-button")
    visit.wait(".verdict[data-state=good], .verdict[data-state=bad]")
    return visit.ask("document.getElementById('verdict').dataset.state"), visit.text("#verdict")


def changes_a_byte(where: float) -> Callable[[Route], None]:
    """Somebody between the listener and the reader."""

    def tamper(route: Route) -> None:
        answer = route.fetch()
        body = bytearray(answer.body())
        body[int(len(body) * where)] ^= 0x10
        route.fulfill(response=answer, body=bytes(body))

    return tamper


def test_a_zero_out_study_shows_the_replace_one_figure_beside_its_own(tmp_path: Path, browser: Chromium) -> None:
    with Programs(tmp_path) as programs:
        parameters = StudyParameters("nobody-out", people=300, rho=0.05, adjacency="zero-out")
        shown = ShownStudy(tmp_path / "study", programs, parameters)
        shown.serve()
        shown.release(shown.deployed.write_panel(sticky("01", 300, 4, stays=0.8, first=(0.7, 0.3), seed=6)), 1, 3)
        status = shown.deployed.status()
        visit = open_page(browser, shown)

        spent = format_epsilon(status["epsilon_spent_replace_one"])
        assert f"under replace-one ε {spent} of " in visit.text("#facts")
        assert visit.texts("#budget-meters .meter-text")[-1].startswith("The same noise under replace-one: ρ ")
        assert "there is no input in which a history is left out" in visit.text("#budget-words")
        assert "Total ρ, replace-one" in visit.text("#chain thead")
        assert format_rounded_up(status["rho_spent_replace_one"]) in visit.texts("#chain tbody tr")[0]
        assert verdict(visit)[0] == "good"
        assert not visit.complaints


def test_what_is_shown_is_what_the_ledger_says(half_way: ShownStudy, browser: Chromium) -> None:
    deployed = half_way.deployed
    status = deployed.status()
    deployed.do("pull", "--out", deployed.folder / "public")
    ledger = json.loads((deployed.folder / "public" / "ledger.json").read_text())
    visit = open_page(browser, half_way)

    assert visit.text("h1") == "half-way"
    assert visit.texts("#facts .figure")[:2] == ["400", "3 of 5"]
    assert visit.texts("#facts .figure")[2] == f"ε {format_epsilon(status['epsilon_spent'])}"
    assert visit.ask("[...document.querySelectorAll('.timeline li')].map(step => step.className)") == (
        ["released"] * 3 + ["open", "later"]
    )
    spent = visit.ask("[...document.querySelectorAll('#budget [role=meter]')].map(m => Number(m.ariaValueNow))")
    assert spent == [*(release["rho_spent"] for release in status["releases"].values()), status["rho_spent"]]
    rows = visit.texts("#chain tbody tr")
    assert [row.split()[0] for row in rows] == ["3", "2", "1"]
    assert [row.split()[1] for row in rows] == [
        ledger["head"][:12], ledger["periods"][2]["previous"][:12], ledger["periods"][1]["previous"][:12],
    ]  # fmt: skip
    n_pad, smallest = status["releases"]["recent"]["n_pad"], visit.text("#headroom-body p")
    assert f"every bin began with {n_pad}" in smallest
    assert not visit.complaints


def test_answers_follow_the_chosen_release_question_and_period(half_way: ShownStudy, browser: Chromium) -> None:
    visit = open_page(browser, half_way)
    assert visit.text("#asked") == "Share of people with “1” in the newest period"
    visit.click("#bins button:nth-child(2)")
    visit.wait("#bins button:nth-child(2)[aria-pressed=true]")
    visit.wait_text("#asked", "then")
    label = visit.text("#bins button:nth-child(2) .bin-label")
    shown = visit.text("#bins button:nth-child(2) .bin-value").split(" ")[0]
    assert visit.text("#reading-value") == shown
    assert visit.text("#asked") == f"Share of people with “{label[0]}”, then “{label[1]}”"

    visit.see(lambda page: page.check("input[value=ever]"))
    visit.wait_text("#asked", "so far")
    assert "in period 3" in visit.text("#reading-rest")
    visit.see(lambda page: page.focus("#period"))
    visit.press("ArrowLeft")
    assert "in period 2" in visit.text("#reading-rest")
    visit.click("#answers summary")
    table = visit.texts("#answers-table tbody tr")
    assert len(table) == 3
    assert table[1].split()[1] == visit.text("#reading-value")


def test_the_ledger_verifies_in_the_browser(half_way: ShownStudy, browser: Chromium) -> None:
    visit = open_page(browser, half_way)
    state, said = verdict(visit)
    assert state == "good", said
    assert "3 periods, 6 columns" in said
    assert visit.ask("document.querySelectorAll('#chain tr.verified').length") == 3


def test_one_changed_byte_of_what_is_served_fails_visibly(half_way: ShownStudy, browser: Chromium) -> None:
    visit = open_page(browser, half_way)
    assert verdict(visit)[0] == "good"
    for topic in ("ledger", "synthetic/recent"):
        for where in (0.1, 0.6, 0.95):
            address, tamper = f"**/api/v1/records/{topic}*", changes_a_byte(where)
            visit.see(lambda page, address=address, tamper=tamper: page.route(address, tamper))  # type: ignore[misc]
            state, said = verdict(visit)
            assert state == "bad", (topic, where)
            assert said.startswith("Verification failed.")
            assert visit.ask("document.querySelectorAll('#chain tr.verified').length") == 0
            visit.see(lambda page, address=address: page.unroute(address))  # type: ignore[misc]
    assert verdict(visit)[0] == "good"


TRICKS = """async () => {
    const { LedgerVerifier } = await import("/static/verify.js");
    const { records } = await import("/static/data.js");
    const { unpack } = await import("/static/msgpack.js");
    const values = [];
    for await (const value of records("ledger")) values.push(value);
    const kinds = values.map((value) => unpack(value).type);
    const places = (kind) => kinds.flatMap((found, place) => (found === kind ? [place] : []));
    const without = (place) => values.filter((_, other) => other !== place);
    const tricks = {
        "as it is": values,
        "no study": without(0),
        "a second study": [values[0], ...values],
        "an intent lost": without(places("intent")[1]),
        "another intent": values.toSpliced(places("intent")[1], 0, values[places("intent")[2]]),
        "a measurement lost": without(places("measurement")[1]),
        "a measurement twice": values.toSpliced(places("measurement")[1], 0, values[places("measurement")[1]]),
        "a period lost": without(places("period")[1]),
        "a period twice": [...values, values[places("period")[2]]],
    };
    const said = {};
    for (const [trick, altered] of Object.entries(tricks)) {
        const walk = new LedgerVerifier();
        try {
            for (const value of altered) await walk.add(value);
            said[trick] = "good";
        } catch (error) {
            said[trick] = error.message;
        }
    }
    return said;
}"""


def test_records_that_are_lost_added_or_repeated_break_the_chain(half_way: ShownStudy, browser: Chromium) -> None:
    said = open_page(browser, half_way).ask(TRICKS)
    assert said.pop("as it is") == "good"
    assert len(said) == 8
    assert all(problem.startswith("ledger record ") for problem in said.values()), said


COLUMNS = """async ({ contract, digest, rows, tricks }) => {
    const { verifyColumns } = await import("/static/verify.js");
    const said = {};
    const of = (value) => ({ "months-poor": value });
    const ledger = { contracts: of(contract), columns: of([digest]), rows: of(rows), snapshots: {}, isOpen: false };
    for (const [trick, values] of Object.entries(tricks)) {
        const records = (async function* () { for (const value of values) yield Uint8Array.from(value); })();
        try {
            said[trick] = await verifyColumns("months-poor", ledger, records, () => {});
        } catch (error) {
            said[trick] = error.message;
        }
    }
    return said;
}"""


def test_a_contract_of_several_records_is_verified_too(half_way: ShownStudy, browser: Chromium) -> None:
    fields = MONTHS_POOR.contract.to_dict() | {"n_star": MONTHS_POOR.n_star}
    text = fields["matrices"]
    first = pack("contract", fields | {"matrices": text[:8], "matrix_chunks": 2})
    second, third = (MatrixChunk("months-poor", part, text[8 * part : 8 * part + 8]).encode() for part in (1, 2))
    column = EXAMPLES["column-1-bit"].encoded
    tricks = {
        "as it is": [first, second, third, column],
        "matrices lost": [first, third, column],
        "matrices in another order": [first, third, second, column],
        "a changed byte": [first, second, third[:-1] + b"?", column],
        "a second contract": [first, second, third, first, column],
        "matrices alone": [second, third, column],
        "matrices after a column": [first, second, third, column, third],
    }
    said = open_page(browser, half_way).ask(
        COLUMNS,
        {
            "contract": hashlib.sha256(first + second + third).hexdigest(),
            "digest": column_digest(COLUMN, 1).hex(),
            "rows": MONTHS_POOR.n_star,
            "tricks": {trick: [list(value) for value in values] for trick, values in tricks.items()},
        },
    )
    other, misplaced = "its contract is not the one that the ledger states", "a second contract, or matrices without one"
    assert said == {
        "as it is": 1,
        "matrices lost": f"months-poor: {other}",
        "matrices in another order": f"months-poor: {other}",
        "a changed byte": f"months-poor: {other}",
        "a second contract": f"months-poor: {misplaced}",
        "matrices alone": f"months-poor: {misplaced}",
        "matrices after a column": f"months-poor: {misplaced}",
    }


def test_a_table_that_is_not_the_ledgers_fails_too(half_way: ShownStudy, browser: Chromium) -> None:
    def lie(route: Route) -> None:
        answer = route.fetch()
        found = answer.json()
        found["periods"][1]["rho_spent"] /= 2
        route.fulfill(response=answer, body=json.dumps(found))

    visit = browser.visit()
    visit.see(lambda page: page.route("**/api/v1/ledger*", lie))
    state, said = verdict(visit.go(half_way.url, released=3))
    assert (state, "period 2: the table on this page" in said) == ("bad", True)


def test_without_web_crypto_the_digests_are_the_same(half_way: ShownStudy, browser: Chromium) -> None:
    visit = open_page(browser, half_way)
    differing = visit.ask("""async () => {
        const { digest, hex } = await import("/static/sha256.js");
        const differing = [];
        for (const length of [0, 1, 3, 55, 56, 63, 64, 65, 119, 120, 1000, 100003]) {
            const bytes = Uint8Array.from({ length }, (_, place) => (place * 7919 + length) % 251);
            const right = hex(new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)));
            if (hex(digest(bytes)) !== right) differing.push(length);
        }
        return differing;
    }""")
    assert differing == []


def test_nothing_is_asked_of_another_server_and_nothing_is_kept(half_way: ShownStudy, browser: Chromium) -> None:
    visit = open_page(browser, half_way)
    verdict(visit)
    assert {urlsplit(url).netloc for url in visit.requests} == {urlsplit(half_way.url).netloc}
    assert visit.see(lambda page: page.context.cookies()) == []
    assert not visit.complaints


def test_no_individual_is_on_the_page_or_in_what_it_asked_for(half_way: ShownStudy, browser: Chromium) -> None:
    visit = browser.visit(keeps=True).go(half_way.url, released=3)
    verdict(visit)
    visit.until(lambda: len(visit.bodies) > 20)
    seen = b"".join([visit.see(lambda page: page.content()).encode(), *visit.bodies.values()])
    assert b"half-way.ledger" in seen
    for private in (b"p000", b"p123", b"p399", b"half-way.reports", b"half-way.tallies", b"half-way.control"):
        assert private not in seen


@pytest.mark.parametrize("device", [{}, PHONE], ids=["desk", "phone"])
def test_axe_finds_nothing_to_complain_of(half_way: ShownStudy, browser: Chromium, device: dict[str, Any]) -> None:
    visit = open_page(browser, half_way, reduced_motion="reduce", **device)
    verdict(visit)
    for summary in ("#answers summary", "#headroom summary"):
        visit.click(summary)
    for theme in ("light", "dark"):
        visit.ask("theme => document.documentElement.dataset.theme = theme", theme)
        report = visit.see(lambda page: Axe().run(page))
        assert report.violations_count == 0, (theme, report.generate_report())


def test_a_narrow_screen_is_never_scrolled_sideways(half_way: ShownStudy, browser: Chromium) -> None:
    visit = open_page(browser, half_way)
    verdict(visit)
    for width in (768, 390, 320):
        visit.see(lambda page, width=width: page.set_viewport_size({"width": width, "height": 800}))  # type: ignore[misc]
        visit.until(f"innerWidth === {width} && document.documentElement.scrollWidth === {width}")


@pytest.mark.parametrize("device", [{}, PHONE], ids=["desk", "phone"])
def test_a_picture_is_light_or_dark_as_the_reader_likes_it(
    half_way: ShownStudy, browser: Chromium, tmp_path: Path, device: dict[str, Any]
) -> None:
    brightness = {}
    for scheme in ("light", "dark"):
        picture = tmp_path / f"{scheme}.png"
        finished(open_page(browser, half_way, color_scheme=scheme, **device)).picture(picture)
        brightness[scheme] = float(imread(picture)[:, :, :3].mean())

    assert brightness["light"] > 0.8
    assert brightness["dark"] < 0.3


@pytest.mark.parametrize(("liked", "chosen"), [("light", "dark"), ("dark", "light")])
def test_a_theme_that_was_chosen_counts_and_not_what_the_reader_likes_elsewhere(
    half_way: ShownStudy, browser: Chromium, liked: str, chosen: str
) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    wanted = open_page(browser, half_way, color_scheme=chosen).ask(paper)
    visit = open_page(browser, half_way, color_scheme=liked)
    assert visit.ask(paper) != wanted
    visit.ask("theme => applyTheme(theme)", chosen)
    assert visit.ask(paper) == wanted


def focused(page: Page) -> str:
    """What a keyboard is on, and whether that can be seen."""
    script = """() => {
        const on = document.activeElement;
        const seen = getComputedStyle(on.matches("input[type=radio]") ? on.nextElementSibling : on).outlineStyle !== "none";
        return `${on.id || on.className || on.getAttribute("href")} ${seen ? "seen" : "unseen"}`;
    }"""
    return str(page.evaluate(script))


def test_everything_can_be_done_with_the_keyboard(half_way: ShownStudy, browser: Chromium) -> None:
    visit = open_page(browser, half_way)
    visit.press("Tab")
    assert visit.see(focused) == "skip seen"
    visit.press("Enter", "Tab")
    assert visit.ask("document.activeElement.value") == "recent"
    visit.press("ArrowRight")
    visit.wait_text("#asked", "so far")
    visit.wait_text("#bins-title", "At least this many periods")
    stops: list[str] = []
    while "verify-button" not in "".join(stops):
        visit.press("Tab")
        stops.append(visit.see(focused))
        assert len(stops) < 40, stops
    assert all(stop.endswith(" seen") for stop in stops), stops
    visit.press("Enter")
    visit.wait(".verdict[data-state=good]")
    visit.see(lambda page: page.focus("#theme"))
    visit.press("Space", "Space")
    assert visit.ask("document.documentElement.dataset.theme") == "dark"
    visit.see(lambda page: page.reload())
    assert visit.ask("document.documentElement.dataset.theme") == "dark"


def test_what_is_to_be_copied_is_copied(half_way: ShownStudy, browser: Chromium) -> None:
    visit = open_page(browser, half_way, permissions=["clipboard-read", "clipboard-write"])
    # Looked out for from before the click on, as it is said for a moment only.
    visit.ask("""() => {
        const said = (button) => button.textContent === "Copied";
        const look = () => { window.wasSaid ||= [...document.querySelectorAll("button")].some(said); };
        new MutationObserver(look).observe(document.body, { childList: true, subtree: true });
    }""")
    visit.click("[aria-label='Copy half-way.ledger']")
    visit.until("window.wasSaid")
    assert visit.ask("navigator.clipboard.readText()") == "half-way.ledger"


def test_the_program_that_subscribes_to_an_embedded_study_runs_as_it_is_shown(
    half_way: ShownStudy, browser: Chromium, tmp_path: Path
) -> None:
    visit = open_page(browser, half_way)
    where = "in a folder of the machine that runs this study. If the study file names that folder, the commands"
    assert where in visit.text("#subscribe-body")
    (tmp_path / "half-way.toml").write_text(
        half_way.deployed.parameters.text(f"embedded:{half_way.deployed.folder / 'log'}")
    )
    program = visit.text("#subscribe-body pre[aria-label='the program']")
    assert "kafka" not in program

    command = [sys.executable, "-u", "-c", program]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        assert running.stdout is not None
        lines = [running.stdout.readline() for _ in range(2)]
        running.kill()
    assert [line.split()[0] for line in lines] == ["1", "2"]

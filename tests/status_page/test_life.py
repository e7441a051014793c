"""The page over a study's life, never reloaded: before its start, while it goes on or its server is away, after its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.status_page.browser import Chromium
from tests.status_page.shown_study import ShownStudy, sticky
from tests.stream.programs import Programs
from tests.studies import StudyParameters

pytestmark = pytest.mark.browser


def test_a_page_that_is_left_open_follows_the_study_to_its_end(new_study: ShownStudy, browser: Chromium) -> None:
    panel = new_study.deployed.write_panel(sticky("01", 300, 4, stays=0.8, first=(0.7, 0.3), seed=7))
    new_study.serve()
    visit = browser.visit().go(new_study.url, released=0)
    visit.ask("window.neverReloaded = true")
    assert "Nothing is released yet" in visit.text("#lede")
    assert "about 300" in visit.text("#facts")
    assert visit.ask("document.querySelectorAll('.timeline .released').length") == 0

    new_study.release(panel, 1, 2)
    visit.wait('html[data-shown="2"]')
    assert visit.text("#announce") == "Period 2 is released."
    visit.wait("#release-choice label:nth-of-type(2)")
    visit.wait("#chain tbody tr:nth-child(2)")

    visit.click("#headroom summary")
    visit.see(lambda page: page.focus("#bins button:nth-child(2)"))
    new_study.release(panel, 3, 3)
    visit.wait('html[data-shown="3"]')
    assert visit.ask("document.querySelector('#headroom details').open"), "what was opened stays open"
    assert visit.ask("document.activeElement.className") == "bin", "and focus where it was"

    new_study.kill()
    visit.wait(".live[data-state=away]")
    assert "Reconnecting" in visit.text("#live")
    assert visit.texts("#facts .figure")[1] == "3 of 4"
    new_study.serve()
    visit.wait(".live[data-state=live]")

    new_study.release(panel, 4, 4)
    visit.wait('html[data-shown="4"]')
    assert "The study is over" in visit.text("#lede")
    assert "never" in visit.text("#facts")
    assert visit.ask("window.neverReloaded") is True
    assert all("Failed to load resource" in line or "ERR_" in line for line in visit.complaints), visit.complaints


def test_an_insecure_study_with_clamped_bins_says_both_loudly(tmp_path: Path, browser: Chromium) -> None:
    parameters = StudyParameters("loud", horizon=4, k=3, people=60, rho=0.001, beta=0.999)
    with Programs(tmp_path) as programs:
        shown = ShownStudy(tmp_path / "study", programs, parameters)
        panel = shown.deployed.write_panel(sticky("01", 60, 4, stays=1.0, first=(1.0, 0.0), seed=8))
        shown.serve("--seed", 6)
        shown.release(panel, 1, 4)
        assert shown.deployed.status()["releases"]["recent"]["clamped"] > 0
        visit = browser.visit().go(shown.url, released=4)
        assert visit.text(".alert.danger").startswith("Insecure: this study protects nobody.")
        assert "protected" not in visit.text("#lede")
        assert "Nobody is protected" in visit.text("#budget-words")
        assert "clamped at zero" in visit.text("#headroom")
        numbers = "[...document.querySelectorAll('.timeline .clamped .number')].map(step => +step.lastChild.textContent)"
        clamped = visit.ask(numbers)
        assert clamped
        assert visit.ask("document.querySelectorAll('#headroom .bar.clamped').length") > 0
        visit.click("#answers summary")
        marked = [int(row.split()[0]) for row in visit.texts("#answers-table tbody tr") if row.endswith("too narrow")]
        assert marked == clamped
        visit.see(lambda page: page.fill("#period", str(clamped[0])))
        assert visit.text("#reading-rest").endswith("too narrow: bins were clamped")
        assert visit.ask("document.getElementById('period').getAttribute('aria-valuetext')").endswith("bins were clamped")
        assert visit.ask("document.querySelectorAll('#chart .dot.clamped').length") == len(clamped)
        visit.see(lambda page: page.check("input[value=ever]"))
        visit.wait_text("#asked", "so far")
        assert "too narrow" not in visit.text("#answers figure")

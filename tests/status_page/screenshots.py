"""Pictures of the status page: `python -m tests.status_page.screenshots [FOLDER]`.

Without a folder it makes docs/images/status-page.png; with one, a picture of each moment that a designer should look at.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.status_page.browser import MISSING, PROGRAM, Chromium, Visit
from tests.status_page.shown_study import ShownStudy, losing_work, sticky
from tests.stream.programs import ROOT, Programs
from tests.studies import StudyParameters

PICTURE = ROOT / "docs" / "images" / "status-page.png"

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
DARK = {"color_scheme": "dark"}


def monthly(months: int) -> str:
    """A schedule of whose periods so many are over."""
    now = datetime.now(UTC)
    start = (now - timedelta(days=30.4 * months + 12)).replace(hour=0, minute=0, second=0, microsecond=0)
    return f'\n[schedule]\nstart = {start.isoformat(timespec="seconds")}\nevery = "month"\n'


def half_way(folder: Path, programs: Programs) -> ShownStudy:
    """Seven of twelve months of a study of some size."""
    people = 24_000
    parameters = StudyParameters(
        "employment",
        horizon=12,
        k=3,
        people=people,
        rho=0.005,
        schedule=monthly(7),
        releases=("quarterly", "months-out-of-work"),
    )
    shown = ShownStudy(folder, programs, parameters)
    panel = shown.deployed.write_panel(losing_work(people, 12, seed=4))
    shown.deployed.do("send", panel, "--through", 7)
    shown.serve("--catch-up")
    return shown


def not_started(folder: Path, programs: Programs) -> ShownStudy:
    shown = ShownStudy(folder, programs, StudyParameters("before", horizon=6, k=2, people=2_000))
    shown.serve()
    return shown


def clamped(folder: Path, programs: Programs) -> ShownStudy:
    """Seeded, three symbols, hardly any padding: insecure, over, and with clamped bins."""
    parameters = StudyParameters(
        "clamped",
        alphabet=("work", "study", "neither"),
        event=("neither",),
        horizon=8,
        k=2,
        people=900,
        rho=0.02,
        beta=0.999,
    )
    shown = ShownStudy(folder, programs, parameters)
    panel = shown.deployed.write_panel(sticky(parameters.alphabet, 900, 8, stays=0.97, first=(0.9, 0.08, 0.02), seed=5))
    shown.serve("--seed", 27)
    shown.release(panel, 1, 8)
    return shown


def finished(visit: Visit) -> Visit:
    """With the ledger verified, as a reader would leave it."""
    if visit.ask("!document.getElementById('verify-button').disabled"):
        visit.click("#verify-button")
        visit.wait(".verdict[data-state=good], .verdict[data-state=bad]")
        visit.ask("scrollTo({top: 0, behavior: 'instant'})")
    return visit


@contextmanager
def studio() -> Iterator[tuple[Path, Programs, Chromium]]:
    with (
        tempfile.TemporaryDirectory(prefix="streamproc-") as folder,
        Programs(Path(folder)) as programs,
        closing(Chromium()) as browser,
    ):
        yield Path(folder), programs, browser


def the_picture() -> None:
    """The first screen of a study half-way, for the README."""
    with studio() as (folder, programs, browser):
        shown = half_way(folder / "study", programs)
        visit = browser.visit(viewport={"width": 1200, "height": 1215}).go(shown.url, released=7)
        visit.see(lambda page: page.wait_for_timeout(500))
        PICTURE.parent.mkdir(parents=True, exist_ok=True)
        visit.picture(PICTURE, whole=False)


def all_moments(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    looks: dict[str, dict[str, Any]] = {"light": {}, "dark": DARK, "phone": PHONE, "phone-dark": PHONE | DARK}
    with studio() as (folder, programs, browser):
        for moment, released in ((half_way, 7), (not_started, 0), (clamped, 8)):
            shown = moment(folder / moment.__name__, programs)
            for look, options in looks.items():
                visit = finished(browser.visit(**options).go(shown.url, released=released))
                visit.picture(out / f"{moment.__name__}-{look}.png")
                print(f"{moment.__name__}-{look}.png", *visit.complaints)


if __name__ == "__main__":
    if PROGRAM is None:
        sys.exit(MISSING)
    if len(sys.argv) > 1:
        all_moments(Path(sys.argv[1]))
    else:
        the_picture()

"""`send` over the file that docs/study.md shows."""

from __future__ import annotations

from pathlib import Path

from tests.bad_input import PANEL_STUDY
from tests.cli.conftest import Command


def test_a_study_under_way_is_sent_from_the_file_that_the_page_shows(tmp_path: Path, streamproc: Command) -> None:
    """One column at a time; those to come are there and empty."""
    page = (Path(__file__).parents[2] / "docs" / "study.md").read_text()
    text = page.partition("```csv\n")[2].partition("```")[0]
    study, panel = tmp_path / "study.toml", tmp_path / "people.csv"
    study.write_text(PANEL_STUDY.replace("horizon = 3", "horizon = 4"))
    panel.write_text(text)

    assert streamproc("send", study, panel, "--period", 2).out == "sent 2 reports of period 2 (0 missing)\n"
    assert streamproc("send", study, panel, "--period", 3).out == "sent 0 reports of period 3 (2 missing)\n"
    panel.write_text("".join(f"{line.rsplit(',', 1)[0]}\n" for line in text.splitlines()))
    refused = streamproc("send", study, panel, "--period", 2)
    assert refused.code == 2
    assert "expected the header individual,1,...,4" in refused.complaint

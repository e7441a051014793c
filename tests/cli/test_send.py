"""`send` over the file of a study under way, as docs/study.md shows it."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.bad_input import PANEL_STUDY
from tests.cli.conftest import Command, Ended

HEADER = "individual,1,2,3,4"


def written(folder: Path, *rows: str) -> tuple[Path, Path]:
    """A study of four periods with a roster, and a panel."""
    study, panel = folder / "study.toml", folder / "people.csv"
    changed = PANEL_STUDY.replace("horizon = 3", "horizon = 4").replace("size = 2", 'size = 2\nroster = "roster.txt"')
    study.write_text(changed)
    (folder / "roster.txt").write_text("ann\nbob\n")
    panel.write_text("\n".join([HEADER, *rows, ""]))
    return study, panel


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


@pytest.mark.parametrize(
    ("rows", "last"), [(("ann,0,1,,", "bob,1,1,,"), 2), (("ann,0,,1,", "bob,1,,,"), 3), (("ann,,,,", "bob,,,,"), 0)]
)
def test_periods_to_come_are_not_closed_with_the_others(
    tmp_path: Path, streamproc: Command, rows: tuple[str, ...], last: int
) -> None:
    """A release cannot be taken back, and would spend the whole budget on what was carried on."""
    study, panel = written(tmp_path, *rows)

    ended = streamproc("send", study, panel, "--close")

    assert ended.code == 0
    assert re.findall("period (.) closed", ended.out) == [str(period) for period in range(1, last + 1)]
    why = "are neither sent nor closed, because the file has no report of them; --through 4 closes them too"
    assert f"periods from {last + 1} on {why}\n" in ended.complaint
    assert streamproc("close", study, "--period", last + 1).out == f"period {last + 1} closed\n"


def test_every_period_that_is_sent_or_closed_is_shown_even_if_empty(tmp_path: Path, streamproc: Command) -> None:
    study, panel = written(tmp_path, "ann,0,,1,", "bob,1,,1,")
    sent, closed = "sent {} reports of period {} ({} missing)\n", "period {} closed\n"

    ended = streamproc("send", study, panel, "--through", 3, "--close")
    assert ended.code == 0
    assert ended.out == "".join(
        sent.format(count, period, 2 - count) + closed.format(period) for period, count in ((1, 2), (2, 0), (3, 2))
    )
    ended = streamproc("send", study, panel, "--period", 4, "--close")
    assert (ended.code, ended.out) == (0, sent.format(0, 4, 2) + closed.format(4))


def test_closing_a_period_without_reports_says_so(tmp_path: Path, streamproc: Command) -> None:
    """It may have been sent ahead, so this refuses nothing."""
    study, panel = written(tmp_path, "ann,0,1,0,1", "bob,1,1,0,1")
    remark = "period {}: no report has come since period {} was closed\n"

    assert streamproc("send", study, panel, "--through", 2).code == 0
    assert streamproc("close", study, "--period", 1) == Ended(0, "period 1 closed\n", "")
    assert streamproc("close", study, "--period", 2) == Ended(0, "period 2 closed\n", remark.format(2, 1))
    assert streamproc("close", study, "--period", 2) == Ended(0, "period 2 was closed already\n", "")
    assert streamproc("send", study, panel, "--period", 3, "--close").complaint == ""
    panel.write_text(panel.read_text().replace(",0,1\n", ",0,\n"))
    assert streamproc("send", study, panel, "--period", 4, "--close").complaint == remark.format(4, 3)


def test_a_whole_file_is_sent_and_closed_though_nobody_reported_to_a_period_in_its_midst(
    tmp_path: Path, streamproc: Command
) -> None:
    study, panel = written(tmp_path, "ann,0,,1,1", "bob,1,,1,")
    assert streamproc("send", study, panel, "--close").out.endswith("period 4 closed\n")


def test_topics_that_send_or_close_creates_are_named_once(tmp_path: Path, streamproc: Command) -> None:
    """A study of another name is a new study; the message shows a mistyped name."""
    study, panel = written(tmp_path, "ann,0,1,0,1", "bob,1,1,0,1")
    kinds = ("reports", "control", "tallies", "rejects", "ledger", "synthetic.pairs")
    created = "created topics " + ", ".join(f"{{0}}.{kind}" for kind in kinds) + "\n"

    assert streamproc("send", study, panel, "--period", 1).complaint == created.format("small")
    assert streamproc("send", study, panel, "--period", 2).complaint == ""
    study.write_text(study.read_text().replace('"small"', '"smal"'))
    closed = streamproc("close", study, "--period", 1)
    assert closed.complaint == created.format("smal")
    assert (closed.code, closed.out) == (0, "period 1 closed\n")
    assert "created" not in streamproc("close", study, "--period", 1).complaint


LATE = "period {} was closed before: these reports are late and do not count\n"


def test_sending_all_again_sends_all_and_says_which_do_not_count(tmp_path: Path, streamproc: Command) -> None:
    study, panel = written(tmp_path, "ann,0,1,0,1", "bob,1,1,0,1")
    sent, closed = "sent 2 reports of period {} (0 missing)\n", "period {} closed\n"
    assert streamproc("send", study, panel, "--through", 1, "--close").code == 0

    again = streamproc("send", study, panel, "--through", 3)
    assert again == Ended(0, "".join(map(sent.format, (1, 2, 3))), LATE.format(1))
    rest = streamproc("send", study, panel, "--close")
    closing = "".join(sent.format(period) + closed.format(period) for period in (2, 3, 4))
    assert (rest.out, rest.complaint) == (sent.format(1) + closing, LATE.format(1))
    over = streamproc("send", study, panel, "--through", 3, "--close")
    assert over == Ended(0, "".join(map(sent.format, (1, 2, 3))), "".join(map(LATE.format, (1, 2, 3))))


def test_reports_further_ahead_than_the_study_allows_are_sent_with_a_warning(tmp_path: Path, streamproc: Command) -> None:
    study, panel = written(tmp_path, "ann,0,1,0,1", "bob,1,1,0,1")
    study.write_text(study.read_text().replace("[population]", "[population]\nahead = 2"))

    early = "period {}: these reports are rejected unless period {} was closed before\n"
    assert streamproc("send", study, panel).complaint.endswith(early.format(3, 1) + early.format(4, 2))
    assert streamproc("send", study, panel, "--close").complaint == ""


def test_a_closed_period_that_is_asked_for_by_itself_is_sent_with_a_warning(tmp_path: Path, streamproc: Command) -> None:
    study, panel = written(tmp_path, "ann,0,1,0,1", "bob,1,1,0,1")
    assert streamproc("send", study, panel, "--through", 2, "--close").code == 0

    sent = "sent 2 reports of period 2 (0 missing)\n"
    assert streamproc("send", study, panel, "--period", 2) == Ended(0, sent, LATE.format(2))


def test_who_is_left_out_for_want_of_a_first_report_is_said_with_that_period_only(
    tmp_path: Path, streamproc: Command
) -> None:
    study, panel = written(tmp_path, "ann,,1,0,1", "bob,1,1,0,1")
    study.write_text(study.read_text().replace('roster = "roster.txt"', ""))
    left_out = "people without a report in period 1: 1; as there is no roster, they are not in the study\n"

    assert streamproc("send", study, panel, "--period", 1).complaint.endswith(left_out)
    assert streamproc("send", study, panel, "--period", 2).complaint == ""
    assert streamproc("send", study, panel, "--through", 2, "--close").complaint.startswith(left_out)
    assert left_out not in streamproc("send", study, panel, "--close").complaint


REJECTED = "people in the file who are not on the roster: 1; their reports will be rejected\n"


def test_somebody_who_is_not_on_the_roster_is_sent_and_it_is_said_what_becomes_of_that(
    tmp_path: Path, streamproc: Command
) -> None:
    study, panel = written(tmp_path, "ann,0,1,0,1", "zoe-secret,1,1,0,1")
    sent = "sent 2 reports of period {} (0 missing)\n"
    first = streamproc("send", study, panel, "--period", 1)
    assert (first.code, first.out) == (0, sent.format(1))
    assert first.complaint.endswith(f"\n{REJECTED}")
    assert streamproc("send", study, panel, "--period", 2) == Ended(0, sent.format(2), REJECTED)


@pytest.mark.parametrize("why", ["missing", "not permitted"])
def test_who_has_no_roster_can_report_to_a_study_that_has_begun_though_not_close_it(
    tmp_path: Path, streamproc: Command, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    study, panel = written(tmp_path, "ann,0,1,0,1", "zoe-secret,1,1,0,1")
    assert streamproc("send", study, panel, "--through", 4, "--close").code == 0
    assert streamproc("run", study, "--until-done").code == 0
    if why == "missing":
        (tmp_path / "roster.txt").unlink()
    else:
        keep_out(monkeypatch, tmp_path / "roster.txt")

    sent = "sent 2 reports of period 2 (0 missing)\n"
    assert streamproc("send", study, panel, "--period", 2) == Ended(0, sent, LATE.format(2))
    elsewhere = ["--state", tmp_path / "lost"]
    for command in (["send", study, panel, "--close"], ["init", study], ["run", study], ["restore", study, *elsewhere]):
        refused = streamproc(*command)
        assert refused.code == 2
        assert "roster.txt: cannot be read: " in refused.complaint


def keep_out(monkeypatch: pytest.MonkeyPatch, forbidden: Path) -> None:
    """Deny access to a path, also to root. Not even its existence can be checked."""

    def guarded(look: Callable[[Path], Any]) -> Callable[[Path], Any]:
        def asked(path: Path) -> Any:
            if path == forbidden:
                raise PermissionError(errno.EACCES, "Permission denied")
            return look(path)

        return asked

    for name in ("read_bytes", "exists"):
        monkeypatch.setattr(Path, name, guarded(getattr(Path, name)))


def test_a_roster_that_is_none_is_said_to_be_wrong(tmp_path: Path, streamproc: Command) -> None:
    study, panel = written(tmp_path, "ann,0,1,0,1", "bob,1,1,0,1")
    (tmp_path / "roster.txt").write_text("ann\nann\n")
    refused = streamproc("send", study, panel, "--period", 1)
    assert (refused.code, refused.out) == (2, "")

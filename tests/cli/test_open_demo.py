"""The simulated people of `demo --open` sign up and leave, and its screen shows who is present and what it costs them."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from streamproc.cli.declarations import DEMO_PEOPLE
from streamproc.cli.demo.open_population import (
    ABSENT_AFTER,
    MISSING_SHARE,
    MONTHS,
    PRICE_RISE,
    TENURE,
    open_study_text,
    simulate_open_reports,
    true_months,
)
from streamproc.cli.demo.open_screen import OpenMonth, OpenScreen
from streamproc.cli.demo.progress import AnswerVsTruth
from streamproc.cli.demo.simulated_study import panel_csv
from streamproc.files.study_files import read_study
from streamproc.log.connect import connect
from streamproc.offline.people import MISSING
from streamproc.panel import Answer, Panel, count_of
from streamproc.privacy.types import Period, Rho
from streamproc.releases.contracts import make_contracts
from streamproc.releases.open_flow import FLOW_QUERIES
from streamproc.releases.synthesis import Synthesis
from streamproc.storage.entropy import SeededEntropy
from streamproc.study import parse_study
from tests.cli.conftest import Command
from tests.status_page.serving import served

STUDY = parse_study(open_study_text(DEMO_PEOPLE))
REPORTS = simulate_open_reports(DEMO_PEOPLE)


def first_and_last() -> tuple[np.ndarray, np.ndarray]:
    reported = REPORTS.symbols != MISSING
    return reported.argmax(axis=1), MONTHS - 1 - reported[:, ::-1].argmax(axis=1)


def test_people_sign_up_in_every_month_and_report_for_a_tenure_at_most() -> None:
    first, last = first_and_last()
    assert set(first) == set(range(MONTHS))
    stays = last - first + 1
    assert stays.max() == TENURE
    early = first <= MONTHS - TENURE
    assert 0.5 < (stays[early] >= TENURE - 1).mean() < 0.9


def test_every_run_has_the_same_people() -> None:
    again = simulate_open_reports(DEMO_PEOPLE)
    assert again.ids == REPORTS.ids
    assert (again.symbols == REPORTS.symbols).all()
    assert simulate_open_reports(1).size >= 1


def test_few_reports_are_missing_between_the_first_and_the_last() -> None:
    first, last = first_and_last()
    month = np.arange(MONTHS)
    between = (month > first[:, None]) & (month < last[:, None])
    assert (REPORTS.symbols[between] == MISSING).mean() == pytest.approx(MISSING_SHARE, abs=0.004)


def test_the_truth_follows_from_the_reports_alone() -> None:
    """Counted once more in plain Python, person by person."""
    contract = make_contracts(STUDY, 0, SeededEntropy(1))["quarterly"]
    counted = [{"present": 0, "entered": 0, "left": 0} for _ in range(MONTHS + 1)]
    asked = np.zeros((MONTHS + 1, 2), dtype=int)
    for row in REPORTS.symbols.tolist():
        filled: list[int] = []
        missed = 0
        for month, symbol in enumerate(row, start=1):
            if not filled:
                if symbol == MISSING:
                    continue
                counted[month]["entered"] += 1
            missed = missed + 1 if symbol == MISSING else 0
            if len(filled) == TENURE or missed == ABSENT_AFTER:
                counted[month]["left"] += 1
                break
            filled.append(filled[-1] if symbol == MISSING else symbol)
            counted[month]["present"] += 1
            if len(filled) >= 3:
                asked[month] += (any(filled[-3:]), 1)
    query = count_of({"1"}, at_least=1, of=3)
    for truth in true_months(STUDY, REPORTS):
        exact = {known.name: truth.number(contract, known.query) for known in FLOW_QUERIES}
        assert exact == counted[truth.period]
        yes, everybody = asked[truth.period].tolist()
        assert truth.share(contract, query) == pytest.approx(yes / max(everybody, 1))
    after_a_year = [counts["present"] for counts in counted[TENURE + 1 :]]
    assert DEMO_PEOPLE * 0.9 < min(after_a_year) <= max(after_a_year) < DEMO_PEOPLE * 1.1
    assert asked[PRICE_RISE[-1], 0] / asked[PRICE_RISE[-1], 1] > 1.5 * asked[24, 0] / asked[24, 1]


def test_the_estimates_of_a_whole_run_are_near_the_truth() -> None:
    """36 months and 3 numbers. The noise is seeded; of other seeds about 1 in 1,000 would miss more than 20 of the 108."""
    contracts = make_contracts(STUDY, 0, SeededEntropy(1))
    synthesis = Synthesis.start(contracts)
    contract, panel = contracts["quarterly"], Panel(contracts["quarterly"])
    held, compared = 0, 0
    for truth in true_months(STUDY, REPORTS):
        synthesis, steps = synthesis.step(truth.tallies, SeededEntropy(1))
        panel = panel.extended(steps["quarterly"])
        for known in FLOW_QUERIES:
            answer = panel.people(known.query)
            held += answer.low <= truth.number(contract, known.query) <= answer.high
            compared += 1
    assert compared == 3 * MONTHS
    assert held >= compared - 20
    assert synthesis.spent <= STUDY.privacy.budget


def test_its_panel_file_has_a_column_for_each_month() -> None:
    head = panel_csv(simulate_open_reports(10)).partition(b"\n")[0].decode()
    assert head == ",".join(["individual", *map(str, range(1, MONTHS + 1))])


def month(period: int, spent: float, *, asked: bool = True) -> OpenMonth:
    present = AnswerVsTruth(4_800, Answer("present", Period(1), 4_812.4, 50.0, 4_712.0, 4_915.0, 0.95))
    share = AnswerVsTruth(0.131, Answer("share", Period(1), 0.2, 0.01, 0.18, 0.22, 0.95)) if asked else None
    return OpenMonth(Period(period), 4_000, present, 433.2, -3.0, share, Rho(spent))


def test_the_screen_shows_who_is_present_a_share_and_the_cost_of_one_person(capsys: pytest.CaptureFixture[str]) -> None:
    with OpenScreen(STUDY) as screen:
        screen.introduce(DEMO_PEOPLE, seeded=True)
        screen.add_month(month(1, 0.001, asked=False))
        for period in (2, 3, 4):
            screen.add_month(month(period, 0.02))
        screen.conclude()
    shown = capsys.readouterr().out
    assert max(len(line) for line in shown.splitlines()) <= 80
    first, *others = [line.split() for line in shown.splitlines() if line.startswith("    ") and line[4].isdigit()]
    assert first == ["1", "4,800", "4,812", "4,712-4,915", "433", "-3", "-", "0.183"]
    assert others[0] == ["2", "4,800", "4,812", "4,712-4,915", "433", "-3", "13.1", "20.0", "18.0-22.0", "0.9"]
    text = " ".join(shown.split())
    assert "one person's whole participation costs at most rho 0.02, which is epsilon 0.9 at delta 1e-6" in text
    assert "The noise comes from a seed" in text
    assert "16,000 reports became 8 columns" in text
    assert "It is the same after 2 months and after any number." in text
    assert "4 of 7 intervals hold the truth" in text


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def shown(folder: Path) -> str:
    """What a seeded demo of few people printed; it ended by itself with 0 and complained of nothing."""
    command = [sys.executable, "-m", "streamproc", "demo", "--open", "--people", "600", "--out", str(folder), "--seed", "7"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


def test_it_streams_three_years_and_ends_with_the_last_month(shown: str, folder: Path, streamproc: Command) -> None:
    lines = [line.split() for line in shown.splitlines() if line.startswith("    ") and line[4].isdigit()]
    lines += [line.split() for line in shown.splitlines() if line.startswith("   ") and line[3:5].isdigit()]
    assert [int(line[0]) for line in lines] == list(range(1, MONTHS + 1))
    epsilons = [float(line[-1]) for line in lines]
    assert epsilons == sorted(epsilons)
    assert len(set(epsilons[TENURE:])) == 1
    found = json.loads(streamproc("status", folder / "study.toml", "--json").out)
    assert (found["released"], found["watermark"], found["over"], found["horizon"]) == (MONTHS, MONTHS, True, None)
    assert found["insecure"] is True
    present = found["releases"]["quarterly"]["present"]
    assert f"{present['value']:,.0f}" == lines[-1][2]


def test_what_it_released_verifies_and_roles_have_nothing_to_do(shown: str, folder: Path, streamproc: Command) -> None:
    study = folder / "study.toml"
    verified = streamproc("verify", study)
    assert verified.code == 0
    assert verified.out.startswith(f"accounts: {MONTHS} periods, {2 * MONTHS} columns verified, head ")
    for command in (["run", "--until-done"], ["gather"], ["synthesize"]):
        seed = [] if command[0] == "gather" else ["--seed", "7"]
        words = [sys.executable, "-m", "streamproc", *command, str(study), *seed]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        assert "the study is over" in done.stderr
    refused = streamproc("close", study, "--period", MONTHS + 1)
    assert (refused.code, refused.complaint) == (
        2,
        f"streamproc: period {MONTHS + 1}: the study ended with period {MONTHS}\n",
    )


def test_it_streamed_what_a_replay_of_its_panel_releases(
    shown: str, folder: Path, tmp_path: Path, streamproc: Command
) -> None:
    study = folder / "study.toml"
    assert (
        streamproc("pull", study, "--out", tmp_path / "streamed").out == f"period {MONTHS}: wrote {tmp_path / 'streamed'}\n"
    )
    replayed = streamproc("replay", study, folder / "panel.csv", "--out", tmp_path / "replayed", "--seed", 7)
    assert replayed.code == 0
    for name in ("quarterly.csv", "spells.csv"):
        assert (tmp_path / "streamed" / name).read_bytes() == (tmp_path / "replayed" / name).read_bytes()


def test_the_commands_it_suggests_work(shown: str, streamproc: Command) -> None:
    commands = [shlex.split(line) for line in shown.splitlines() if line.startswith("  ") and "streamproc " in line]
    arguments = [command[command.index(next(c for c in command if c.endswith("streamproc"))) + 1 :] for command in commands]
    assert [words[0] for words in arguments] == ["status", "verify", "watch", "pull", "plan", "replay"]
    for words in arguments:
        if "--repeat" in words:
            words[words.index("--repeat") + 1] = "2"
        assert streamproc(*words).code == 0


def test_watch_shows_who_is_present_and_a_share_once_enough_people_can_be_asked(
    shown: str, folder: Path, streamproc: Command
) -> None:
    lines = streamproc("watch", folder / "study.toml", "--release", "spells").out.splitlines()
    assert len(lines) == MONTHS
    assert re.fullmatch(r"spells period 36: \d+ ±\d+ present, in a spell now \S+% ±\S+%; \d+ rows, sha256 \w+", lines[-1])


def test_what_is_sent_after_the_end_is_late_or_refused(shown: str, folder: Path, streamproc: Command) -> None:
    study, panel = folder / "study.toml", folder / "panel.csv"
    late = streamproc("send", study, panel, "--period", MONTHS)
    assert late.code == 0
    assert re.fullmatch(r"sent \d+ reports of period 36\n", late.out)
    assert "these reports are late and do not count" in late.complaint
    longer = folder / "longer.csv"
    longer.write_text("".join(f"{line},\n" for line in panel.read_text().splitlines()).replace("36,\n", "36,37\n", 1))
    after = streamproc("send", study, longer, "--period", MONTHS + 1)
    assert (after.code, after.complaint) == (2, f"streamproc: period {MONTHS + 1}: the study ended with period {MONTHS}\n")


async def test_the_page_shows_the_released_study_and_its_files(shown: str, folder: Path) -> None:
    study = read_study(folder / "study.toml")
    async with connect("embedded:log", folder=folder) as log, served(log, study) as page:
        status = await page.status_when(lambda found: bool(found["following"]) and found["released"] == MONTHS)
        assert (status["state"], status["problem"], status["n"]) == ("over", None, None)
        for release in status["releases"]:
            code, _, body = await page.get(f"/api/v1/releases/{release['name']}.csv")
            assert code == 200
            rows = [line.split(",") for line in body.decode().splitlines()]
            assert rows[0] == ["synthetic", *map(str, range(1, MONTHS + 1))]
            assert len(rows) - 1 == release["n_star"]
            assert sum(row[-1] != "" for row in rows[1:]) == release["people"]["present"]["value"]
            assert all(1 <= sum(cell != "" for cell in row[1:]) <= TENURE for row in rows[1:])


def test_after_its_end_it_can_be_purged_and_verified(shown: str, folder: Path, tmp_path: Path, streamproc: Command) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    purged = streamproc("purge", copy / "study.toml", "--yes")
    assert (purged.code, purged.out.count("accounts.")) == (0, 5)
    assert streamproc("verify", copy / "study.toml").code == 0
    assert streamproc("close", copy / "study.toml", "--period", MONTHS).out == f"period {MONTHS} was closed already\n"
    assert streamproc("close", copy / "study.toml", "--period", MONTHS + 1).code == 2

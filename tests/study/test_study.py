"""A study says what its file says, fills in what is left out, and cannot be made wrong in Python either."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction
from itertools import product
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamproc.errors import InvalidInput, StudyError
from streamproc.offline.people import People
from streamproc.privacy.adjacency import Adjacency
from streamproc.privacy.zcdp import rho_of_epsilon
from streamproc.releases.contracts import release_budgets
from streamproc.study import (
    Broker,
    CumulativeRelease,
    Missing,
    Population,
    Privacy,
    Question,
    Schedule,
    SpellRelease,
    Study,
    WindowRelease,
    bin_label,
    bin_labels,
    parse_study,
)
from streamproc.study.fingerprint import fingerprint, public_values
from streamproc.study.releases import MAX_PERIOD
from tests.bad_input import GOOD_STUDY

FULL_STUDY = """
[study]
name = "poverty"
alphabet = ["A", "B", "C"]
horizon = 12

[population]
size = 23374
roster = "people.txt"
missing = "fill:B"
initial = "C"
duplicates = "last"
ahead = 2

[privacy]
epsilon = 1
delta = 1e-9
adjacency = "zero-out"

[[release]]
name = "quarterly"
kind = "window"
k = 3
measure = "paper"
beta = 0.01
share = 0.1

[[release]]
name = "months-poor"
kind = "cumulative"
measure = "paper"
event = ["B", "C"]
share = 0.7

[[release]]
name = "pairs"
kind = "window"
k = 2

[[release]]
name = "single"
kind = "window"
k = 1

[broker]
url = "kafka://one:9092,[::1]:9093"
partitions = 8

[schedule]
start = 2026-01-31T02:00:00+02:00
every = "month"
grace = "5m"
"""


def study(**changes: Any) -> Study:
    return replace(parse_study(GOOD_STUDY), **changes)


def test_a_full_study_is_read_as_written() -> None:
    assert parse_study(FULL_STUDY) == Study(
        name="poverty",
        alphabet=("A", "B", "C"),
        horizon=12,
        population=Population(
            size=23374, roster="people.txt", missing=Missing(fill="B"), initial="C", duplicates="last", ahead=2
        ),
        privacy=Privacy(epsilon=1.0, delta=1e-9, adjacency=Adjacency.ZERO_OUT),
        releases=(
            WindowRelease("quarterly", k=3, measure="paper", beta=0.01, share=Fraction(1, 10)),
            CumulativeRelease("months-poor", ("B", "C"), measure="paper", share=Fraction(7, 10)),
            WindowRelease("pairs", k=2, share=Fraction(1, 10)),
            WindowRelease("single", k=1, share=Fraction(1, 10)),
        ),
        broker=Broker("kafka://one:9092,[::1]:9093", partitions=8),
        schedule=Schedule(datetime(2026, 1, 31, tzinfo=UTC), "month", timedelta(minutes=5)),
    )


def test_an_optional_key_enters_the_fingerprint_only_when_it_is_there() -> None:
    without, limited = study(), study(population=Population(initial="0", ahead=2))
    assert "ahead" not in public_values(without)["population"]
    assert public_values(limited)["population"]["ahead"] == 2
    assert fingerprint(without, None).hex() == "11ccea5d4838908e72b15e318ee2ecd09410b1486486daba4efbc3f7b5c1c5c9"
    assert fingerprint(limited, None) != fingerprint(without, None)


def test_everything_but_study_privacy_and_a_release_has_a_default() -> None:
    cumulative = '[[release]]\nname = "months"\nkind = "cumulative"\n'
    assert parse_study(GOOD_STUDY + cumulative) == Study(
        name="poverty",
        alphabet=("0", "1"),
        horizon=12,
        population=Population(size=None, roster=None, missing=Missing(None), initial="0", duplicates="first", ahead=None),
        privacy=Privacy(rho=0.005, epsilon=None, delta=1e-6, adjacency=Adjacency.REPLACE_ONE),
        releases=(
            WindowRelease("quarterly", 3, measure="flow", beta=0.05, share=Fraction(1, 2)),
            CumulativeRelease("months", ("1",), measure="flow", share=Fraction(1, 2)),
        ),
        broker=Broker("embedded:poverty", partitions=4),
        schedule=None,
    )


def test_numbers_are_plain_floats_and_shares_exact() -> None:
    parsed = parse_study(GOOD_STUDY + "beta = 0.1\nshare = 0.1")
    [release] = parsed.releases
    assert isinstance(release, WindowRelease)
    assert [type(parsed.privacy.rho), type(parsed.privacy.delta), type(release.beta)] == [float] * 3
    assert release.share == Fraction(1, 10)


@pytest.mark.parametrize(
    "written", ["0.1", "0.005", "0.3", "0.5", "1e-3", "0.49999999999999999999999", "0.1000000000000000055", "1", "5e-7"]
)
def test_a_study_never_spends_more_than_the_decimal_that_its_file_states(written: str) -> None:
    parsed = parse_study(GOOD_STUDY.replace("rho = 0.005", f"rho = {written}"))

    spendable, stated = parsed.privacy.spendable, float(written)
    assert Fraction(spendable) <= Fraction(written) < Fraction(math.nextafter(spendable, math.inf))
    assert sum(map(Fraction, release_budgets(parsed).values())) <= Fraction(written)
    # A study that began with the nearest float is still the same study.
    assert parsed.privacy.budget == stated
    in_code = replace(parsed, privacy=Privacy(rho=stated))
    assert parsed == in_code
    assert fingerprint(parsed, None) == fingerprint(in_code, None)


def test_an_epsilon_and_its_delta_are_rounded_down_too() -> None:
    parsed = parse_study(GOOD_STUDY.replace("rho = 0.005", "epsilon = 0.3\ndelta = 1e-5"))

    assert Fraction(0.3) < Fraction("0.3") and Fraction(1e-5) > Fraction("1e-5")
    assert parsed.privacy.spendable == rho_of_epsilon(0.3, math.nextafter(1e-5, 0))
    assert parsed.privacy.budget == rho_of_epsilon(0.3, 1e-5)


def test_a_limit_that_belongs_to_another_budget_is_refused() -> None:
    parsed = parse_study(GOOD_STUDY)
    with pytest.raises(StudyError, match=r"privacy\.limit"):
        replace(parsed.privacy, rho=0.004)


def test_ten_tenths_are_exactly_a_budget() -> None:
    tenth = 'kind = "window"\nk = 1\nshare = 0.1\n'
    head = GOOD_STUDY.partition("[[release]]")[0]
    text = head + "".join(f'[[release]]\nname = "r{place}"\n{tenth}' for place in range(10))
    assert sum(release.share for release in parse_study(text).releases) == 1
    with pytest.raises(StudyError, match=r"release\.r10\.share: got 0\.1, allowed: at most 0\.0"):
        parse_study(f'{text}[[release]]\nname = "r10"\n{tenth}')


def test_a_release_for_which_nothing_is_left_is_refused() -> None:
    with pytest.raises(StudyError, match=r"release\.rest\.share: got nothing, .* leave nothing of the budget"):
        parse_study(f'{GOOD_STUDY}share = 1.0\n[[release]]\nname = "rest"\nkind = "window"\nk = 1\n')


def test_the_right_key_is_suggested() -> None:
    with pytest.raises(StudyError, match='did you mean "horizon"'):
        parse_study(GOOD_STUDY.replace("horizon", "horizn"))


def test_a_syntax_error_says_where() -> None:
    with pytest.raises(StudyError, match="line 2, column"):
        parse_study("[study]\nname = = 3\n")


def test_a_study_can_be_hashed_and_sent_to_another_process() -> None:
    parsed = parse_study(FULL_STUDY)
    assert hash(parsed) == hash(pickle.loads(pickle.dumps(parsed)))


def test_symbols_have_indices_and_events_a_mask() -> None:
    parsed = parse_study(FULL_STUDY)
    release = parsed.release("months-poor")
    assert isinstance(release, CumulativeRelease)
    assert parsed.q == 3
    assert parsed.symbol_index == {"A": 0, "B": 1, "C": 2}
    assert release.event_mask(parsed.alphabet).tolist() == [False, True, True]
    with pytest.raises(StudyError, match="^release: got 'yearly', allowed: quarterly, months-poor, pairs, single$"):
        parsed.release("yearly")


def test_limits_are_themselves_allowed() -> None:
    study(horizon=16, releases=(WindowRelease("w", 16),))
    study(horizon=10_000, releases=(WindowRelease("w", 1),))
    study(horizon=1_000, releases=(CumulativeRelease("c", ("1",)),))
    study(horizon=1_000, releases=(CumulativeRelease("c", ("1",), measure="paper"),))
    widest = tuple(f"{place:064}" for place in range(64))
    one = (WindowRelease("w", 1),)
    study(name="a" * 100, alphabet=widest, population=Population(initial=widest[0]), releases=one)
    Privacy(rho=1000)
    Privacy(epsilon=1000, delta=0.499)
    Population(size=2**30, initial="0")
    Broker("kafka://one:65535", partitions=1024)


def test_the_broker_says_where_it_is() -> None:
    assert Broker("embedded:a folder/b").folder == "a folder/b"
    assert Broker("embedded:b").servers == ()
    assert Broker("kafka://one:9092,two:9093").servers == ("one:9092", "two:9093")
    assert Broker("kafka://one:9092").folder is None


def test_a_budget_in_epsilon_becomes_one_in_rho() -> None:
    assert Privacy(rho=0.005).budget == 0.005
    assert Privacy(epsilon=0.43).budget == pytest.approx(0.005, rel=0.01)


def test_missing_is_written_as_in_the_file() -> None:
    assert [str(Missing()), str(Missing("B"))] == ["carry", "fill:B"]


MADE_WRONG: list[tuple[str, Callable[[], object]]] = [
    ("study.name", lambda: study(name="a b")),
    ("study.alphabet", lambda: study(alphabet=["0", "1"])),
    ("study.horizon", lambda: study(horizon=12.0)),
    ("release", lambda: study(releases=())),
    ("release", lambda: study(releases=("quarterly",))),
    ("release.w.k", lambda: study(releases=(WindowRelease("w", 13),))),
    ("release.name", lambda: WindowRelease("a b", 2)),
    ("release.w.share", lambda: WindowRelease("w", 2, share=1.5)),  # type: ignore[arg-type]
    ("release.w.beta", lambda: WindowRelease("w", 2, beta=float("nan"))),
    ("release.c.event", lambda: CumulativeRelease("c", 1)),  # type: ignore[arg-type]
    ("release.c.measure", lambda: CumulativeRelease("c", ("1",), measure="x")),  # type: ignore[arg-type]
    ("release.c.most", lambda: CumulativeRelease("c", ("1",), most=65)),
    ("population.size", lambda: Population(size=0, initial="0")),
    ("population.initial", lambda: Population(initial="")),
    ("population.missing", lambda: Missing("a|b")),
    ("privacy.rho", Privacy),
    ("privacy.rho", lambda: Privacy(rho=float("inf"))),
    ("privacy.adjacency", lambda: Privacy(rho=1, adjacency="zero-out")),  # type: ignore[arg-type]
    ("broker.url", lambda: Broker("poverty")),
    ("broker.partitions", lambda: Broker("embedded:x", partitions=True)),
    ("schedule.start", lambda: Schedule(datetime(2026, 1, 1), "month")),
    ("schedule.start", lambda: Schedule(datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=1))), "month")),
    ("schedule.every", lambda: Schedule(datetime(2026, 1, 1, tzinfo=UTC), timedelta(0))),
    ("schedule.grace", lambda: Schedule(datetime(2026, 1, 1, tzinfo=UTC), "month", timedelta(-1))),
    (
        "schedule.release_after",
        lambda: Schedule(datetime(2026, 1, 1, tzinfo=UTC), "month", release_after=timedelta(seconds=-1)),
    ),
]


@pytest.mark.parametrize(("key", "make"), MADE_WRONG)
def test_values_made_in_python_refuse_nonsense_too(key: str, make: Callable[[], object]) -> None:
    with pytest.raises(StudyError) as caught:
        make()
    assert caught.value.key == key


def test_months_end_on_their_last_day_and_do_not_drift() -> None:
    schedule = Schedule(datetime(2027, 12, 31, 6, tzinfo=UTC), "month", grace=timedelta(hours=1))
    assert [schedule.end_of(period).strftime("%y-%m-%d %H") for period in range(4)] == [
        "27-12-31 06",
        "28-01-31 06",
        "28-02-29 06",
        "28-03-31 06",
    ]
    assert schedule.cut_of(2) == datetime(2028, 2, 29, 7, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("90s", timedelta(seconds=90)),
        ("5m", timedelta(minutes=5)),
        ("1h", timedelta(hours=1)),
        ("hour", timedelta(hours=1)),
        ("day", timedelta(days=1)),
        ("2d", timedelta(days=2)),
        ("week", timedelta(weeks=1)),
        ("2w", timedelta(weeks=2)),
    ],
)
def test_a_period_lasts_what_is_written(text: str, span: timedelta) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    schedule = parse_study(f'{GOOD_STUDY}[schedule]\nstart = {start.isoformat()}\nevery = "{text}"').schedule
    assert schedule is not None
    assert schedule.end_of(3) == start + 3 * span
    assert schedule.grace == timedelta(0)


def scheduled(text: str) -> Schedule:
    schedule = parse_study(f'{GOOD_STUDY}[schedule]\nstart = 2026-01-01T00:00:00Z\nevery = "day"\n{text}').schedule
    assert schedule is not None
    return schedule


def test_a_release_follows_its_cut_by_what_is_written() -> None:
    after = scheduled('grace = "5m"\nrelease_after = "1h"')
    assert after.release_of(2) == datetime(2026, 1, 3, 1, 5, tzinfo=UTC)
    assert scheduled('release_after = "0s"').release_after == timedelta(0)
    none = scheduled('grace = "5m"')
    assert none.release_after is None
    assert none.release_of(2) == none.cut_of(2)


@pytest.mark.parametrize("text", ["-1h", "1 hour", "month", "0.5h"])
def test_a_release_time_that_is_not_a_length_is_refused(text: str) -> None:
    with pytest.raises(StudyError, match=r"^schedule\.release_after: got .*allowed: a length of time such as"):
        scheduled(f'release_after = "{text}"')


def test_a_release_after_the_year_9999_is_refused() -> None:
    text = f'{GOOD_STUDY}[schedule]\nstart = 9990-01-01T00:00:00Z\nevery = "1s"\nrelease_after = '
    assert parse_study(text + '"3000d"').schedule is not None
    with pytest.raises(StudyError, match=r"^schedule\.every: .*after the year 9999"):
        parse_study(text + '"3660d"')


def test_the_schedule_is_no_part_of_what_makes_a_study_the_same() -> None:
    without = parse_study(GOOD_STUDY)
    assert fingerprint(replace(without, schedule=scheduled('release_after = "1h"')), None) == fingerprint(without, None)


def test_bins_are_labelled_oldest_symbol_first() -> None:
    assert bin_labels(("0", "1"), 2) == ["00", "01", "10", "11"]
    assert bin_labels(("a", "bc"), 2) == ["a|a", "a|bc", "bc|a", "bc|bc"]
    assert bin_label(("a", "a"), ("a", "bc")) == "a|a"


@given(st.integers(2, 5), st.integers(1, 4))
def test_a_label_stands_at_its_code(q: int, k: int) -> None:
    alphabet = tuple("abcde"[:q])
    labels = bin_labels(alphabet, k)
    for window in product(range(q), repeat=k):
        code = sum(digit * q ** (k - 1 - place) for place, digit in enumerate(window))
        assert labels[code] == bin_label([alphabet[digit] for digit in window], alphabet)
    assert len(set(labels)) == q**k


def people(symbols: list[list[int]]) -> npt.NDArray[np.int8]:
    return np.array(symbols, dtype=np.int8)


def model(row: list[int], initial: int, fill: int | None) -> list[int]:
    filled: list[int] = []
    for symbol in row:
        before = filled[-1] if filled else initial
        filled.append(symbol if symbol >= 0 else before if fill is None else fill)
    return filled


@given(st.data(), st.sampled_from([None, "A", "B", "C"]), st.sampled_from("ABC"))
def test_what_is_missing_comes_from_the_same_person(data: st.DataObject, fill: str | None, initial: str) -> None:
    periods = data.draw(st.integers(1, 6))
    rows = data.draw(st.lists(st.lists(st.integers(-1, 2), min_size=periods, max_size=periods), min_size=1, max_size=8))
    of = replace(parse_study(FULL_STUDY), population=Population(missing=Missing(fill), initial=initial))
    filled = People(None, people(rows)).filled(of)
    assert filled.dtype == np.uint8
    expected = [model(row, of.symbol_index[initial], None if fill is None else of.symbol_index[fill]) for row in rows]
    assert filled.tolist() == expected


def test_histories_show_nobody_and_cannot_be_changed() -> None:
    histories = People(("zoe", "yan"), people([[0, 1, -1], [1, 1, 1]]))
    assert repr(histories) == "People(people=2, periods=3)"
    with pytest.raises(ValueError, match="read-only"):
        histories.symbols[0, 0] = 1


@pytest.mark.parametrize(
    ("ids", "symbols"),
    [
        (None, np.zeros((2, 3), dtype=np.int64)),
        (None, np.zeros(3, dtype=np.int8)),
        (None, np.zeros((0, 3), dtype=np.int8)),
        (None, people([[-2]])),
        (("zoe",), people([[0], [1]])),
        (("zoe", "zoe"), people([[0], [1]])),
        (("zoe", ""), people([[0], [1]])),
    ],
)
def test_histories_refuse_nonsense_without_naming_anyone(ids: tuple[str, ...] | None, symbols: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        People(ids, symbols)
    assert "zoe" not in str(caught.value)


def test_histories_of_another_alphabet_are_not_filled() -> None:
    with pytest.raises(InvalidInput, match="below 2"):
        People(None, people([[2]])).filled(study())


def with_questions(*tables: str) -> str:
    return GOOD_STUDY + "".join(f"[[question]]\n{table}\n" for table in tables)


ASKED = """release = "quarterly"\nask = 'count("1")>=2 of 3'"""


def test_questions_are_read_in_their_order() -> None:
    parsed = parse_study(with_questions(ASKED, 'release = "quarterly"\nask = "events >= 3"'))
    assert parsed.questions == (Question("quarterly", 'count("1") >= 2 of 3'), Question("quarterly", "events >= 3"))
    assert parse_study(GOOD_STUDY).questions == parse_study("question = []\n" + GOOD_STUDY).questions == ()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            'release = "quarterly"',
            """question[1].ask: got nothing, allowed: a question as text, such as 'count("1") >= 2 of 3'""",
        ),
        (
            'release = "quarterly"\nask = 3',
            """question[1].ask: got 3, allowed: a question as text, such as 'count("1") >= 2 of 3'""",
        ),
        ('ask = "matched"', "question[1].release: got nothing, allowed: the name of a release of the study"),
        ('release = 3\nask = "matched"', "question[1].release: got 3, allowed: the name of a release of the study"),
        ('release = "yearly"\nask = "matched"', """question[1].release: got 'yearly', allowed: "quarterly\""""),
        (
            'release = "quarterly"\nask = "spell > 3"',
            "question[1].ask: got 'spell > 3', allowed: a question, but at character 7: got '>', expected a word, a number, "
            "a string in double quotes, or '(', ')', ',', '>=', '==' or '<='",
        ),
        (f'{ASKED}\nasks = "matched"', 'question[1].asks: got an unknown key, allowed: release, ask; did you mean "ask"?'),
    ],
)
def test_a_wrong_question_is_refused_with_its_place_and_key(table: str, message: str) -> None:
    with pytest.raises(StudyError) as refused:
        parse_study(with_questions(table))
    assert str(refused.value) == message
    with pytest.raises(StudyError) as second:
        parse_study(with_questions(ASKED, table))
    assert str(second.value) == message.replace("question[1]", "question[2]")


@pytest.mark.parametrize("text", ["question = 3\n", 'question = ["matched"]\n', "[question]\n"])
def test_questions_that_are_no_tables_are_refused(text: str) -> None:
    with pytest.raises(StudyError, match=r"^question: got .*, allowed: tables, \[\[question\]\]$"):
        parse_study(text + GOOD_STUDY)


QUESTIONS_MADE_WRONG: list[tuple[str, Callable[[], object]]] = [
    ("question", lambda: study(questions=[Question("quarterly", "matched")])),
    ("question", lambda: study(questions=("matched",))),
    ("question[1].release", lambda: study(questions=(Question("yearly", "matched"),))),
    ("question.release", lambda: Question(None, "matched")),  # type: ignore[arg-type]
    ("question.ask", lambda: Question("quarterly", None)),  # type: ignore[arg-type]
    ("question.ask", lambda: Question("quarterly", "?")),
]


@pytest.mark.parametrize(("key", "make"), QUESTIONS_MADE_WRONG)
def test_questions_made_in_python_refuse_nonsense_too(key: str, make: Callable[[], object]) -> None:
    with pytest.raises(StudyError) as caught:
        make()
    assert caught.value.key == key


def test_questions_enter_the_fingerprint_only_when_there_are_any() -> None:
    without, asked = study(), parse_study(with_questions(ASKED))
    assert "questions" not in public_values(without)
    assert public_values(asked)["questions"] == [{"release": "quarterly", "ask": 'count("1") >= 2 of 3'}]
    assert fingerprint(asked, None) != fingerprint(without, None)
    # Only the meaning of a question counts, not its spacing.
    spaced = parse_study(with_questions(ASKED.replace(">=", " >=  ")))
    assert (asked, fingerprint(asked, None)) == (spaced, fingerprint(spaced, None))


OPEN_STUDY = """
[study]
name = "rides"
alphabet = ["0", "1"]

[population]
size = 5000
open = true
tenure = 12
sample = 0.1
absent_after = 3

[privacy]
rho = 0.5
adjacency = "add-remove"

[[release]]
name = "recent"
kind = "window"
k = 3

[[release]]
name = "spells"
kind = "spell"
length = 6

[[release]]
name = "months"
kind = "cumulative"
most = 4
"""


def test_an_open_study_is_read_as_written() -> None:
    parsed = parse_study(OPEN_STUDY)
    assert parsed == Study(
        name="rides",
        alphabet=("0", "1"),
        horizon=None,
        population=Population(size=5000, initial="0", open=True, tenure=12, sample=0.1, absent_after=3),
        privacy=Privacy(rho=0.5, adjacency=Adjacency.ADD_REMOVE),
        releases=(
            WindowRelease("recent", k=3, share=Fraction(1, 3)),
            SpellRelease("spells", length=6, share=Fraction(1, 3)),
            CumulativeRelease("months", most=4, share=Fraction(1, 3)),
        ),
        broker=Broker("embedded:rides", partitions=4),
    )
    assert parsed.is_open
    assert parsed.last_period == MAX_PERIOD
    assert [release.tenure for release in parsed.releases] == [12, 12, 12]


def test_a_horizon_of_an_open_study_may_exceed_that_of_others_and_its_tenure() -> None:
    parsed = parse_study(OPEN_STUDY.replace('["0", "1"]\n', f'["0", "1"]\nhorizon = {MAX_PERIOD}\n', 1))
    assert (parsed.horizon, parsed.last_period) == (MAX_PERIOD, MAX_PERIOD)
    assert parse_study(OPEN_STUDY.replace('["0", "1"]\n', '["0", "1"]\nhorizon = 2\n', 1)).last_period == 2


def test_open_studies_and_their_tenures_have_fingerprints_of_their_own() -> None:
    parsed = parse_study(OPEN_STUDY)
    values = public_values(parsed)
    assert values["horizon"] is None
    assert values["population"] == {
        "size": 5000,
        "missing": "carry",
        "initial": "0",
        "duplicates": "first",
        "open": True,
        "tenure": 12,
        "sample": 0.1,
        "absent_after": 3,
    }
    changes: list[dict[str, Any]] = [{"tenure": 11}, {"sample": 0.2}, {"sample": None}, {"absent_after": 2}]
    others = [replace(parsed, population=replace(parsed.population, **change)) for change in changes]
    others.append(replace(parsed, horizon=36))
    assert len({fingerprint(one, None) for one in (parsed, *others)}) == 1 + len(others)


def test_a_closed_study_has_none_of_the_settings_of_open_ones_among_its_values() -> None:
    values = public_values(study())
    assert values["horizon"] == 12
    assert values["population"].keys() == {"size", "missing", "initial", "duplicates"}
    assert all(release.tenure is None for release in study().releases)


def edited(*changes: tuple[str, str]) -> str:
    text = OPEN_STUDY
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    return text


CLOSED = (("open = true\n", ""), ('["0", "1"]\n', '["0", "1"]\nhorizon = 12\n'), ('adjacency = "add-remove"', ""))
"""The changes that make the study closed, apart from settings that it may not have then."""

NOT_OPEN = "nothing without population.open = true"

WITHOUT = {"tenure": ("tenure = 12\n", ""), "sample": ("sample = 0.1\n", ""), "absent_after": ("absent_after = 3\n", "")}

REFUSED_OPEN: list[tuple[str, str, str]] = [
    (
        "population.tenure",
        NOT_OPEN,
        edited(*CLOSED, WITHOUT["sample"], WITHOUT["absent_after"]),
    ),
    (
        "population.sample",
        NOT_OPEN,
        edited(*CLOSED, WITHOUT["tenure"], WITHOUT["absent_after"]),
    ),
    ("population.absent_after", NOT_OPEN, edited(*CLOSED, WITHOUT["tenure"], WITHOUT["sample"])),
    ("study.horizon", "from 1 to 10000", edited(*CLOSED[:1], CLOSED[2], *WITHOUT.values())),
    ("study.horizon", "1 to 1000000", edited(('["0", "1"]\n', '["0", "1"]\nhorizon = 1000001\n'))),
    ("study.horizon", "1 to 1000000", edited(('["0", "1"]\n', '["0", "1"]\nhorizon = 0\n'))),
    ("population.open", "", edited(("open = true", "open = 1"))),
    ("population.tenure", "1 to 1000", edited(WITHOUT["tenure"])),
    ("population.tenure", "1 to 1000", edited(("tenure = 12", "tenure = 0"))),
    ("population.tenure", "1 to 1000", edited(("tenure = 12", "tenure = 1001"))),
    ("population.tenure", "1 to 1000", edited(("tenure = 12", 'tenure = "12"'))),
    ("population.sample", "above 0", edited(("sample = 0.1", "sample = 0"))),
    ("population.sample", "at most 1", edited(("sample = 0.1", "sample = 1.1"))),
    ("population.absent_after", "1 to 1000", edited(("absent_after = 3", "absent_after = 0"))),
    ("population.absent_after", "1 to 1000", edited(("absent_after = 3", "absent_after = 1.5"))),
    ("privacy.adjacency", '"replace-one" or "add-remove" in an open study', edited(("add-remove", "zero-out"))),
    ("privacy.adjacency", '"replace-one" or "zero-out"', edited(*CLOSED[:2], *WITHOUT.values())),
    ("study.alphabet", "symbols that begin with another character", edited(('["0", "1"]', '["^", "1"]'))),
    ("study.alphabet", "symbols that begin with another character", edited(('["0", "1"]', '["0", "#1"]'))),
    ("release.recent.k", "k is at most the tenure", edited(("k = 3", "k = 13"))),
    ("release.recent.k", "at most 1,024 in an open study", edited(("k = 3", "k = 10"))),
    ("release.recent.measure", '"flow" in an open study', edited(("k = 3", 'k = 3\nmeasure = "paper"'))),
    ("release.spells.length", "the tenure", edited(("length = 6", "length = 13"))),
    ("release.spells.weights", "nothing in an open study", edited(("length = 6", 'length = 6\nweights = "rule"'))),
    ("release.spells.tune", "nothing in an open study", edited(("length = 6", 'length = 6\ntune = "mean"'))),
    ("release.months.measure", '"flow" in an open study', edited(("most = 4", 'measure = "paper"'))),
    ("release.months.weights", "nothing in an open study", edited(("most = 4", 'weights = "tuned"'))),
    ("release.months.kind", "window, cumulative or spell", edited(('"cumulative"\nmost = 4', '"pattern"\npattern = "11"'))),
    ("release.recent.k", "lower it, or the tenure", edited(("k = 3", "k = 6"), ("tenure = 12", "tenure = 1000"))),
]


@pytest.mark.parametrize(("key", "allowed", "text"), REFUSED_OPEN, ids=[f"{row[0]}-{row[1][:20]}" for row in REFUSED_OPEN])
def test_settings_that_do_not_fit_an_open_or_a_closed_study_are_refused(key: str, allowed: str, text: str) -> None:
    with pytest.raises(StudyError) as refused:
        parse_study(text)
    assert refused.value.key == key
    assert allowed in refused.value.allowed
    assert "\n" not in str(refused.value)


def test_a_question_to_a_release_of_an_open_study_is_kept() -> None:
    asked = OPEN_STUDY + '[[question]]\nrelease = "recent"\nask = \'count("1")>=2 of 3\'\n'
    assert parse_study(asked).questions == (Question("recent", 'count("1") >= 2 of 3'),)


SPANS: list[timedelta | Literal["month"]] = [timedelta(seconds=90), timedelta(hours=1), timedelta(days=7), "month"]


@given(st.sampled_from(SPANS), st.datetimes(datetime(2026, 1, 1), datetime(2027, 12, 31)), st.integers(0, 10_000_000))
def test_as_many_periods_are_due_as_have_their_cut_behind_them(
    every: timedelta | Literal["month"], start: datetime, seconds: int
) -> None:
    schedule = Schedule(start.replace(tzinfo=UTC), every, grace=timedelta(days=2))
    now = schedule.start + timedelta(seconds=seconds - 1_000_000)
    due = schedule.periods_due(now)
    assert due >= 0
    assert due == 0 or schedule.cut_of(due) <= now
    assert schedule.cut_of(due + 1) > now


@pytest.mark.parametrize("every", SPANS)
def test_a_period_is_due_from_the_moment_of_its_cut_on(every: timedelta | Literal["month"]) -> None:
    schedule = Schedule(datetime(2026, 1, 31, tzinfo=UTC), every, grace=timedelta(minutes=5))
    for period in range(1, 40):
        assert schedule.periods_due(schedule.cut_of(period)) == period
        assert schedule.periods_due(schedule.cut_of(period) - timedelta(microseconds=1)) == period - 1


@pytest.mark.parametrize(
    ("release", "allowed"),
    [
        ('kind = "cumulative"\nk = 3', "name, kind, share, event, measure, most, weights, tune in a cumulative release"),
        ('kind = "window"\nk = 3\nquestion = "x"', "name, kind, share, k, measure, beta, weights, tune in a window release"),
        ('kin = "window"', "name, kind, share, k, measure, beta, weights, tune, event, most, length, pattern"),
    ],
)
def test_an_unknown_key_names_the_keys_that_there_are_once_each(release: str, allowed: str) -> None:
    text = SHORT + f'[[release]]\nname = "r"\n{release}\n'
    with pytest.raises(StudyError) as refused:
        parse_study(text)
    assert f"got an unknown key, allowed: {allowed}" in str(refused.value)


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [("1{7}", "which no history of 6 periods can match"), (".{3}", "in which all histories of 6 periods are alike")],
)
def test_a_pattern_whose_answer_is_known_is_refused(pattern: str, problem: str) -> None:
    with pytest.raises(StudyError) as refused:
        parse_study(SHORT + f'[[release]]\nname = "r"\nkind = "pattern"\npattern = "{pattern}"\n')
    assert f"release.r.pattern: got '{pattern}', {problem}, allowed: a pattern that some" in str(refused.value)
    assert parse_study(SHORT + '[[release]]\nname = "r"\nkind = "pattern"\npattern = "1{6}"\n').horizon == 6


SHORT = '[study]\nname = "s"\nalphabet = ["0", "1"]\nhorizon = 6\n\n[privacy]\nrho = 0.1\n\n'

"""The page's data: public by construction, bounded, and as safe to show as HTTP headers can make it."""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.request
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import pytest

from streamproc.cli.commands.status import status_to_dict
from streamproc.client.public_reader import PublicReader
from streamproc.files.csv import release_csv
from streamproc.log.port import Log, Offset, Reader
from streamproc.privacy.accountant import PrivacyAccountant
from streamproc.privacy.types import Rho
from streamproc.protocol.ledger_verifier import VerifiedLedger
from streamproc.protocol.release_audit import ReleaseAudit
from streamproc.protocol.topics import Topics
from streamproc.releases.step import Column
from streamproc.service.deployment import Deployment
from streamproc.service.load_control import ConcurrencyLimiter, Overloaded, Pace, ResponseCache
from streamproc.status_page import downloads
from streamproc.status_page import views as documents
from streamproc.status_page.follower import Follower, PageSnapshot, PublicTopics
from streamproc.status_page.responses import Body
from streamproc.status_page.views import answers
from streamproc.study import Schedule
from tests.status_page.serving import Asking, copy_public, served
from tests.status_page.shown_study import ShownStudy
from tests.status_page.test_silent_clients import MB, silent_clients
from tests.stream.programs import Programs
from tests.studies import StudyParameters

DOCUMENTS = [
    "/api/v1/status",
    "/api/v1/series?release=recent&query=bin:01&query=symbol:1",
    "/api/v1/series?release=ever&query=atleast:2",
    "/api/v1/bins?release=recent",
    "/api/v1/bins?release=ever",
    "/api/v1/ledger",
    "/api/v1/releases/recent.csv",
]


def three_columns(status: dict[str, Any]) -> bool:
    return status["released"] == 3 and all(release["columns"] == 3 for release in status["releases"])


async def all_of(asking: Asking) -> dict[str, bytes]:
    await asking.status_when(three_columns)
    return {path: (await asking.get(path))[2] for path in DOCUMENTS}


async def test_a_log_that_has_only_the_public_topics_gives_the_same_answers(half_way: ShownStudy, tmp_path: Path) -> None:
    study = half_way.deployed.study
    async with half_way.deployed.connect() as log:
        async with served(log, study) as asking:
            beside_secrets = await all_of(asking)
        async with await copy_public(log, study, tmp_path) as copy, served(copy, study) as asking:
            assert await all_of(asking) == beside_secrets


async def test_the_page_has_no_way_to_read_what_is_secret(half_way: ShownStudy) -> None:
    topics = half_way.deployed.topics
    async with half_way.deployed.connect() as log:
        public = PublicTopics(log, half_way.deployed.study)
        assert set(await public.topics()) == {topics.ledger, topics.synthetic("recent"), topics.synthetic("ever")}
        for secret in (topics.reports, topics.control, topics.tallies, topics.rejects, "another-study.ledger"):
            for ask in (public.start_offset, public.high_watermark, public.last_stable_offset):
                with pytest.raises(PermissionError):
                    await ask(secret, 0)
            with pytest.raises(PermissionError):
                await public.reader(secret, 0, Offset(0))


async def test_status_says_what_the_command_says(half_way: ShownStudy) -> None:
    deployment = Deployment.of(half_way.deployed.file)
    async with half_way.deployed.connect() as log, served(log, deployment.study) as asking:
        await all_of(asking)
        found = await asking.plain("/api/v1/status")
        public = PublicReader(log, deployment.study)
        await public.catch_up()
        await public.close()
    said = status_to_dict(deployment, public, None)
    for key in ("study", "n", "horizon", "released", "rho", "rho_spent", "epsilon_spent", "delta", "adjacency", "insecure"):
        assert found[key] == said[key], key
    for release in found["releases"]:
        beside = said["releases"][release["name"]]
        for key in ("n_star", "rho", "rho_spent", "clamped"):
            assert release[key] == beside[key], (release["name"], key)
    assert (found["state"], found["broker"]) == ("running", "embedded")


@pytest.fixture
def pulled(half_way: ShownStudy, tmp_path: Path) -> dict[str, Any]:
    """The ledger as `pull` writes it."""
    half_way.deployed.do("pull", "--out", tmp_path)
    return dict(json.loads((tmp_path / "ledger.json").read_text()))


async def test_the_ledger_says_what_the_file_that_is_pulled_says(half_way: ShownStudy, pulled: dict[str, Any]) -> None:
    async with half_way.deployed.connect() as log, served(log, half_way.deployed.study) as asking:
        await all_of(asking)
        newest_first = (await asking.plain("/api/v1/ledger"))["periods"]
    digests = [period.pop("digest") for period in newest_first]
    assert digests == [pulled["head"], *(period["previous"] for period in newest_first[:-1])]
    for period in pulled["periods"]:
        for entry in period["releases"].values():
            del entry["measurements"]
    assert newest_first[::-1] == pulled["periods"]


def test_status_names_the_kind_of_broker_in_use_whatever_the_study_file_says(tmp_path: Path) -> None:
    with Programs(tmp_path) as programs:
        shown = ShownStudy(tmp_path / "study", programs, StudyParameters("moved"), broker="kafka://127.0.0.1:9")
        shown.serve("--broker", f"embedded:{tmp_path / 'log'}")
        with urllib.request.urlopen(f"{shown.url}/api/v1/status", timeout=60) as answer:
            assert json.load(answer)["broker"] == "embedded"


def test_status_tells_when_the_next_period_closes_and_when_it_is_released(half_way: ShownStudy) -> None:
    without = half_way.deployed.study
    schedule = Schedule(datetime(2026, 1, 1, tzinfo=UTC), "month", timedelta(minutes=5))
    closes = {"period": 1, "at": "2026-02-01T00:05:00Z"}
    for study, cut, release in (
        (without, None, None),
        (replace(without, schedule=schedule), closes, None),
        (
            replace(without, schedule=replace(schedule, release_after=timedelta(hours=36))),
            closes,
            {"period": 1, "at": "2026-02-02T12:05:00Z"},
        ),
    ):
        status = documents.status(study, PageSnapshot())
        assert (status["next_cut"], status["next_release"]) == (cut, release)


async def test_records_are_those_of_the_topics(half_way: ShownStudy) -> None:
    topics = half_way.deployed.topics
    values = await half_way.deployed._records(topics.ledger, 0, True)
    async with half_way.deployed.connect() as log, served(log, half_way.deployed.study) as asking:
        await all_of(asking)
        code, headers, body = await asking.get("/api/v1/records/ledger?offset=0")
        assert code == 200
        rest = int(headers["Streamproc-Next"])
        assert rest == int(headers["Streamproc-End"])
        assert (await asking.get(f"/api/v1/records/ledger?offset={rest}"))[2] == b""
    framed = [len(record.value or b"").to_bytes(4, "big") + (record.value or b"") for record in values]
    assert body == b"".join(framed)


async def test_a_changed_byte_is_said_and_the_page_lives_on(half_way: ShownStudy, tmp_path: Path) -> None:
    study = half_way.deployed.study

    def alter(topic: str, number: int, value: bytes) -> bytes:
        return value[:-40] + bytes([value[-40] ^ 1]) + value[-39:] if topic.endswith(".ledger") and number == 6 else value

    async with half_way.deployed.connect() as log:
        altered = await copy_public(log, study, tmp_path, alter)
    async with altered as copy, served(copy, study) as asking:
        status = await asking.status_when(lambda status: status["problem"] is not None)
        assert status["problem"].startswith("ledger record")
        assert status["following"], "the broker did answer"
        assert (await asking.get("/"))[0] == 200


async def test_every_answer_keeps_the_browser_here_and_sets_no_cookie(half_way: ShownStudy) -> None:
    async with half_way.deployed.connect() as log, served(log, half_way.deployed.study) as asking:
        await all_of(asking)
        for path in ["/", "/static/page.js", "/static/page.css", "/metrics", "/nowhere", "/static/nothing.js", *DOCUMENTS]:
            _, headers, _ = await asking.get(path)
            assert headers["Content-Security-Policy"].startswith("default-src 'self';"), path
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert "Set-Cookie" not in headers
            assert "aiohttp" not in headers["Server"]


async def test_what_a_browser_has_is_not_sent_again(half_way: ShownStudy) -> None:
    async with half_way.deployed.connect() as log, served(log, half_way.deployed.study) as asking:
        await all_of(asking)
        for path in ["/", "/static/page.js", "/api/v1/status", "/api/v1/ledger"]:
            _, headers, body = await asking.get(path)
            assert (await asking.get(path, **{"If-None-Match": headers["ETag"]}))[0] == 304
            assert (await asking.get(path, **{"If-None-Match": '"other"'}))[2] == body


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/series?release=recent",
        "/api/v1/series?release=recent" + "&query=symbol:1" * 17,
        "/api/v1/series?release=recent&query=symbol:7",
        "/api/v1/series?release=nobody&query=symbol:1",
        "/api/v1/series?release=ever&query=atleast:6",
        "/api/v1/series?release=ever&query=atleast:00000000019",
        "/api/v1/series?release=ever&query=atleast:1" + "0" * 5000,
        "/api/v1/series?query=symbol:1",
        "/api/v1/series?release=recent&query=symbol:1&from=3&to=2",
        "/api/v1/series?release=recent&query=symbol:1&from=6",
        "/api/v1/bins?release=recent&limit=101",
        "/api/v1/bins?release=recent&limit=-1",
        "/api/v1/ledger?limit=501",
        "/api/v1/ledger?before=99999999999999999999",
        "/api/v1/records/ledger?offset=one",
        "/api/v1/records/synthetic/tallies?offset=0",
        "/api/v1/releases/reports.csv",
    ],
)
async def test_a_wrong_question_is_refused_in_one_line(half_way: ShownStudy, path: str) -> None:
    async with half_way.deployed.connect() as log, served(log, half_way.deployed.study) as asking:
        await asking.status_when(three_columns)
        code, _, body = await asking.get(path)
    assert code == 400
    assert "\n" not in json.loads(body)["error"]


def counted_answers(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Grows with every document of answers that is made."""
    made: list[object] = []

    def counted(*arguments: Any) -> dict[str, Any]:
        made.append(arguments)
        return answers(*arguments)

    monkeypatch.setattr(documents, "answers", counted)
    return made


async def test_what_all_ask_for_at_once_is_made_once_and_given_to_all(
    half_way: ShownStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = counted_answers(monkeypatch)
    async with half_way.deployed.connect() as log, served(log, half_way.deployed.study) as asking:
        await asking.status_when(three_columns)
        found = await asyncio.gather(*(asking.get(DOCUMENTS[1]) for _ in range(100)))
        assert {(status, body) for status, _, body in found} == {(200, found[0][2])}
        assert len(made) == 1
        assert found[0][1]["Vary"] == "Accept-Encoding"


def test_only_the_newest_answers_are_kept_and_no_more_than_fit() -> None:
    a, b, c, old = (("a",), ("b",), ("c",), ("old",))
    cache = ResponseCache[bytes](
        max_bytes=30
    )  # two answers of 5 with their questions, which Python writes with 6 characters
    cache.put(1, old, b"1234")
    cache.put(2, a, b"12345")
    cache.put(1, ("older still",), b"1")
    assert [cache.get(version, old) for version in (1, 2)] == [None, None]
    cache.put(2, b, b"12345")
    assert cache.get(2, a) == b"12345"
    cache.put(2, c, b"123")
    assert [cache.get(2, name) for name in (a, b, c)] == [b"12345", None, b"123"]
    assert cache.get(3, a) is None


def test_long_questions_take_up_room_too() -> None:
    cache = ResponseCache[bytes](max_bytes=1000)
    questions = [(f"{number}{'x' * 300}",) for number in range(100)]
    for question in questions:
        cache.put(1, question, b"1")
    assert [question for question in questions if cache.get(1, question)] == questions[-3:]


async def test_what_nobody_asked_for_makes_no_other_question(half_way: ShownStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    made = counted_answers(monkeypatch)
    async with half_way.deployed.connect() as log, served(log, half_way.deployed.study) as asking:
        await asking.status_when(three_columns)
        for number in range(10):
            assert (await asking.get(f"{DOCUMENTS[1]}&x={number}"))[0] == 200
        assert len(made) == 1


async def test_requests_beyond_the_limit_are_refused_at_once() -> None:
    limiter = ConcurrencyLimiter(inside=1, waiting=0)
    async with limiter.enter():
        with pytest.raises(Overloaded):
            async with limiter.enter():
                pass
    async with limiter.enter():
        pass


async def test_clients_that_wait_for_their_turn_hold_no_document_in_memory(
    half_way: ShownStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, patient = list[weakref.ref[Body]](), Pace(alone=60.0, contended=60.0)
    make_body = Body.of

    def note_body(plain: bytes) -> Body:
        body = make_body(plain)
        made.append(weakref.ref(body))
        return body

    def kept_alive() -> int:
        return sum(reference() is not None for reference in made)

    monkeypatch.setattr("streamproc.status_page.app.MAX_CACHE_BYTES", 0)
    async with (
        half_way.deployed.connect() as log,
        served(log, half_way.deployed.study, pace=patient) as asking,
        asyncio.timeout(60),
    ):
        await asking.status_when(three_columns)
        monkeypatch.setattr(documents, "answers", lambda *arguments: {"large": "x" * MB, "asked": str(arguments[1:])})
        monkeypatch.setattr(Body, "of", note_body)
        async with AsyncExitStack() as stack:
            for number in range(30):
                path = f"/api/v1/series?release=recent&query=symbol:1&to={number + 1}"
                await stack.enter_async_context(silent_clients(1, asking.url, path))
            while len(made) < 30:
                await asyncio.sleep(0.01)
            deadline = asyncio.get_running_loop().time() + 5.0
            while kept_alive() > 8 and asyncio.get_running_loop().time() < deadline:
                await asyncio.sleep(0.01)
            assert kept_alive() <= 8, "those that are being sent"


@pytest.mark.parametrize("step", ["add_column", "spent"])
async def test_a_stopped_page_ends_its_audit_with_the_current_period(
    half_way: ShownStudy, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    began, may_go_on, audited = threading.Event(), threading.Event(), list[int]()
    add_column, compute_spent = ReleaseAudit.add_column, cast(property, vars(PrivacyAccountant)["spent"]).fget
    assert compute_spent is not None

    def note_step() -> None:
        audited.append(1)
        began.set()
        may_go_on.wait(30)

    def note_column(audit: ReleaseAudit, column: Column, ledger: VerifiedLedger) -> None:
        note_step()
        add_column(audit, column, ledger)

    def note_spent(accountant: PrivacyAccountant) -> Rho:
        note_step()
        return cast(Rho, compute_spent(accountant))

    if step == "add_column":
        monkeypatch.setattr(ReleaseAudit, "add_column", note_column)
    else:
        monkeypatch.setattr(PrivacyAccountant, "spent", property(note_spent))
    async with half_way.deployed.connect() as log:
        with ThreadPoolExecutor(1) as threads:
            follower = Follower(half_way.deployed.study, threads)
            task = asyncio.create_task(follower.follow(log))
            assert await asyncio.to_thread(began.wait, 30)
            task.cancel()
            await asyncio.wait([task])
            may_go_on.set()
    assert len(audited) == 1


@pytest.mark.parametrize("release", ["recent", "ever"])
async def test_a_file_is_read_from_the_topic_of_its_release_alone(half_way: ShownStudy, release: str) -> None:
    study, topics = half_way.deployed.study, Topics(half_way.deployed.study.name)
    async with half_way.deployed.connect() as log:
        public, read = PublicTopics(log, study), set[str]()
        read_topic = public.reader

        async def note_topic(topic: str, partition: int, offset: Offset) -> Reader:
            read.add(topic)
            return await read_topic(topic, partition, offset)

        public.reader = note_topic  # type: ignore[method-assign]
        with ThreadPoolExecutor(1) as threads:
            assert await downloads.csv_file(public, study, release, threads) is not None
    assert read == {topics.ledger, topics.synthetic(release)}


async def test_a_release_that_is_too_large_for_a_file_is_refused_before_the_page_has_read_it(
    half_way: ShownStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def only_connect(follower: Follower, log: Log) -> None:
        follower.topics = PublicTopics(log, half_way.deployed.study)
        await asyncio.Event().wait()

    monkeypatch.setattr(Follower, "follow", only_connect)
    monkeypatch.setattr(downloads, "MAX_CELLS", 100)
    monkeypatch.setattr("streamproc.status_page.app.MAX_CELLS", 100)
    async with half_way.deployed.connect() as log, served(log, half_way.deployed.study) as asking, asyncio.timeout(60):
        while (found := await asking.get("/api/v1/releases/recent.csv"))[0] == 503:
            await asyncio.sleep(0.01)
        assert found[0] == 413
        assert b"Use `streamproc pull`" in found[2]


async def test_who_asks_for_a_file_and_does_not_read_it_is_cut_off_and_the_next_one_gets_theirs(
    half_way: ShownStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, too_much = "/api/v1/releases/recent.csv", [b"0" * 2**24] * 4

    def the_first_fits_in_no_buffer(*arguments: Any) -> Iterator[bytes]:
        monkeypatch.setattr(downloads, "release_csv", release_csv)
        return iter(too_much)

    monkeypatch.setattr(downloads, "release_csv", the_first_fits_in_no_buffer)
    quick = Pace(alone=0.2, contended=0.2)
    async with (
        half_way.deployed.connect() as log,
        served(log, half_way.deployed.study, pace=quick) as asking,
        asyncio.timeout(60),
    ):
        await asking.status_when(three_columns)
        where = urlsplit(asking.url)
        stalled, request = await asyncio.open_connection(where.hostname, where.port, limit=1000)
        try:
            request.write(f"GET {path} HTTP/1.1\r\nHost: {where.netloc}\r\n\r\n".encode())
            assert (await stalled.readline()).startswith(b"HTTP/1.1 200")
            code, _, body = await asking.get(path)
            assert (code, body[:16]) == (200, b"synthetic,1,2,3\n")
            assert len(await stalled.read()) < sum(map(len, too_much)), "the end comes before all was sent"
        finally:
            request.close()

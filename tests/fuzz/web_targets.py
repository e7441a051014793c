"""What strangers send to the listeners: requests as bytes of a connection, answered by the real handlers."""

from __future__ import annotations

import json
from collections.abc import Callable

from streamproc.panel.series import named_query
from streamproc.service.http_connections import Connections
from streamproc.service.http_server import Listener, require_bearer_token
from streamproc.service.load_control import ResponseCache, SingleFlight, stream_response
from streamproc.status_page import StatusPage, downloads
from streamproc.status_page import responses as answers
from streamproc.status_page import views as documents
from streamproc.status_page.responses import EventStreams
from streamproc.study import bin_labels
from tests.fuzz.listener_harness import TOKEN, ListenerHarness, operator_harness, public_harness
from tests.fuzz.request_mutator import of_request
from tests.fuzz.trial import MIB, Bound, Target

LETTERS = ("a", "b", "c")
WORDS = ("in", "out")
"""With words the symbols of a bin have a sign between them."""

REQUEST = Bound(64, MIB // 2)
"""More than half of it is the window of a compressor."""

EXPECT = b"\nexpect"
"""A header that aiohttp answers before any handler of ours, and with a 500 if it is no text."""

PRIVATE = b"streamproc_people"
"""What stands in an answer that only the operator may see."""


class TurnedAway(Exception):
    """A request that was answered with 4xx, or that was none and got no answer."""


def answered(answer: bytes) -> None:
    """Hold an answer to what is promised: never a 5xx, and a refusal of ours is one line."""
    if not answer:
        raise TurnedAway
    status = int(answer.split(b" ", 2)[1])
    assert status < 500, answer[:500]
    if status >= 400:
        head, _, body = answer.partition(b"\r\n\r\n")
        # An answer to HEAD has no body; what follows it is the next answer.
        if b"application/json" in head and body and not body.startswith(b"HTTP/"):
            said, _ = json.JSONDecoder().raw_decode(body.decode("utf-8", "replace"))  # another answer may follow
            assert len(said["error"].splitlines()) == 1
        raise TurnedAway


def _feed_listener(site: ListenerHarness) -> Callable[[bytes], None]:
    def feed(data: bytes) -> None:
        if EXPECT in data.lower():
            raise TurnedAway
        answer = site.ask(data)
        assert PRIVATE not in answer or f"Bearer {TOKEN}".encode() in data
        answered(answer)

    return feed


def request(address: str, *headers: str, method: str = "GET") -> bytes:
    """As a browser sends it."""
    lines = [f"{method} {address} HTTP/1.1", "Host: study.example", *headers, "Connection: close", "", ""]
    return "\r\n".join(lines).encode()


def page_requests(alphabet: tuple[str, ...]) -> list[bytes]:
    """Every address of the page with all that may be asked there."""
    first, last = alphabet[0], alphabet[-1]
    label = bin_labels(alphabet, 2)[1].replace("|", "%7C")
    addresses = [
        *("/", "/static/page.js", "/metrics", "/livez", "/readyz", "/api/v1/", "/api/v1/status", "/api/v1/events"),
        f"/api/v1/series?release=w&query=bin:{label}&query=symbol:{first}&from=1&to=3",
        f"/api/v1/series?release=w&query=ever:{last}&query=always%3A{last}&from=2",
        "/api/v1/series?release=c&query=atleast:1&query=atleast:3&to=2",
        f"/api/v1/bins?release=w&search={first}&limit=3",
        "/api/v1/bins?release=c",
        "/api/v1/ledger?before=3&limit=1",
        "/api/v1/records/ledger?offset=2",
        "/api/v1/records/synthetic/w?offset=0",
        "/api/v1/releases/c.csv",
    ]
    known = request("/api/v1/status", 'If-None-Match: W/"0123456789abcdef"', "Accept-Encoding: gzip, deflate")
    return [*map(request, addresses), known, request("/api/v1/ledger", method="HEAD")]


def operator_requests() -> list[bytes]:
    """With the token, and what is open to probes."""
    shown = f"Authorization: Bearer {TOKEN}"
    return [request("/metrics", shown), request("/livez"), request("/readyz?verbose=1"), request("/livez", shown)]


_ANSWERING = (answers.add_security_headers, answers.json_bytes, answers.error_response, answers.Body, stream_response)
_ASKED = (named_query, documents.answers, documents.bins, downloads.csv_file, downloads.records)
_PAGE = (StatusPage, Listener, Connections, EventStreams, ResponseCache, SingleFlight, *_ANSWERING, *_ASKED)
_REQUEST = (of_request, (TurnedAway,), REQUEST)

WEB_TARGETS = (
    Target("page", _PAGE, _feed_listener(public_harness(LETTERS)), lambda: page_requests(LETTERS), *_REQUEST),
    Target("page-of-words", _PAGE, _feed_listener(public_harness(WORDS)), lambda: page_requests(WORDS), *_REQUEST),
    Target(
        "operator",
        (Listener, Connections, require_bearer_token),
        _feed_listener(operator_harness()),
        operator_requests,
        *_REQUEST,
    ),
)

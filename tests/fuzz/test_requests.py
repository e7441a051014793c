"""Seeds of the listeners ask at every address and give all that is looked for in a query; no error hides behind a 500."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from aiohttp import web

from streamproc.status_page import views as documents
from tests.fuzz.listener_harness import TOKEN, ListenerHarness, operator_harness, public_harness
from tests.fuzz.request_mutator import ASKED, UNUSUAL_VALUES
from tests.fuzz.targets import TARGETS
from tests.fuzz.trial import run_trial
from tests.fuzz.web_targets import LETTERS, PRIVATE, WORDS, request

SITES = {"page": public_harness(LETTERS), "page-of-words": public_harness(WORDS), "operator": operator_harness()}
EACH = pytest.mark.parametrize("name", SITES)


def without(site: ListenerHarness, paths: Iterable[str]) -> set[str]:
    """The addresses of a site that are none of these paths."""
    found = {each.canonical: each.get_info() for each in site.app.router.resources()}
    return {
        address
        for address, known in found.items()
        if not any(known["pattern"].fullmatch(path) if "pattern" in known else known["path"] == path for path in paths)
    }


@EACH
def test_every_address_has_a_seed(name: str) -> None:
    paths = [urlsplit(seed.split(b" ")[1].decode()).path for seed in TARGETS[name].seeds()]
    assert without(SITES[name], paths) == set()
    assert without(SITES[name], paths[1:]) != set()


class Noted:
    """A query that says what was looked for in it."""

    def __init__(self, request: web.BaseRequest, looked_for: set[str]) -> None:
        self._given = request.rel_url.query
        self._looked_for = looked_for

    def get(self, name: str, default: str | None = None) -> str | None:
        self._looked_for.add(name)
        return self._given.get(name, default)

    def getall(self, name: str, default: list[str]) -> list[str]:
        self._looked_for.add(name)
        return self._given.getall(name, default)


@EACH
def test_whatever_is_looked_for_in_a_query_is_in_a_seed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_for: Mapping[str, set[str]] = defaultdict(set)
    given: Mapping[str, set[str]] = defaultdict(set)

    def noted(request: web.Request) -> Noted:
        given[request.path].update(request.rel_url.query)
        return Noted(request, looked_for[request.path])

    monkeypatch.setattr(web.BaseRequest, "query", property(noted))
    for seed in TARGETS[name].seeds():
        run_trial(TARGETS[name], seed)
    assert {path: names - given[path] for path, names in looked_for.items() if names - given[path]} == {}
    assert name == "operator" or looked_for["/api/v1/bins"] == {"release", "limit", "search"}


@EACH
def test_any_text_in_any_place_of_a_query_is_an_answer_or_a_refusal(name: str) -> None:
    for seed in TARGETS[name].seeds():
        method, address, rest = seed.split(b" ", 2)
        path, _, query = address.partition(b"?")
        pairs = query.split(b"&") if query else []
        for place, pair in enumerate(pairs):
            key = pair.partition(b"=")[0]
            for text in (*ASKED.get(key, ()), *UNUSUAL_VALUES):
                asked = [*pairs[:place], key + b"=" + quote(text, safe="").encode(), *pairs[place + 1 :]]
                run_trial(TARGETS[name], b" ".join([method, path + b"?" + b"&".join(asked), rest]))


def test_an_error_in_a_handler_is_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(documents, "bins", fail)
    with pytest.raises(ZeroDivisionError):
        run_trial(TARGETS["page"], request("/api/v1/bins?release=w"))


def test_only_who_shows_the_token_sees_what_is_private() -> None:
    assert PRIVATE in operator_harness().ask(request("/metrics", f"Authorization: Bearer {TOKEN}"))
    assert operator_harness().ask(request("/metrics", "Authorization: Bearer x")).startswith(b"HTTP/1.1 401")

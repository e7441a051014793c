"""What the page shows, as plain values: functions of the study's public values and of what is published."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import numpy as np

from streamproc.client.public_reader import add_replace_one, period_to_dict, redrawn_periods
from streamproc.panel.column_packing import bits_for
from streamproc.panel.open_series import last_people_estimates
from streamproc.panel.series import History, Series, named_query, series, suggested_queries
from streamproc.privacy.types import Period, Rho
from streamproc.privacy.zcdp import epsilon_of_rho
from streamproc.protocol.ledger_verifier import VerifiedLedger
from streamproc.protocol.topics import Topics
from streamproc.releases.contracts import describe_release, make_tallier, release_budgets, zero_out_meaning
from streamproc.releases.kind import Contract
from streamproc.releases.open_flow import FLOWS
from streamproc.releases.query import LEVEL
from streamproc.releases.replace_one import ReplaceOneCosts
from streamproc.releases.step import NamedQuery
from streamproc.status_page.follower import PageSnapshot
from streamproc.study import Release, Study

MAX_LISTED_PERIODS = 400
"""Periods of a list in `status`, the newest ones."""


def status(study: Study, shown: PageSnapshot, costs: ReplaceOneCosts | None = None) -> dict[str, Any]:
    """Everything but the numbers over time; `costs` are those of a zero-out study."""
    ledger, privacy = shown.ledger, study.privacy
    spent = ledger.periods[-1].rho_spent if ledger and ledger.periods else Rho(0.0)
    people = None if study.is_open else next((history.contract.n for history in shown.histories.values()), None)
    budgets = release_budgets(study)
    releases = [_release(study, release, budgets[release.name], shown) for release in study.releases]
    found = {
        "study": study.name,
        "alphabet": list(study.alphabet),
        "horizon": study.horizon,
        "state": _state(study, shown),
        "following": shown.following,
        "problem": shown.problem,
        "insecure": ledger.study.insecure if ledger else None,
        "n": people,
        "expected": study.population.size,
        "roster": study.population.roster is not None,
        "open": study.is_open,
        "tenure": study.population.tenure,
        "absent_after": study.population.absent_after,
        "sample": study.population.sample,
        "missing": str(study.population.missing),
        "released": shown.period,
        "adjacency": privacy.adjacency.value,
        "zero_out": zero_out_meaning(study.releases),
        "delta": privacy.delta,
        "rho": privacy.budget,
        "rho_spent": spent,
        "epsilon": epsilon_of_rho(privacy.budget, privacy.delta),
        "epsilon_spent": epsilon_of_rho(spent, privacy.delta),
        "next_cut": _next_cut(study, shown),
        "next_release": _next_release(study, shown),
        "head": ledger.head.hex() if ledger else None,
        "broker": "kafka" if study.broker.folder is None else "embedded",
        "ledger_topic": Topics(study.name).ledger,
        "releases": releases,
    }
    if costs is not None:
        add_replace_one(found, {release["name"]: release for release in releases}, study, ledger, costs)
    return found


def _state(study: Study, shown: PageSnapshot) -> str:
    if _is_over(shown):
        return "over"
    return "waiting" if shown.ledger is None or shown.period == 0 else "running"


def _is_over(shown: PageSnapshot) -> bool:
    return shown.ledger is not None and shown.ledger.is_over


def _next_cut(study: Study, shown: PageSnapshot) -> dict[str, Any] | None:
    """When the next period to be released is closed; it follows from the schedule alone."""
    if study.schedule is None or _is_over(shown):
        return None
    return _at(shown.period + 1, study.schedule.cut_of(shown.period + 1))


def _next_release(study: Study, shown: PageSnapshot) -> dict[str, Any] | None:
    """When the next period is published, if the schedule says so."""
    if study.schedule is None or study.schedule.release_after is None or _is_over(shown):
        return None
    return _at(shown.period + 1, study.schedule.release_of(shown.period + 1))


def _at(period: int, time: datetime) -> dict[str, Any]:
    return {"period": period, "at": time.astimezone(UTC).isoformat().replace("+00:00", "Z")}


def _release(study: Study, release: Release, rho: Rho, shown: PageSnapshot) -> dict[str, Any]:
    ledger, history = shown.ledger, shown.histories.get(release.name)
    periods = [record.releases[release.name] for record in ledger.periods] if ledger else []
    clamped = {period: entry.clamped for period, entry in enumerate(periods, start=1) if entry.clamped}
    n_star = periods[-1].n_star if periods else None
    settings = release.fingerprint_values()
    return {
        "name": release.name,
        "kind": release.kind,
        **{key: settings.get(key) for key in ("k", "event")},
        **describe_release(release)._asdict(),
        "first_column": release.first_column,
        "topic": Topics(study.name).synthetic(release.name),
        "rho": rho,
        "rho_spent": periods[-1].rho_spent if periods else 0.0,
        "n_star": n_star,
        "columns": history.period if history else 0,
        "column_bytes": None if n_star is None else _column_bytes(study, release, history, n_star),
        "clamped": sum(clamped.values()),
        "clamped_periods": sorted(clamped)[-MAX_LISTED_PERIODS:],
        "bins": None if study.is_open else make_tallier(study, release).size,
        "padding": _padding(history) if history and history.counts and history.contract.n_pad else None,
        "questions": _questions(history) if history else [],
        "people": _people(history) if history and history.contract.is_open else None,
    }


def _column_bytes(study: Study, release: Release, history: History | None, rows: int) -> int:
    """The size of the last column in bytes, packed. In an open study it has entries for those who are present or leave."""
    symbols = len(release.column_alphabet(study.alphabet))
    if study.is_open:
        symbols, rows = symbols + 1, 0 if history is None else sum(history.counts[-1][[-3, -1]].tolist())
    return -(-rows * bits_for(symbols) // 8)


def _people(history: History) -> dict[str, Any]:
    """How many people are present after the last period, and how many entered and left in it."""
    return {name: vars(found) for name, found in last_people_estimates(history).items()}


def _questions(history: History) -> list[dict[str, Any]]:
    """Those of the usual ones that have an answer by now."""
    contract = history.contract
    asked = [one for one in suggested_queries(contract) if contract.first_period(one.query) <= history.period]
    return [{"query": one.name, "label": one.label} for one in asked]


def _padding(history: History) -> dict[str, Any]:
    """How near the smallest bin came to being clamped."""
    contract = history.contract
    smallest = [int(counts.min()) for counts in history.counts[-MAX_LISTED_PERIODS:]]
    code = int(history.counts[-1].argmin())
    return {
        "n_pad": contract.padding(history.period),
        "smallest": smallest[-1],
        "bin": _labels(contract, history.period)[code],
        "first": history.period - len(smallest) + 1,
        "smallest_by_period": smallest,
    }


@lru_cache(maxsize=8)
def _labels(contract: Contract, period: Period) -> list[str]:
    return contract.labels(period)


def bins(history: History, search: str, limit: int) -> dict[str, Any]:
    """The largest bins at the last period, of those whose label holds `search`, with their shares."""
    contract, counts = history.contract, history.counts[-1] if history.counts else np.zeros(0, dtype=np.int64)
    names = _labels(contract, history.period) if len(counts) else []
    order = np.argsort(-counts, kind="stable").tolist()
    bins = len(counts) - (len(FLOWS) if contract.is_open else 0)
    found = [code for code in order if code < bins and search in names[code]]
    listed = []
    for code in found[:limit]:
        query = contract.query_of(names[code])
        answer = answer_series(history, named_query(contract, query), history.period, history.period)
        share = {key: (getattr(answer, key) or [None])[-1] for key in ("value", "low", "high")}
        listed.append({"query": query, "label": names[code], "count": int(counts[code])} | share)
    shared = {
        "release": contract.name,
        "period": history.period,
        "padding": contract.padding(history.period),
        "level": LEVEL,
    }
    return shared | {"total": bins, "matched": len(found), "bins": listed}


def answers(history: History, queries: list[str], first: int, last: int | None) -> dict[str, Any]:
    """Each question's answers over time."""
    listed = []
    for name in queries:
        asked = named_query(history.contract, name)
        found = answer_series(history, asked, first, last)
        listed.append({"query": asked.name, "label": asked.label} | vars(found))
    contract = history.contract
    return {"release": contract.name, "n": None if contract.is_open else contract.n, "level": LEVEL, "series": listed}


def answer_series(history: History, asked: NamedQuery, first: int, last: int | None) -> Series:
    """The answers to one question. Of an open study they may lack periods with too few people."""
    return series(history, asked, first, last)


def chain(
    ledger: VerifiedLedger | None, before: int | None, limit: int, costs: ReplaceOneCosts | None = None
) -> dict[str, Any]:
    """The ledger's periods before one, the newest first."""
    if ledger is None:
        return {"head": None, "study_digest": None, "fingerprint": None, "total": 0, "periods": []}
    records = ledger.periods
    last = len(records) if before is None else max(min(before - 1, len(records)), 0)
    digests = [*(record.previous for record in records), ledger.head]
    chosen = range(last, max(last - limit, 0), -1)
    redrawn = redrawn_periods(records)
    return {
        "head": ledger.head.hex(),
        "study_digest": digests[0].hex(),
        "fingerprint": ledger.study.fingerprint.hex(),
        "total": len(records),
        "periods": [
            period_to_dict(record, costs, redrawn) | {"digest": digests[record.period].hex()}
            for record in (records[period - 1] for period in chosen)
        ],
    }

"""Messages of a plan: warnings that a steward should act on, and notes on what the numbers do and do not include."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from streamproc.planning.plan import PlanMessage, ReleasePlan
from streamproc.privacy.adjacency import Adjacency
from streamproc.study import Study
from streamproc.study.study import MAX_RHO

ASSUMED_PEOPLE = 10_000
"""Number of people that a plan assumes if the study does not state it."""

WIDE_POINTS = 10.0
"""Half-width of a 95% interval, in percentage points, above which an answer says little."""

_NO_BUDGET = f"no budget that a study may have (rho up to {MAX_RHO}) would be enough with this release's share of it"


def warnings(study: Study, releases: Sequence[ReleasePlan]) -> Iterator[PlanMessage]:
    """Warnings about costs that are hard to interpret and releases that are hard to use, each with advice."""
    if study.privacy.adjacency is Adjacency.ZERO_OUT:
        contracts = [plan.contract for plan in releases]
        means = min(contracts, key=lambda contract: contract.zero_out_has_neighbours).zero_out_meaning
        message = f"zero-out takes a person out of every count: {means}; judge the study by its replace-one figures"
        yield PlanMessage("zero_out", None, message)
    for plan in releases:
        yield from _padding_warning(plan)
        yield from _width_warning(plan)


def notes(study: Study, n: int | None, *, compared: bool) -> Iterator[PlanMessage]:
    """Notes on what the numbers of a plan do not show."""
    if study.is_open:
        yield from _open_notes(study, n)
    elif study.population.roster is None:
        message = "without a roster, the people who report in period 1 take part, and who they are is not protected"
        yield PlanMessage("no_roster", None, message)
        if study.population.size is None:
            message = f"population.size is not given, so {n:,} people are assumed; errors in people hold for any number"
            yield PlanMessage("people_assumed", None, message)
    elif study.population.size not in (None, n) and n is not None:
        message = f"the roster has {n:,} people, not population.size = {study.population.size:,}; the roster counts"
        yield PlanMessage("roster_differs_from_size", None, message)
    unused = 1 - sum(release.share for release in study.releases)
    if unused > 0:
        message = f"the shares leave {float(unused):.3g} of the budget unused"
        yield PlanMessage("budget_unused", None, message)
    if not compared:
        message = "the paper's mechanism was not compared, since that takes seconds at this horizon: --compare does it"
        yield PlanMessage("paper_not_compared", None, message)


def _open_notes(study: Study, n: int | None) -> Iterator[PlanMessage]:
    message = (
        "whether, when and for how long somebody takes part is protected like their reports; for a person with two ids the "
        "cost is four times as high"
    )
    yield PlanMessage("participation_protected", None, message)
    if n is None:
        message = "population.size, the number of people present, is not given, so errors are stated in people only"
    else:
        message = (
            f"% points are those of a share among {n:,} people, the largest over all shares; among fewer people, such as "
            "those who have been present for several periods, errors are larger"
        )
    yield PlanMessage("open_shares", None, message)


def _padding_warning(plan: ReleasePlan) -> Iterator[PlanMessage]:
    contract = plan.contract
    padded = contract.expected_rows - contract.n
    if padded <= contract.n:
        return
    # The padding falls with the square root of the budget.
    rho = contract.rho * (padded / contract.n) ** 2
    ways = list(plan.planner.padding_advice())
    if _allowed(plan, rho):
        ways.append(f"a budget of about rho = {_about(rho)} for this release")
    advice = ", or ".join([*ways, "more people"])
    if not _allowed(plan, rho):
        advice += f"; {_NO_BUDGET}"
    bins = padded // contract.n_pad
    message = (
        f"padding outweighs people: {bins:,} bins x {contract.n_pad:,} = {padded:,} padding people beside "
        f"{contract.n:,} real ones, so shares that are not debiased mean little; take {advice}"
    )
    yield PlanMessage("padding_outweighs_people", plan.release.name, message)


def _allowed(plan: ReleasePlan, rho: float) -> bool:
    """Whether some study budget would give the release this budget at its share."""
    return rho <= MAX_RHO * float(plan.share)


def _width_warning(plan: ReleasePlan) -> Iterator[PlanMessage]:
    widths = [(query.worst.half_points, place) for place, query in enumerate(plan.queries)]
    known = [(points, -place) for points, place in widths if points is not None]
    if not known:
        return
    widest, place = max(known)
    query = plan.queries[-place]
    if widest > WIDE_POINTS:
        more = (widest / WIDE_POINTS) ** 2
        budget = f", or {_about(more)} times the budget" if _allowed(plan, plan.contract.rho * more) else f"; {_NO_BUDGET}"
        message = (
            f"wide intervals: ±{widest:.3g} points for [{query.label}] at period {query.worst.period}; "
            f"±{WIDE_POINTS:g} points would take about {_about(widest / WIDE_POINTS)} times the people{budget}"
        )
        yield PlanMessage("wide_interval", plan.release.name, message)


def _about(value: float) -> str:
    """A number rounded to two significant digits."""
    return f"{float(f'{value:.2g}'):,g}"

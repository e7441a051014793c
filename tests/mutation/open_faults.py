"""Faults in the mathematics and the rules of open studies, and the tests that notice each."""

from __future__ import annotations

from tests.mutation.fault import Fault

_PATHS = "privacy/test_open_flow.py::test_every_prefix_costs_what_its_worst_pair_costs"
_PRESENCE = "releases/test_open_presence.py::test_the_tallies_are_those_of_the_people_who_are_present"
_FLOW = "streamproc.privacy.open_flow"

COST = (
    Fault(
        "leaving costs nothing",
        _FLOW,
        "_LongestPath.worst",
        "(single + leaving).max()",
        "single.max()",
        (_PATHS,),
    ),
    Fault(
        "nobody leaves in the period in which another person enters",
        _FLOW,
        "_LongestPath._two_people",
        "self._add_handovers(lone)",
        "",
        (_PATHS,),
    ),
    Fault(
        "two people who are present together never leave together",
        _FLOW,
        "_LongestPath._add_present_together",
        "(lengths + last_leaving).max(axis=(1, 2))",
        "lengths.max(axis=(1, 2))",
        (_PATHS,),
    ),
    Fault(
        "a person is present for one period less than the tenure in the cost",
        _FLOW,
        "_LongestPath._one_person",
        "len(singles) < self._tenure",
        "len(singles) < self._tenure - 1",
        (_PATHS,),
    ),
    Fault(
        "replace-one is charged like add-remove",
        _FLOW,
        "_LongestPath.worst",
        "adjacency is Adjacency.ADD_REMOVE",
        "True",
        (_PATHS,),
    ),
    Fault(
        "the noise of an open study is rounded down",
        _FLOW,
        "OpenFlowMechanism.calibrated",
        "sqrt_up(Fraction(worst, 2) / Fraction(rho))",
        "sqrt_up(Fraction(worst, 2) / Fraction(rho)) * (1 - 2**-52)",
        ("privacy/test_open_flow.py::test_a_calibrated_mechanism_spends_its_budget_and_a_bit_less_noise_would_exceed_it",),
    ),
    Fault(
        "a period that is drawn again costs nothing in an open study",
        _FLOW,
        "OpenFlowMechanism.cost",
        "reached + added",
        "reached",
        ("privacy/test_open_flow.py::test_redraws_cost_at_most_what_is_stated",),
    ),
)
"""What one participation costs."""

PRESENCE = (
    Fault(
        "a person is present for one period more than the tenure",
        "streamproc.releases.open_presence",
        "PresenceState.fold",
        "self.ages == population.tenure",
        "self.ages > population.tenure",
        (_PRESENCE,),
    ),
    Fault(
        "a person who has left enters again",
        "streamproc.releases.open_presence",
        "PresenceState.fold",
        "(self.ages == 0) & ~silent",
        "((self.ages == 0) | (self.gone > 0)) & ~silent",
        (_PRESENCE,),
    ),
    Fault(
        "a person leaves one missing report too late",
        "streamproc.releases.open_presence",
        "PresenceState.fold",
        "missed == (population.absent_after or 0)",
        "missed == (population.absent_after or 0) + 1",
        (_PRESENCE,),
    ),
    Fault(
        "missing reports are counted over a whole participation",
        "streamproc.releases.open_presence",
        "PresenceState.fold",
        "np.where(here & silent, self.missed + 1, 0)",
        "np.where(here & silent, self.missed + 1, self.missed)",
        (_PRESENCE,),
    ),
)
"""Who is present."""

SYNTHETIC = (
    Fault(
        "synthetic people stay longer than the tenure",
        "streamproc.releases.open_flow",
        "OpenContract._people_and_forced",
        "states[ages >= self.tenure]",
        "states[ages > self.tenure]",
        ("releases/test_open_flow.py::test_rows_only_append_and_nobody_stays_longer_than_the_tenure",),
    ),
    Fault(
        "row numbers of synthetic people are used again",
        "streamproc.releases.open_flow",
        "OpenContract.step",
        "np.arange(before.rows, before.rows + entrants, dtype=np.uint32)",
        "np.arange(len(before.numbers), len(before.numbers) + entrants, dtype=np.uint32)",
        ("releases/test_open_flow.py::test_rows_only_append_and_nobody_stays_longer_than_the_tenure",),
    ),
    Fault(
        "any number of synthetic people may enter",
        "streamproc.releases.open_steering",
        "project_open",
        "(total := float(entering.sum())) > max_entrants",
        "(total := float(entering.sum())) > 10**9",
        ("releases/test_open_flow.py::test_no_more_synthetic_people_enter_in_a_period_than_the_contract_says",),
    ),
    Fault(
        "an answer asks among everybody, however short their presence",
        "streamproc.releases.open_kinds",
        "OpenWindowContract.kind_weights",
        "np.zeros(bins), np.zeros(bins)",
        "np.zeros(bins), np.ones(bins)",
        ("releases/test_open_flow.py::test_a_query_asks_about_the_people_who_were_present_long_enough",),
    ),
)
"""What synthetic people do, and what is asked of them."""

OPEN_FAULTS = (*COST, *PRESENCE, *SYNTHETIC)

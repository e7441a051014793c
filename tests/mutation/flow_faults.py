"""Deliberate faults of the flow mechanism and of the releases that it measures, each with the tests that must notice it."""

from __future__ import annotations

from tests.mutation.fault import Fault

COST = (
    Fault(
        "a transition is forgotten in the cost",
        "streamproc.privacy.flow",
        "FlowMechanism._worst_distances",
        "distances = norms[:, None] + norms[None, :] - 2 * gram",
        """
        distances = norms[:, None] + norms[None, :] - 2 * gram
        distances[-1] = distances[:, -1] = 0
        """,
        ("privacy/test_flow.py::test_every_prefix_costs_what_its_worst_pair_costs",),
    ),
    Fault(
        "a transition is forgotten in the cost of a history without events",
        "streamproc.privacy.flow",
        "FlowMechanism._worst_without_events",
        "moved = matrix - matrix[:, [quiet]]",
        """
        moved = matrix - matrix[:, [quiet]]
        moved[:, -1] = 0
        """,
        ("privacy/test_flow.py::test_every_prefix_costs_what_its_worst_pair_costs",),
    ),
    Fault(
        "histories are followed to the states that they leave",
        "streamproc.privacy.flow",
        "FlowMechanism._worst_without_events",
        "np.maximum.at(worst, period.target, longer)",
        "np.maximum.at(worst, period.source, longer)",
        ("privacy/test_flow.py::test_every_prefix_costs_what_its_worst_pair_costs",),
    ),
    Fault(
        "the cost after a period is that of the period before",
        "streamproc.privacy.flow",
        "FlowMechanism.cost",
        "self._known_distances[again][period]",
        "self._known_distances[again][max(period - 1, 0)]",
        ("privacy/test_flow.py::test_every_prefix_costs_what_its_worst_pair_costs",),
    ),
    Fault(
        "the cost after a period is that of the period alone",
        "streamproc.privacy.flow",
        "FlowMechanism._worst_distances",
        "worst[np.ix_(period.source, period.source)] + draws[t] * distances",
        "draws[t] * distances",
        ("privacy/test_flow.py::test_every_prefix_costs_what_its_worst_pair_costs",),
    ),
    Fault(
        "replace-one is treated as zero-out on automata",
        "streamproc.privacy.flow",
        "FlowMechanism._worst_distances",
        "self.adjacency is Adjacency.ZERO_OUT",
        "True",
        ("privacy/test_flow.py::test_every_prefix_costs_what_its_worst_pair_costs",),
    ),
    Fault(
        "a period that is drawn again is not counted",
        "streamproc.privacy.flow",
        "FlowMechanism.cost",
        "tuple(sorted(late for late in redrawn if late <= period))",
        "()",
        ("privacy/test_flow.py::test_a_period_that_is_drawn_again_counts_once_more",),
    ),
    Fault(
        "a period that is drawn three times is counted twice",
        "streamproc.privacy.flow",
        "FlowMechanism._worst_distances",
        "np.add.at(draws, list(redrawn), 1)",
        "draws[list(redrawn)] += 1",
        ("privacy/test_flow.py::test_a_period_that_is_drawn_again_counts_once_more",),
    ),
    Fault(
        "the noise of an automaton is rounded down",
        "streamproc.privacy.flow",
        "FlowMechanism.calibrated",
        "sqrt_up(Fraction(worst, 2) / Fraction(rho))",
        "sqrt_up(Fraction(worst, 2) / Fraction(rho)) * (1 - 2**-52)",
        ("privacy/test_flow.py::test_a_calibrated_mechanism_spends_its_budget_and_a_bit_less_noise_would_exceed_it",),
    ),
    Fault(
        "matrices are not rounded before they are costed",
        "streamproc.privacy.flow_design",
        "design_matrices",
        "np.rint(scale * matrix).astype(np.int64)",
        "scale * matrix",
        ("privacy/test_flow.py::test_every_prefix_costs_what_its_worst_pair_costs",),
    ),
    Fault(
        "symbols that lead to the same state are different transitions",
        "streamproc.privacy.automaton",
        "_transitions",
        "cells = cells[automaton.merged_cells[cells] == cells]",
        "",
        ("privacy/test_flow.py::test_symbols_that_lead_to_one_state_are_one_transition",),
    ),
    Fault(
        "a contract may have less noise than its budget allows",
        "streamproc.releases.flow",
        "FlowContract.is_implied_by",
        "mechanism.cost(Period(mechanism.horizon)) <= self.rho",
        "True",
        ("releases/test_flow.py::test_less_noise_than_the_budget_allows_does_not_follow_from_the_study",),
    ),
)
"""What the measurements of an automaton cost."""

WINDOW_COST = (
    Fault(
        "replace-one is treated as zero-out in windows by flow",
        "streamproc.privacy.window_flow",
        "WindowFlowMechanism.cost",
        "self.adjacency is Adjacency.REPLACE_ONE",
        "False",
        ("privacy/test_window_flow.py::test_every_prefix_costs_what_its_worst_pair_costs",),
    ),
    Fault(
        "the weight of a set does not depend on its span",
        "streamproc.privacy.window_flow",
        "WindowFlowMechanism._scaled_weights",
        "min(p - s + 1, last)",
        "min(p, last)",
        (
            "privacy/test_window_flow.py::test_a_whole_study_costs_the_sum_of_its_weights_times_the_bins",
            "privacy/test_window_flow.py::test_errors_are_those_of_the_dense_form",
        ),
    ),
    Fault(
        "the weight of a set leaves out the windows that end later",
        "streamproc.privacy.window_flow",
        "WindowFlowMechanism._scaled_weights",
        "sums[min(p - s + 1, last)] - sums[max(p, k) - k]",
        "sums[max(p, k) - k + 1] - sums[max(p, k) - k]",
        ("privacy/test_window_flow.py::test_errors_are_those_of_the_dense_form",),
    ),
    Fault(
        "the noise of a set is rounded down",
        "streamproc.privacy.window_flow",
        "WindowFlowMechanism.sigma",
        "sqrt_up((1 if self.q == 2 else self.q**size) / self.set_weight(newest, span))",
        "sqrt_up((1 if self.q == 2 else self.q**size) / self.set_weight(newest, span)) * (1 - 2**-52)",
        ("privacy/test_window_flow.py::test_every_prefix_costs_what_its_worst_pair_costs",),
    ),
    Fault(
        "a set that holds an older difference inside costs nothing",
        "streamproc.privacy.window_flow",
        "_step_costs",
        "beyond += row[ago] * (q - 1) ** 2 * q ** (ago - 1)",
        "",
        ("privacy/test_window_flow.py::test_every_prefix_costs_what_its_worst_pair_costs",),
    ),
    Fault(
        "a window that is drawn three times is counted twice",
        "streamproc.privacy.window_flow",
        "WindowFlowMechanism.cost",
        "draws[late] += 1",
        "draws[late] = 2",
        ("privacy/test_window_flow.py::test_a_period_that_is_drawn_again_counts_once_more",),
    ),
    Fault(
        "window weights may cost more than the budget",
        "streamproc.releases.window_flow",
        "WindowFlowContract.is_implied_by",
        "self.mechanism.cost(Period(self.horizon)) <= self.rho",
        "True",
        ("releases/test_window.py::test_any_weights_within_the_budget_are_implied_by_the_study",),
    ),
)
"""What the measurements of windows cost."""

NOISE = (
    Fault(
        "half the noise is drawn on automata",
        "streamproc.releases.flow",
        "FlowContract.step",
        "noise.gaussian(self.mechanism.matrices[period - 1] @ exact, self.mechanism.sigma)",
        "noise.gaussian(self.mechanism.matrices[period - 1] @ exact, self.mechanism.sigma / 2)",
        ("releases/test_cumulative.py::test_unclamped_estimates_err_as_promised",),
    ),
    Fault(
        "one row of measurements has no noise",
        "streamproc.releases.flow",
        "FlowContract.step",
        "noisy = noise.gaussian(self.mechanism.matrices[period - 1] @ exact, self.mechanism.sigma)",
        """
        noisy = noise.gaussian(self.mechanism.matrices[period - 1] @ exact, self.mechanism.sigma)
        noisy[0] = self.mechanism.matrices[period - 1][0] @ exact
        """,
        ("releases/test_cumulative.py::test_unclamped_estimates_err_as_promised",),
    ),
    Fault(
        "half the noise is drawn on windows",
        "streamproc.releases.window_flow",
        "WindowFlowContract.measure_tally",
        "self.mechanism.sigma(period, group.span, group.size)",
        "self.mechanism.sigma(period, group.span, group.size) / 2",
        ("releases/test_window.py::test_released_counts_err_as_promised",),
    ),
    Fault(
        "the set of all periods of a window has no noise",
        "streamproc.releases.window_flow",
        "WindowFlowContract.measure_tally",
        "noise.gaussian(values, self.mechanism.sigma(period, group.span, group.size))",
        "values if group.size == length else noise.gaussian(values, self.mechanism.sigma(period, group.span, group.size))",
        ("releases/test_window.py::test_released_counts_err_as_promised",),
    ),
)
"""The noise that is drawn."""

ERRORS = (
    Fault(
        "estimates solve the measurements by the wrong matrix",
        "streamproc.privacy.flow",
        "FlowMechanism.estimator",
        "transitions.contrasts @ np.linalg.inv(matrix @ transitions.contrasts)",
        "transitions.contrasts @ np.linalg.inv(matrix @ transitions.contrasts).T",
        ("privacy/test_flow.py::test_estimates_without_noise_are_the_counts",),
    ),
    Fault(
        "the stated noise is not scaled by the matrices",
        "streamproc.privacy.flow",
        "FlowMechanism._errors",
        "period.entering(estimator.measured)",
        "period.entering(period.contrasts)",
        ("privacy/test_flow.py::test_the_mechanism_states_the_errors_of_its_own_matrices",),
    ),
    Fault(
        "errors of earlier periods are forgotten",
        "streamproc.privacy.flow",
        "FlowMechanism._errors",
        "carried @ covariance @ carried.T + self.sigma**2 * (fresh @ fresh.T)",
        "self.sigma**2 * (fresh @ fresh.T)",
        ("privacy/test_flow.py::test_the_mechanism_states_the_errors_of_its_own_matrices",),
    ),
    Fault(
        "the covariance of two periods is dropped",
        "streamproc.privacy.flow",
        "FlowMechanism.state_covariance",
        "self._errors[t][0] @ covariance",
        "0 * (self._errors[t][0] @ covariance)",
        ("privacy/test_flow.py::test_the_mechanism_states_the_errors_of_its_own_matrices",),
    ),
    Fault(
        "the covariance of two windows that overlap is dropped",
        "streamproc.privacy.window_flow",
        "WindowFlowMechanism.covariance",
        "common < 1",
        "earlier < period",
        ("privacy/test_window_flow.py::test_errors_are_those_of_the_dense_form",),
    ),
    Fault(
        "standard errors forget that the total is known",
        "streamproc.privacy.window_flow",
        "_supports",
        "np.where(newest < 0, length * length, (newest - oldest) * length + newest)",
        "np.where(newest < 0, length - 1, (newest - oldest) * length + newest)",
        ("panel/test_accuracy.py::test_the_total_of_flow_is_known_exactly",),
    ),
    Fault(
        "later weights are left out of the recursion",
        "streamproc.privacy.flow_design",
        "recursion",
        "np.diag(weights.transitions[t]) + later[np.ix_(period.target, period.target)]",
        "np.diag(weights.transitions[t])",
        ("privacy/test_flow.py::test_the_recursion_has_the_errors_of_least_squares_over_all_periods",),
    ),
    Fault(
        "weights on the states of earlier periods are left out",
        "streamproc.privacy.flow_design",
        "recursion",
        "later = later + weights.states[t - 1]",
        "",
        ("privacy/test_flow.py::test_the_recursion_has_the_errors_of_least_squares_over_all_periods",),
    ),
    Fault(
        "weights are not tuned for the questions that are declared",
        "streamproc.releases.flow",
        "FlowContract.asked_thresholds",
        "tuple(j for j in known if j in asked) or known",
        "known",
        ("releases/test_flow.py::test_declared_questions_get_more_precision_than_without_them",),
    ),
    Fault(
        "the estimates of a period are those of the last one",
        "streamproc.releases.kind",
        "Contract.estimates",
        "measurements[:period]",
        "measurements",
        ("panel/test_panel.py::test_an_interval_by_flow_is_that_of_the_unclamped_estimate_widened_to_the_panels_value",),
    ),
    Fault(
        "intervals are not widened to the clamped value",
        "streamproc.releases.query",
        "interval",
        "(np.minimum(centre - half, value), np.maximum(centre + half, value))",
        "(centre - half, centre + half)",
        ("panel/test_panel.py::test_an_interval_by_flow_is_that_of_the_unclamped_estimate_widened_to_the_panels_value",),
    ),
    Fault(
        "every rounded count is said to be clamped",
        "streamproc.releases.flow",
        "FlowContract.clamped_counts",
        "reach + self._slack",
        "self._slack",
        (
            "panel/test_clamped.py::"
            "test_a_count_by_flow_is_clamped_only_if_it_is_further_from_its_estimate_than_rounding_goes",
        ),
    ),
)
"""Estimates, and the errors that are stated for them."""

STEERING = (
    Fault(
        "synthetic people follow the real counts instead of the estimates",
        "streamproc.releases.flow",
        "FlowContract.step",
        "self.project(transitions, people, estimator.transitions, period)",
        "self.project(transitions, people, exact.astype(float), period)",
        ("releases/test_flow.py::test_a_reader_accepts_honest_columns_and_notices_another_one",),
    ),
    Fault(
        "estimates begin with the panel's counts instead of the estimates before",
        "streamproc.releases.flow",
        "FlowContract.step",
        "FlowEstimator(self, before.period, before.estimates)",
        "FlowEstimator(self, before.period, before.counts.astype(float))",
        ("releases/test_flow.py::test_a_state_is_rebuilt_from_what_was_published",),
    ),
    Fault(
        "the place of a state is taken for the state before a period",
        "streamproc.releases.flow",
        "FlowContract.step",
        "before.counts[transitions.before]",
        "before.counts[: len(transitions.before)]",
        ("releases/test_flow.py::test_a_state_that_is_left_for_good_does_not_shift_the_others",),
    ),
    Fault(
        "rows are assigned by their states instead of the places of these",
        "streamproc.releases.flow",
        "FlowContract._assign",
        "before[-1] == len(before) - 1",
        "True",
        ("releases/test_flow.py::test_a_state_that_is_left_for_good_does_not_shift_the_others",),
    ),
    Fault(
        "the numbers of people on transitions are always rounded down",
        "streamproc.releases.flow_steering",
        "round_transitions",
        "sums + rng.random(len(people))[sorted_source]",
        "sums",
        ("releases/test_flow_steering.py::test_a_number_goes_up_as_often_as_its_fraction_says",),
    ),
    Fault(
        "numbers on transitions are rounded in a fixed order",
        "streamproc.releases.flow_steering",
        "round_transitions",
        "rng.random(len(source))",
        "np.zeros(len(source))",
        ("releases/test_flow_steering.py::test_neighbours_are_not_rounded_against_each_other",),
    ),
    Fault(
        "questions do not count in the projection",
        "streamproc.releases.flow_steering",
        "project_transitions",
        "questions.T @ questions + STATE_WEIGHT * np.eye(len(transitions.after))",
        "STATE_WEIGHT * np.eye(len(transitions.after))",
        ("releases/test_flow_steering.py::test_the_projection_is_what_a_general_optimiser_finds",),
    ),
    Fault(
        "people near a match do not count in the projection",
        "streamproc.releases.pattern",
        "PatternContract.project",
        "np.vstack((self.questions(period), NEAR_WEIGHT**0.5 * near))",
        "self.questions(period)",
        ("releases/test_flow.py::test_people_who_cannot_have_matched_yet_are_kept_near_a_match",),
    ),
    Fault(
        "people may have lost an event",
        "streamproc.releases.flow_steering",
        "clamp_at_least",
        "np.clip(at_least, last, before[: len(at_least)])",
        "np.minimum(at_least, before[: len(at_least)])",
        ("releases/test_flow_steering.py::test_running_counts_are_clamped_as_in_the_paper",),
    ),
    Fault(
        "one symbol stands for all that make the same transition",
        "streamproc.releases.flow",
        "split_by_symbol",
        "rng.binomial(left[first], 1 / open_classes[first])",
        "left[first]",
        ("releases/test_flow.py::test_symbols_that_make_one_transition_are_drawn_evenly",),
    ),
    Fault(
        "the rows that are moved are the first of a large panel",
        "streamproc.releases.row_assignment",
        "_correct_counts",
        "rng.integers(0, len(groups), size=probes)",
        "np.arange(probes)",
        ("releases/test_row_assignment.py::test_correction_picks_every_row_and_every_pair_equally_often",),
    ),
    Fault(
        "windows follow the totals of the real data",
        "streamproc.releases.window_synthesis",
        "step_window",
        "contract.estimated_counts(period, measured, before)",
        """
        contract.estimated_counts(
            period,
            measured,
            None
            if before is None
            else (tally[:bins] + contract.padding(period)).reshape(-1, contract.mechanism.q).sum(axis=1),
        )
        """,
        ("releases/test_window.py::test_released_counts_err_as_promised",),
    ),
    Fault(
        "padding is not spread over the shorter windows",
        "streamproc.releases.window_flow",
        "WindowFlowContract.padding",
        "self.n_pad * (self.mechanism.bins // self.bins_at(period))",
        "self.n_pad",
        ("releases/test_padding.py::test_padding_is_spread_over_the_bins_of_every_period",),
    ),
)
"""How synthetic people follow the estimates."""

AUTOMATA = (
    Fault(
        "a history that has matched is forgotten with the next symbol",
        "streamproc.study.pattern",
        "_subset_table",
        "np.array([*rows, [matched] * len(automaton.having)], dtype=np.int64)",
        "np.array([*rows, [0] * len(automaton.having)], dtype=np.int64)",
        ("study/test_pattern.py::test_a_pattern_over_two_symbols_finds_what_re_finds",),
    ),
    Fault(
        "a spell is not ended by a period without an event",
        "streamproc.privacy.automaton",
        "spell_counter",
        "(0, min(run + 1, length))",
        "(run, min(run + 1, length))",
        ("privacy/test_flow.py::test_the_automata_of_the_kinds_count_what_they_say",),
    ),
    Fault(
        "events are counted from zero again after the most that is told apart",
        "streamproc.privacy.automaton",
        "event_counter",
        "min(count + 1, most)",
        "(count + 1) % (most + 1)",
        ("privacy/test_flow.py::test_the_automata_of_the_kinds_count_what_they_say",),
    ),
    Fault(
        "real people keep the state that they had before",
        "streamproc.releases.flow",
        "FlowTallier.tally",
        "self._automaton.next_states.ravel()[cells].astype(np.uint16)",
        "state",
        ("releases/test_flow.py::test_without_noise_the_panel_has_the_counts_of_the_people",),
    ),
)
"""What the automata of the kinds follow."""

FLOW_FAULTS = (*COST, *WINDOW_COST, *NOISE, *ERRORS, *STEERING, *AUTOMATA)

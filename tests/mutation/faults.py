"""Deliberate faults of the library, each with the tests of which at least one must fail."""

from __future__ import annotations

from dataclasses import dataclass

from tests.mutation.syntax_patch import Mutation


@dataclass(frozen=True)
class Fault(Mutation):
    """A mutation that certain tests must notice."""

    tests: tuple[str, ...]
    """Files below `tests/`."""


FAULTS = (
    Fault(
        "half the noise is calibrated",
        "streamproc.privacy.window",
        "WindowMechanism.calibrated",
        "unit.cost(Period(horizon)) / Fraction(rho)",
        "unit.cost(Period(horizon)) / Fraction(rho) / 4",
        ("privacy/test_accountant.py",),
    ),
    Fault(
        "half the noise is drawn at later steps",
        "streamproc.releases.window_synthesis",
        "_later_step",
        "noise.gaussian(contrasts(by_overlap).ravel(), mechanism.sigma_later)",
        "noise.gaussian(contrasts(by_overlap).ravel(), mechanism.sigma_later / 2)",
        ("releases/test_window.py",),
    ),
    Fault(
        "half the noise is drawn by the counters",
        "streamproc.releases.cumulative_synthesis",
        "_measure",
        "mechanism.sigmas[b - 1]",
        "mechanism.sigmas[b - 1] / 2",
        ("releases/test_cumulative.py",),
    ),
    Fault(
        "replace-one is treated as zero-out in windows",
        "streamproc.privacy.window",
        "WindowMechanism._sensitivities",
        "self.adjacency is Adjacency.ZERO_OUT",
        "True",
        ("privacy/test_window_cost.py",),
    ),
    Fault(
        "replace-one is treated as zero-out in counters",
        "streamproc.privacy.cumulative",
        "_worst_costs",
        "horizon = len(weights)",
        """
        horizon = len(weights)
        adjacency = Adjacency.ZERO_OUT
        """,
        ("privacy/test_cumulative_cost.py",),
    ),
    Fault(
        "shared overlaps are counted one too few",
        "streamproc.privacy.window",
        "WindowMechanism._sensitivities",
        "-(-later // self.k)",
        "later // self.k",
        ("privacy/test_window_cost.py",),
    ),
    Fault(
        "one level of the tree counter is left out",
        "streamproc.privacy.cumulative",
        "_distances",
        "counts.matrix[counts.rows_at(length), :length]",
        "counts.matrix[counts.rows_at(length), :length][: (length & (length - 1)) or length == 1]",
        ("privacy/test_cumulative_cost.py",),
    ),
    Fault(
        "the accountant counts one period late",
        "streamproc.privacy.accountant",
        "PrivacyAccountant.spent",
        "self.mechanism.cost(self.period, self.redrawn)",
        "self.mechanism.cost(Period(max(self.period - 1, 0)), self.redrawn)",
        ("privacy/test_accountant.py",),
    ),
    Fault(
        "costs are rounded down",
        "streamproc.privacy.directed_rounding",
        "float_up",
        "nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)",
        "nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)",
        ("privacy/test_directed_rounding.py", "privacy/test_accountant.py"),
    ),
    Fault(
        "noise is a rounded float",
        "streamproc.storage.entropy",
        "_SystemDraw.gaussian",
        "self._process.gaussian(exact, sigma)",
        "exact + np.rint(self.rng().normal(0, sigma, exact.shape)).astype(np.int64)",
        ("privacy/test_noise.py",),
    ),
    Fault(
        "a contract may claim noise of another source",
        "streamproc.releases.synthesis",
        "Synthesis.step",
        "self._check_source(entropy)",
        "",
        ("releases/test_synthesis.py",),
    ),
    Fault(
        "noise is drawn in the process that asks for it",
        "streamproc.storage.entropy",
        "_SystemDraw.gaussian",
        "return self._process.gaussian(exact, sigma)",
        """
        from streamproc.storage.noise_server import gaussian_measurement
        return np.array(gaussian_measurement(sigma)(exact.tolist()), dtype=np.int64)
        """,
        ("privacy/test_noise.py",),
    ),
    Fault(
        "rows follow the totals of the real data",
        "streamproc.releases.window_synthesis",
        "_later_step",
        "state.counts.reshape(q, overlaps).sum(axis=0)",
        "tally.reshape(overlaps, q).sum(axis=1) + contract.n_pad * q",
        ("releases/test_window.py",),
    ),
    Fault(
        "the rows that are moved are not chosen at random",
        "streamproc.releases.row_assignment",
        "_correct_counts",
        "rng.shuffle(rows)",
        "",
        ("releases/test_row_assignment.py",),
    ),
    Fault(
        "rounding always starts at zero",
        "streamproc.releases.window_synthesis",
        "round_groups",
        "rng.integers(0, denominator, size=(len(numerators), 1))",
        "np.zeros((len(numerators), 1), dtype=np.int64)",
        ("releases/test_rounding.py",),
    ),
    Fault(
        "negative counts are cut off without keeping the total",
        "streamproc.releases.window_synthesis",
        "clamp_groups",
        "_clamp(counts[row], int(totals[row]), rng)",
        "np.maximum(counts[row], 0)",
        ("releases/test_clamping.py",),
    ),
    Fault(
        "running counts are clamped in the wrong direction",
        "streamproc.releases.cumulative_synthesis",
        "step_cumulative",
        "np.clip(wanted, state.sums[1 : period + 1], state.sums[:period])",
        "np.clip(wanted, 0, state.sums[1 : period + 1])",
        ("releases/test_cumulative.py",),
    ),
    Fault(
        "padding is half of what it should be",
        "streamproc.releases.window_synthesis",
        "padding_of",
        "(noise + rounding) * tail",
        "(noise + rounding) * tail / 2",
        ("releases/test_padding.py",),
    ),
    Fault(
        "answers keep the padding",
        "streamproc.panel.panel",
        "make_answer",
        "float(weights @ counts) - contract.n_pad * float(weights.sum())",
        "float(weights @ counts)",
        ("panel/test_panel.py",),
    ),
    Fault(
        "standard errors forget that the total is known",
        "streamproc.releases.window_accuracy",
        "noise_variance",
        'mechanism.measure == "contrast"',
        "False",
        ("panel/test_accuracy.py", "panel/test_panel.py"),
    ),
    Fault(
        "intervals of clamped counts are centred on the clamped value",
        "streamproc.panel.panel",
        "make_answer",
        "value if estimates is None else float(weights @ estimates)",
        "value",
        ("panel/test_panel.py",),
    ),
    Fault(
        "shares of the budget are rounded up",
        "streamproc.privacy.accountant",
        "split_budget",
        "float_down(Fraction(rho) * share)",
        "float_up(Fraction(rho) * share)",
        ("privacy/test_accountant.py",),
    ),
    Fault(
        "the replace-one figure of a zero-out study is its zero-out figure",
        "streamproc.releases.replace_one",
        "ReplaceOneCosts.__init__",
        "Adjacency.REPLACE_ONE",
        "Adjacency.ZERO_OUT",
        ("releases/test_replace_one.py",),
    ),
    Fault(
        "the registry recognises only exactly the same people",
        "streamproc.protocol.registry_format",
        "People.shares_anybody",
        "self.digest == other.digest or bool(np.isin(self.sketch, other.sketch, assume_unique=True).any())",
        "self.digest == other.digest",
        ("protocol/test_registry_format.py",),
    ),
    Fault(
        "the costs of different adjacencies are added up as they are",
        "streamproc.protocol.registry_format",
        "compose",
        "replace_one if adjacency is Adjacency.REPLACE_ONE else total_spent([entry.rho for entry in entries])",
        "total_spent([entry.rho for entry in entries])",
        ("protocol/test_registry_format.py",),
    ),
    Fault(
        "any stream of the same study is taken for its restart",
        "streamproc.protocol.registry_format",
        "Entry._identity",
        "self.stream",
        "None",
        ("protocol/test_registry_format.py",),
    ),
    Fault(
        "a stream that starts with another roster is taken for a restart",
        "streamproc.protocol.registry_format",
        "Entry._identity",
        "(self.stream, self.fingerprint, digest, self.insecure)",
        "(self.stream, self.fingerprint, None, self.insecure)",
        ("protocol/test_registry_format.py",),
    ),
    Fault(
        "a file without a line end is taken for an empty registry",
        "streamproc.protocol.registry_format",
        "parse_registry",
        "_begins_header(content)",
        "True",
        ("protocol/test_registry_format.py",),
    ),
    Fault(
        "a replay is registered without checking for people who are in the registry already",
        "streamproc.storage.site_registry",
        "SiteRegistry.register",
        "earlier and not again",
        "earlier and not again and restarted",
        ("cli/test_registry.py",),
    ),
    Fault(
        "verification does not count lost draws",
        "streamproc.protocol.release_audit",
        "ReleaseAudit.check_spending",
        "(record.period,) * len(record.abandoned)",
        "()",
        ("protocol/test_release_audit.py",),
    ),
    Fault(
        "verification accepts any count as a clamped one",
        "streamproc.protocol.release_audit",
        "ReleaseAudit.add_column",
        "impossible or different > clamped",
        "different > clamped",
        ("protocol/test_release_audit.py",),
    ),
)

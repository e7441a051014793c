"""The deliberate faults: each replaces one piece of text by another, and names the tests that must turn red."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One way to break the code."""

    name: str
    file: str
    """Below `streamproc/`."""
    right: str
    """Stands exactly once in the file."""
    wrong: str
    tests: tuple[str, ...]
    """Below `tests/`; at least one of them must fail."""


FAULTS = (
    Fault(
        "half the noise is calibrated",
        "privacy/window.py",
        "variance = unit.cost(Period(horizon)) / Fraction(rho)",
        "variance = unit.cost(Period(horizon)) / Fraction(rho) / 4",
        ("privacy/test_accountant.py",),
    ),
    Fault(
        "half the noise is drawn at later steps",
        "synth/window.py",
        "draw.gaussian(contrasts(by_overlap).ravel(), mechanism.sigma_later)",
        "draw.gaussian(contrasts(by_overlap).ravel(), mechanism.sigma_later / 2)",
        ("releases/test_window.py",),
    ),
    Fault(
        "half the noise is drawn by the counters",
        "synth/cumulative.py",
        "draw.gaussian(exact, mechanism.sigmas[b - 1])",
        "draw.gaussian(exact, mechanism.sigmas[b - 1] / 2)",
        ("releases/test_cumulative.py",),
    ),
    Fault(
        "replace-one is treated as zero-out in windows",
        "privacy/window.py",
        "zero_out = self.adjacency is Adjacency.ZERO_OUT\n",
        "zero_out = True\n",
        ("privacy/test_window_cost.py",),
    ),
    Fault(
        "replace-one is treated as zero-out in counters",
        "privacy/cumulative.py",
        "    if adjacency is Adjacency.ZERO_OUT:\n        distances",
        "    adjacency = Adjacency.ZERO_OUT\n    if adjacency is Adjacency.ZERO_OUT:\n        distances",
        ("privacy/test_cumulative_cost.py",),
    ),
    Fault(
        "shared overlaps are counted one too few",
        "privacy/window.py",
        "same_overlap = -(-later // self.k)",
        "same_overlap = later // self.k",
        ("privacy/test_window_cost.py",),
    ),
    Fault(
        "one tree level short",
        "privacy/cumulative.py",
        "        for row in counts.matrix[counts.rows_at(length), :length]:\n",
        "        for row in counts.matrix[counts.rows_at(length), :length][: (length & (length - 1)) or length == 1]:\n",
        ("privacy/test_cumulative_cost.py",),
    ),
    Fault(
        "the odometer counts one period late",
        "privacy/odometer.py",
        "return Rho(float_up(self.mechanism.cost(self.period, self.redrawn)))",
        "return Rho(float_up(self.mechanism.cost(Period(max(self.period - 1, 0)), self.redrawn)))",
        ("privacy/test_accountant.py",),
    ),
    Fault(
        "costs are rounded down",
        "privacy/exact.py",
        "return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)",
        "return nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)",
        ("privacy/test_directed_rounding.py", "privacy/test_accountant.py"),
    ),
    Fault(
        "noise is a rounded float",
        "ports/entropy.py",
        "return self._process.gaussian(exact, sigma)",
        "return exact + np.rint(self.rng().normal(0, sigma, exact.shape)).astype(np.int64)",
        ("privacy/test_noise.py",),
    ),
    Fault(
        "a contract may claim noise of another source",
        "synth/synthesis.py",
        "        self._check_source(entropy)\n",
        "",
        ("releases/test_synthesis.py",),
    ),
    Fault(
        "noise is drawn in the process that asks for it",
        "ports/entropy.py",
        "return self._process.gaussian(exact, sigma)",
        "return np.array(gaussian_measurement(sigma)(exact.tolist()), dtype=np.int64)",
        ("privacy/test_noise.py",),
    ),
    Fault(
        "rows follow the totals of the real data",
        "synth/window.py",
        "totals = state.counts.reshape(q, overlaps).sum(axis=0)",
        "totals = tally.reshape(overlaps, q).sum(axis=1) + contract.n_pad * q",
        ("releases/test_window.py",),
    ),
    Fault(
        "the rows that are moved are not chosen at random",
        "synth/rows.py",
        "        rng.shuffle(rows)\n",
        "",
        ("releases/test_row_assignment.py",),
    ),
    Fault(
        "rounding always starts at zero",
        "synth/rounding.py",
        "shift = rng.integers(0, denominator, size=(len(numerators), 1))",
        "shift = np.zeros((len(numerators), 1), dtype=np.int64)",
        ("releases/test_rounding.py",),
    ),
    Fault(
        "negative counts are cut off without keeping the total",
        "synth/clamping.py",
        "clamped[row] = _clamp(counts[row], int(totals[row]), rng)",
        "clamped[row] = np.maximum(counts[row], 0)",
        ("releases/test_clamping.py",),
    ),
    Fault(
        "running counts are clamped in the wrong direction",
        "synth/cumulative.py",
        "np.clip(wanted, state.sums[1 : period + 1], state.sums[:period])",
        "np.clip(wanted, 0, state.sums[1 : period + 1])",
        ("releases/test_cumulative.py",),
    ),
    Fault(
        "padding is half of what it should be",
        "synth/padding.py",
        "return int(((noise + rounding) * tail)",
        "return int(((noise + rounding) * tail / 2)",
        ("releases/test_padding.py",),
    ),
    Fault(
        "answers keep the padding",
        "panel/panel.py",
        "value = float(weights @ counts) - contract.n_pad * float(weights.sum())",
        "value = float(weights @ counts)",
        ("panel/test_panel.py",),
    ),
    Fault(
        "standard errors forget that the total is known",
        "panel/accuracy.py",
        'if mechanism.measure == "contrast":\n        spread -=',
        'if mechanism.measure == "none":\n        spread -=',
        ("panel/test_accuracy.py", "panel/test_panel.py"),
    ),
    Fault(
        "intervals of clamped counts are centred on the clamped value",
        "panel/panel.py",
        "centre, half = float(self._unclamped(contract, at)[b - 1]), quantile(level) * sigma",
        "centre, half = value, quantile(level) * sigma",
        ("panel/test_panel.py",),
    ),
    Fault(
        "shares of the budget are rounded up",
        "privacy/odometer.py",
        "return [Rho(float_down(Fraction(rho) * share)) for share in shares]",
        "return [Rho(float_up(Fraction(rho) * share)) for share in shares]",
        ("privacy/test_accountant.py",),
    ),
    Fault(
        "the replace-one figure of a zero-out study is its zero-out figure",
        "synth/replace_one.py",
        "replace(m, adjacency=Adjacency.REPLACE_ONE)",
        "replace(m, adjacency=Adjacency.ZERO_OUT)",
        ("releases/test_replace_one.py",),
    ),
    Fault(
        "the registry recognises only exactly the same people",
        "wire/site_registry.py",
        "return self.digest == other.digest or",
        "return self.digest == other.digest and",
        ("protocol/test_registry_format.py",),
    ),
    Fault(
        "the costs of different adjacencies are added up as they are",
        "wire/site_registry.py",
        "own = replace_one if adjacency is Adjacency.REPLACE_ONE else total_spent([entry.rho for entry in entries])",
        "own = total_spent([entry.rho for entry in entries])",
        ("protocol/test_registry_format.py",),
    ),
    Fault(
        "any stream of the same study is taken for its restart",
        "wire/site_registry.py",
        "return self.stream, self.fingerprint, digest, self.insecure",
        "return None, self.fingerprint, digest, self.insecure",
        ("protocol/test_registry_format.py",),
    ),
    Fault(
        "a stream that starts with another roster is taken for a restart",
        "wire/site_registry.py",
        "return self.stream, self.fingerprint, digest, self.insecure",
        "return self.stream, self.fingerprint, None, self.insecure",
        ("protocol/test_registry_format.py",),
    ),
    Fault(
        "a file without a line end is taken for an empty registry",
        "wire/site_registry.py",
        "if _begins_header(content):",
        "if True:",
        ("protocol/test_registry_format.py",),
    ),
    Fault(
        "a replay is registered without a look at who is there",
        "ports/site_registry.py",
        "if earlier and not again:",
        "if earlier and not again and restarted:",
        ("cli/test_registry.py",),
    ),
    Fault(
        "verification does not count lost draws",
        "wire/audit.py",
        "again = (record.period,) * len(record.abandoned)",
        "again = ()",
        ("protocol/test_release_audit.py",),
    ),
    Fault(
        "verification lets any count pass for a clamped one",
        "wire/audit.py",
        "if impossible or different > clamped:",
        "if different > clamped:",
        ("protocol/test_release_audit.py",),
    ),
)

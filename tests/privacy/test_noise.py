"""Noise is discrete Gaussian, fresh when it protects people, repeatable when asked for, and never silently cut off.

Statistical tests on real entropy fail a correct program once in a million runs each; those on seeded entropy never do,
because their seeds are fixed.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from streamproc.privacy.noise import Entropy
from streamproc.privacy.types import Period
from streamproc.storage import entropy as port
from streamproc.storage.entropy import MAX_MAGNITUDE, SeededEntropy, SystemEntropy, discrete_gaussian
from streamproc.testing import SilentEntropy
from tests.privacy.opendp_cost import gaussian_cost

FALSE_ALARM = 1e-6
Ints = npt.NDArray[np.int64]


def exact_pmf(sigma: float) -> tuple[Ints, npt.NDArray[np.float64]]:
    """All integers that ever come, and their chances, proportional to `exp(-x^2 / (2 sigma^2))`."""
    reach = math.ceil(12 * sigma) + 5
    values = np.arange(-reach, reach + 1)
    weights = np.exp(-(values**2) / (2 * sigma**2))
    return values, weights / weights.sum()


def p_value(drawn: Ints, sigma: float) -> float:
    """Chi-square against the exact chances, neighbouring integers put together until 20 draws are expected in each cell."""
    values, chances = exact_pmf(sigma)
    assert np.abs(drawn).max() <= values[-1]
    cells, number, filled = np.empty(len(values), dtype=int), 0, 0.0
    for place, chance in enumerate(chances):
        if filled * len(drawn) >= 20 and chances[place:].sum() * len(drawn) >= 20:
            number, filled = number + 1, 0.0
        cells[place], filled = number, filled + chance
    expected = np.bincount(cells, chances) * len(drawn)
    if len(expected) == 1:  # so little noise that hardly any is expected: how likely is any at all?
        return float((1 - chances.max()) * len(drawn)) if drawn.any() else 1.0
    assert expected.min() >= 20
    observed = np.bincount(cells[drawn - values[0]], minlength=len(expected))
    return float(stats.chisquare(observed, expected).pvalue)


def zeros(count: int) -> Ints:
    return np.zeros(count, dtype=np.int64)


SOURCES: list[Entropy] = [SystemEntropy(), SeededEntropy(20)]


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("sigma", [0.4, 1.3, 20.0])
def test_noise_has_the_distribution_of_the_discrete_gaussian(source: Entropy, sigma: float) -> None:
    drawn = source.draw("r", Period(1)).gaussian(zeros(10_000), sigma)
    assert drawn.dtype == np.int64
    assert p_value(drawn, sigma) > FALSE_ALARM


@pytest.mark.parametrize("sigma", [0.4, 1.3, 20.0])
def test_half_or_a_tenth_more_noise_would_be_caught(sigma: float) -> None:
    rng = np.random.default_rng(4)
    for wrong in (sigma / 2, sigma * 1.1):
        assert p_value(discrete_gaussian(wrong, 10_000, rng), sigma) < FALSE_ALARM


def test_a_normal_rounded_to_integers_would_be_caught() -> None:
    rng = np.random.default_rng(4)
    assert p_value(np.rint(rng.normal(0, 0.4, 10_000)).astype(np.int64), 0.4) < FALSE_ALARM


@pytest.mark.parametrize("sigma", [0.05, 0.99, 1.0, 7.0, 1000.7, 3e6])
def test_seeded_noise_is_right_at_every_scale(sigma: float) -> None:
    drawn = discrete_gaussian(sigma, 50_000, np.random.default_rng(8))
    assert len(drawn) == 50_000
    if sigma < 1e4:
        assert p_value(drawn, sigma) > FALSE_ALARM
    else:
        assert stats.kstest(drawn / sigma, "norm").pvalue > FALSE_ALARM


@pytest.mark.parametrize("source", SOURCES)
def test_the_noise_of_neighbouring_entries_is_independent(source: Entropy) -> None:
    sigma, pairs = 0.8, 8_000
    drawn = np.clip(source.draw("r", Period(2)).gaussian(zeros(2 * pairs), sigma), -2, 2).reshape(pairs, 2) + 2
    values, chances = exact_pmf(sigma)
    clipped = np.bincount(np.clip(values, -2, 2) + 2, chances)
    observed = np.bincount(5 * drawn[:, 0] + drawn[:, 1], minlength=25)
    assert stats.chisquare(observed, np.outer(clipped, clipped).ravel() * pairs).pvalue > FALSE_ALARM


@pytest.mark.parametrize("source", SOURCES)
def test_noise_is_added_to_the_exact_numbers_entry_by_entry(source: Entropy) -> None:
    exact = np.array([0, 10**6, -(10**9), 2**60])
    noisy = source.draw("r", Period(1)).gaussian(exact, 2.0)
    assert noisy.shape == exact.shape
    assert (np.abs(noisy - exact) < 40).all()  # 20 sigma
    assert exact.tolist() == [0, 10**6, -(10**9), 2**60]
    assert len(source.draw("r", Period(1)).gaussian(zeros(0), 2.0)) == 0


def test_real_noise_is_never_the_same_twice() -> None:
    source = SystemEntropy()
    one, same_step = source.draw("r", Period(1)), source.draw("r", Period(1))
    drawn = [draw.gaussian(zeros(50), 100.0).tolist() for draw in (one, one, same_step)]
    assert drawn[0] != drawn[1] != drawn[2] != drawn[0]
    chosen = [draw.rng().integers(0, 2**62, 4).tolist() for draw in (one, one, same_step)]
    assert chosen[0] != chosen[1] != chosen[2] != chosen[0]


def test_a_seed_repeats_the_noise_and_the_choices_of_a_step() -> None:
    for source in (SeededEntropy, SilentEntropy):
        first, again = source(5).draw("r", Period(3)), source(5).draw("r", Period(3))
        assert first.gaussian(zeros(50), 100.0).tolist() == again.gaussian(zeros(50), 100.0).tolist()
        assert first.rng().permutation(50).tolist() == again.rng().permutation(50).tolist()


@pytest.mark.parametrize(
    ("seed", "release", "period"), [(6, "r", 3), (5, "s", 3), (5, "r", 4), (5, "r\0003", 3), (53, "r", 3)]
)
def test_another_seed_release_or_period_has_other_noise_and_choices(seed: int, release: str, period: int) -> None:
    one, other = SeededEntropy(5).draw("r", Period(3)), SeededEntropy(seed).draw(release, Period(period))
    assert one.gaussian(zeros(50), 100.0).tolist() != other.gaussian(zeros(50), 100.0).tolist()
    assert one.rng().permutation(50).tolist() != other.rng().permutation(50).tolist()


def test_choices_do_not_depend_on_how_much_noise_was_drawn() -> None:
    quiet, noisy = SeededEntropy(5).draw("r", Period(3)), SeededEntropy(5).draw("r", Period(3))
    noisy.gaussian(zeros(1000), 9.0)
    assert quiet.rng().permutation(50).tolist() == noisy.rng().permutation(50).tolist()


def test_a_step_goes_on_drawing_where_it_stopped() -> None:
    draw = SeededEntropy(5).draw("r", Period(3))
    assert draw.gaussian(zeros(50), 100.0).tolist() != draw.gaussian(zeros(50), 100.0).tolist()
    assert draw.rng().permutation(50).tolist() != draw.rng().permutation(50).tolist()


def test_silence_adds_nothing_and_hands_out_a_copy() -> None:
    exact = np.array([3, 0, -8])
    heard = SilentEntropy(1).draw("r", Period(1)).gaussian(exact, 1e6)
    assert heard.tolist() == [3, 0, -8]
    heard[0] = 99
    assert exact[0] == 3


def test_only_what_can_be_foreseen_is_marked_insecure() -> None:
    assert SystemEntropy().insecure is False
    assert SeededEntropy(1).insecure is True
    assert SilentEntropy(1).insecure is True


TOO_LARGE = [(MAX_MAGNITUDE, 1.0), (-MAX_MAGNITUDE, 1.0), (-(2**63), 1.0), (2**63 - 1, 1.0), (0, MAX_MAGNITUDE / 64)]


@pytest.mark.parametrize(("count", "sigma"), [*TOO_LARGE, (0, math.inf)])
def test_numbers_that_could_saturate_are_refused_before_anything_is_drawn(
    count: int, sigma: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def drawn(*_: object) -> None:
        pytest.fail("noise was drawn")

    monkeypatch.setattr(port, "NoiseProcess", drawn)
    monkeypatch.setattr(port, "discrete_gaussian", drawn)
    for source in SOURCES:
        with pytest.raises(ValueError, match="too large for exact 64-bit integers"):
            source.draw("r", Period(1)).gaussian(np.array([0, count, 0]), sigma)


def test_the_largest_numbers_allowed_are_not_cut_off() -> None:
    exact = np.array([MAX_MAGNITUDE - 2**40, -(MAX_MAGNITUDE - 2**40)])
    for source in SOURCES:
        noisy = source.draw("r", Period(1)).gaussian(exact, 2.0**30)
        assert (np.abs(noisy - exact) < 2**35).all()


@pytest.mark.parametrize("sigma", [0.0, -1.0])
def test_no_noise_is_refused_where_it_protects_people(sigma: float) -> None:
    with pytest.raises(ValueError, match="exact data"):
        SystemEntropy().draw("r", Period(1)).gaussian(zeros(2), sigma)


def test_opendp_charges_half_the_squared_sensitivity_over_the_variance() -> None:
    assert 3.0**2 / (2 * 7.0**2) <= gaussian_cost(7.0, 3.0) <= 3.0**2 / (2 * 7.0**2) * (1 + 1e-12)


def loaded_after(code: str, module: str = "opendp") -> bool:
    """Whether a fresh interpreter holds `module` after running `code`."""
    probe = f"{code}\nimport json, sys\nprint(json.dumps({module!r} in sys.modules))"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    return bool(json.loads(done.stdout.splitlines()[-1]))


def test_no_command_can_reach_the_source_without_noise() -> None:
    assert not hasattr(port, "SilentEntropy")
    names = {path.stem for path in Path(port.__file__).parent.parent.joinpath("cli").glob("*.py")} - {"__init__"}
    imported = "\n".join(f"import streamproc.cli.{name}" for name in sorted(names))
    assert not loaded_after(imported, "streamproc.testing")
    assert loaded_after("import streamproc.testing", "streamproc.testing")


def test_opendp_is_loaded_in_the_processes_that_draw_and_nowhere_else() -> None:
    assert not loaded_after("import streamproc.cli.main")
    assert not loaded_after(
        "import numpy as np\nfrom streamproc.storage.entropy import SystemEntropy\n"
        "SystemEntropy().draw('r', 1).gaussian(np.zeros(3, dtype=np.int64), 2.0)"
    )
    assert loaded_after("from streamproc.storage import noise_server\nnoise_server.prepare()")

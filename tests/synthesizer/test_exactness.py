"""From reports to columns through every role: silent noise gives the exact data, a seed the bytes of a replay."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

from streamproc.offline.people import MISSING, People
from streamproc.offline.replay import ReplayResult, replay_study, tallies_of
from streamproc.privacy.noise import Entropy
from streamproc.privacy.types import Period
from streamproc.protocol.reports import encode_report, home_partition
from streamproc.releases.contracts import stated_contracts
from streamproc.storage.entropy import SeededEntropy
from streamproc.study import CumulativeRelease, PatternRelease, SpellRelease, Study, WindowRelease
from streamproc.study.releases import EventRelease
from streamproc.testing import SilentEntropy, in_virtual_time
from tests.stream_model.reference_model import Model
from tests.stream_model.simulated_study import SimulatedStudy
from tests.studies import build_study

BINARY = build_study(
    WindowRelease("w", 2),
    WindowRelease("paper", 3, measure="paper"),
    CumulativeRelease("c", ("1",), weights="rule"),
    CumulativeRelease("few", ("1",), most=2, weights="rule"),
    CumulativeRelease("t", ("1",), measure="paper"),
    SpellRelease("s", ("1",), length=3, weights="rule"),
    PatternRelease("p", pattern="10", weights="rule"),
    horizon=4,
    rho=5.0,
)
FOUR_LEVELS = build_study(
    WindowRelease("w", 2),
    CumulativeRelease("c", ("C", "D"), weights="rule"),
    SpellRelease("s", ("C", "D"), length=2, weights="rule"),
    PatternRelease("p", pattern="A.B", weights="rule"),
    alphabet=("A", "B", "C", "D"),
    horizon=4,
    partitions=3,
    rho=5.0,
)
STUDIES = pytest.mark.parametrize("study", [BINARY, FOUR_LEVELS], ids=["binary", "four levels"])


def panel(study: Study, seed: int) -> People:
    """Forty people; some reports missing, none in period 1, because without a roster that is who takes part."""
    rng = np.random.default_rng(seed)
    symbols = rng.integers(0, study.q, size=(40, study.last_period)).astype(np.int8)
    missing = rng.random(symbols.shape) < 0.2
    missing[:, 0] = False
    symbols[missing] = MISSING
    return People(tuple(f"person-{number}" for number in range(40)), symbols)


async def stream(study: Study, histories: People, entropy: Entropy, *, untidy: bool = False) -> SimulatedStudy:
    """Send period after period, each closed when it was sent; untidily: with all that clients do wrong in between."""
    simulated = await SimulatedStudy(study).begin()
    rng = np.random.default_rng(5)
    assert histories.ids is not None
    for period in range(1, study.last_period + 1):
        values: list[tuple[str, bytes]] = []
        for individual, row in zip(histories.ids, histories.symbols.tolist(), strict=True):
            if row[period - 1] != MISSING:
                values.append((individual, encode_report(individual, period, study.alphabet[row[period - 1]])))
            if untidy:
                values += wrong(study, individual, period, row[period - 1], rng)
        for individual, value in values:
            home = home_partition(individual, study.broker.partitions)
            await simulated.log.append(simulated.topics.reports, home, value, individual.encode())
        await simulated.close_period(period)
    await simulated.run_everything(entropy)
    return simulated


def wrong(study: Study, individual: str, period: int, said: int, rng: np.random.Generator) -> Sequence[tuple[str, bytes]]:
    """What must change nothing: after the report, so that the first counts, or where none was missing."""
    noise = [
        (individual, b"\xc1 no report"),
        (individual, encode_report(individual, period, "?")),
        (individual, encode_report(individual, study.last_period + 1, study.alphabet[0])),
        (individual, encode_report(individual, period - 1, study.alphabet[-1])),
    ]
    if said != MISSING:
        noise.append((individual, encode_report(individual, period, study.alphabet[-1])))
    if period > 1:
        noise.append((f"late-{individual}", encode_report(f"late-{individual}", period, study.alphabet[0])))
    return [noise[place] for place in rng.integers(0, len(noise), size=2)]


def replayed(study: Study, histories: People, entropy: Entropy) -> ReplayResult:
    promised = stated_contracts(study, histories.size, insecure=True)
    return replay_study(study, promised, tallies_of(study, histories.filled(study)), entropy)


@STUDIES
@pytest.mark.parametrize("untidy", [False, True], ids=["tidy", "untidy"])
def test_a_stream_and_a_replay_of_the_same_panel_with_the_same_seed_give_the_same_bytes(study: Study, untidy: bool) -> None:
    histories = panel(study, seed=1)
    simulated = in_virtual_time(stream(study, histories, SeededEntropy(3), untidy=untidy))
    again = replayed(study, histories, SeededEntropy(3))

    for name, its_panel in again.panels.items():
        columns = [column.symbols.tobytes() for column in simulated.columns(name)]
        assert columns == [column.tobytes() for column in its_panel.columns]
        for period, steps in enumerate(again.steps, start=1):
            measured = simulated.ledger().measurements[name, Period(period)].tolist()
            assert measured == [number for array in steps[name].measurements for number in array.tolist()]
        assert [record.releases[name].rho_spent for record in simulated.ledger().periods] == list(again.spent[name])
    simulated.check_released()


@STUDIES
def test_without_noise_the_columns_are_the_exact_data(study: Study) -> None:
    histories = panel(study, seed=2)
    simulated = in_virtual_time(stream(study, histories, SilentEntropy(3), untidy=True))
    filled = histories.filled(study)

    for release in study.releases:
        contract = simulated.contract(release.name).contract
        columns = np.stack([column.symbols for column in simulated.columns(release.name)], axis=1)
        if isinstance(release, WindowRelease):
            for period in range(release.first_column, study.last_period + 1):
                length = min(period, release.k)
                for window in product(range(study.q), repeat=length):
                    people = (filled[:, period - length : period] == window).all(axis=1).sum()
                    rows = (columns[:, period - length : period] == window).all(axis=1).sum()
                    assert rows - contract.padding(Period(period)) == people
        elif isinstance(release, PatternRelease):
            for period in range(1, study.last_period + 1):
                assert matches(study, release, columns[:, :period]) == matches(study, release, filled[:, :period])
        else:
            assert isinstance(release, EventRelease)
            ones = release.event_mask(study.alphabet)[filled]
            for period in range(1, study.last_period + 1):
                assert states(study, release, columns[:, :period]) == states(study, release, ones[:, :period])


def states(study: Study, release: EventRelease, ones: Any) -> Counter[int]:
    """How many rows have each number of ones, or a current run of each length, as far as the release tells them apart."""
    if isinstance(release, SpellRelease):
        return Counter(min([*row[::-1], 0].index(0), release.length) for row in ones.astype(int).tolist())
    assert isinstance(release, CumulativeRelease)
    most = study.last_period if release.measure == "paper" else release.counted_up_to(study.last_period)
    return Counter(np.minimum(ones.sum(axis=1), most).tolist())


def matches(study: Study, release: PatternRelease, symbols: Any) -> int:
    """How many rows have matched; all symbols are single letters or digits."""
    histories = ["".join(study.alphabet[symbol] for symbol in row) for row in symbols.tolist()]
    return sum(re.search(release.pattern, history) is not None for history in histories)


@STUDIES
def test_the_tallies_of_a_stream_are_those_of_the_model(study: Study) -> None:
    simulated = in_virtual_time(stream(study, panel(study, seed=3), SeededEntropy(3), untidy=True))

    for partition in range(study.broker.partitions):
        stored = simulated.broker.partition(simulated.topics.reports, partition).stored
        ends = [cut.ends[partition] for cut in simulated.cuts()]
        model = Model(study, partition, None, [(record.offset, record.value) for record in stored], ends)
        for period, closed in enumerate(model.tallies(), start=1):
            tally = simulated.tallies()[partition, period]
            assert tally.people == closed.people
            assert {name: counts.tolist() for name, counts in tally.counts.items()} == closed.counts
        rejected = sum(reject.count for reject in simulated.rejects() if reject.partition == partition)
        assert rejected == model.rejected().total()

"""From reports to columns through every role: silent noise gives the exact data, a seed the bytes of a replay."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from streamproc.offline.people import MISSING, People
from streamproc.offline.replay import ReplayResult, replay_study, tallies_of
from streamproc.privacy.noise import Entropy
from streamproc.privacy.types import Period
from streamproc.protocol.columns import ContractRecord, decode_synthetic
from streamproc.protocol.reports import encode_report, home_partition
from streamproc.releases.contracts import stated_contracts
from streamproc.releases.window import WindowContract
from streamproc.storage.entropy import SeededEntropy
from streamproc.study import CumulativeRelease, Study, WindowRelease
from streamproc.testing import SilentEntropy, in_virtual_time
from tests.stream_model.reference_model import Model
from tests.stream_model.simulated_study import SimulatedStudy
from tests.studies import build_study

BINARY = build_study(
    WindowRelease("w", 2),
    WindowRelease("paper", 3, measure="histogram"),
    CumulativeRelease("c", ("1",)),
    CumulativeRelease("t", ("1",), counter="tree", allocation="cubic"),
    horizon=4,
    rho=5.0,
)
FOUR_LEVELS = build_study(
    WindowRelease("w", 2),
    CumulativeRelease("c", ("C", "D"), counter="honaker"),
    alphabet=("A", "B", "C", "D"),
    horizon=4,
    partitions=3,
    rho=5.0,
)
STUDIES = pytest.mark.parametrize("study", [BINARY, FOUR_LEVELS], ids=["binary", "four levels"])


def panel(study: Study, seed: int) -> People:
    """Forty people; some reports missing, none in period 1, because without a roster that is who takes part."""
    rng = np.random.default_rng(seed)
    symbols = rng.integers(0, study.q, size=(40, study.horizon)).astype(np.int8)
    missing = rng.random(symbols.shape) < 0.2
    missing[:, 0] = False
    symbols[missing] = MISSING
    return People(tuple(f"person-{number}" for number in range(40)), symbols)


async def stream(study: Study, histories: People, entropy: Entropy, *, untidy: bool = False) -> SimulatedStudy:
    """Send period after period, each closed when it was sent; untidily: with all that clients do wrong in between."""
    simulated = await SimulatedStudy(study).begin()
    rng = np.random.default_rng(5)
    assert histories.ids is not None
    for period in range(1, study.horizon + 1):
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
        (individual, encode_report(individual, study.horizon + 1, study.alphabet[0])),
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
        record = decode_synthetic(simulated.committed(simulated.topics.synthetic(release.name))[0])
        assert isinstance(record, ContractRecord)
        columns = np.stack([column.symbols for column in simulated.columns(release.name)], axis=1)
        if isinstance(release, WindowRelease):
            assert isinstance(record.contract, WindowContract)
            for period in range(release.k, study.horizon + 1):
                for window in product(range(study.q), repeat=release.k):
                    people = (filled[:, period - release.k : period] == window).all(axis=1).sum()
                    rows = (columns[:, period - release.k : period] == window).all(axis=1).sum()
                    assert rows - record.contract.n_pad == people
        else:
            assert isinstance(release, CumulativeRelease)
            ones = release.event_mask(study.alphabet)[filled]
            for period in range(1, study.horizon + 1):
                wanted = np.bincount(ones[:, :period].sum(axis=1), minlength=study.horizon + 1)
                got = np.bincount(columns[:, :period].sum(axis=1), minlength=study.horizon + 1)
                assert got.tolist() == wanted.tolist()


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

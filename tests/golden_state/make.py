"""`python -m tests.golden_state.make`: the golden state of a new version of the state files; never of one that has it."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

from streamproc.protocol.state_file import STATE_VERSION, unpack_arrays, unseal
from tests.golden_state.recorded_study import HERE, SEED, STUDIES, Records, public_topics, records, save
from tests.stream.deployed_study import DeployedStudy, individual
from tests.stream.programs import Program, Programs
from tests.stream.report_traffic import ReportTraffic, send_raw
from tests.studies import StudyParameters

DRAWN = 2
"""Periods released when the state is kept."""


def main() -> None:
    golden = HERE / f"v{STATE_VERSION}"
    if golden.exists():
        sys.exit(f"{golden} exists: state files of version {STATE_VERSION} never change; give a new layout a new version")
    for parameters in STUDIES:
        with tempfile.TemporaryDirectory() as folder, Programs(Path(folder)) as programs:
            make(parameters, Path(folder), golden / parameters.name, programs)


def make(parameters: StudyParameters, work: Path, golden: Path, programs: Programs) -> None:
    deployed = DeployedStudy(work, "embedded:log", parameters, programs)
    deployed.write_study()
    people = [individual(row) for row in range(parameters.people)]
    if parameters.roster is not None:
        (work / parameters.roster).write_text("".join(f"{each}\n" for each in people))
    mail = ReportTraffic(people, parameters.alphabet, parameters.horizon, parameters.partitions, seed=SEED)
    deployed.do("init")
    roles = deployed.start("run", "--seed", SEED)
    for period in range(1, DRAWN + 1):
        send_raw(deployed, mail.of(period))
        deployed.do("close", "--period", period, "--wait")
    wait_for_checkpoints(deployed, roles)
    assert roles.stop().code == 0
    golden.mkdir(parents=True)
    shutil.copytree(deployed.state, golden / "state", ignore=shutil.ignore_patterns("*.lock"))
    then = records(deployed, sorted(deployed.all_topics()))

    for period in range(DRAWN + 1, parameters.horizon + 1):
        send_raw(deployed, mail.of(period))
        deployed.do("close", "--period", period)
    to_come = records(deployed, [deployed.topics.reports, deployed.topics.control])
    deployed.start("run", "--until-done", "--seed", SEED).done()
    at_the_end: Records = records(deployed, public_topics(deployed))
    save(golden, deployed, {**then, **to_come}, at_the_end)


def wait_for_checkpoints(deployed: DeployedStudy, roles: Program) -> None:
    """The tally of a period leaves before the checkpoint is written."""
    while not all(checkpoint_period(deployed, partition) == DRAWN for partition in range(deployed.parameters.partitions)):
        assert roles.runs
        time.sleep(0.1)


def checkpoint_period(deployed: DeployedStudy, partition: int) -> int:
    path = deployed.state / f"gather-{partition}.state"
    if not path.exists():
        return 0
    content = path.read_bytes()
    return int(unpack_arrays(unseal(content, content[6:38]))["arrays"]["period"][0])


if __name__ == "__main__":
    main()

"""A recorded study in `v<version>/<study>/`: its file, its state folder and its topics, at the recording and at the end.

`state/` is the folder after two of four periods; `topics.json` the records at that time, together with all reports and cuts
that were still to come; `released.json` the public records after the last period.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from streamproc.files.study_files import read_study
from streamproc.log.topic_setup import wanted_settings
from tests.stream.deployed_study import DeployedStudy
from tests.stream.programs import Programs
from tests.studies import StudyParameters, cumulative_table, pattern_table, spell_table, study_toml, window_table

HERE = Path(__file__).parent
SEED = 7


@dataclass(frozen=True)
class RecordedParameters(StudyParameters):
    """The parameters of a study with a release of each kind and measure."""

    def text(self, url: str) -> str:
        event, twice = list(self.event), f"{self.event[0]}{{2}}"
        return study_toml(
            window_table("recent", self.k),
            window_table("recent-paper", self.k, measure="paper"),
            cumulative_table("counts", event=event),
            cumulative_table("counts-paper", event=event, measure="paper"),
            spell_table("spells", 2, event=event),
            pattern_table("matches", twice),
            name=self.name,
            alphabet=self.alphabet,
            horizon=self.horizon,
            population={"size": self.people, "duplicates": self.duplicates, "roster": self.roster},
            rho=self.rho,
            broker={"url": url, "partitions": self.partitions},
        )


STUDIES = (
    RecordedParameters("first", alphabet=("a", "b", "c"), event=("b", "c"), partitions=2, people=60),
    # The paper's window release has no column before period 3, so its state is recorded before its first step.
    RecordedParameters("last", k=3, partitions=2, people=60, duplicates="last", roster="people.txt"),
)

Records = Mapping[str, Sequence[Sequence[tuple[str | None, str | None]]]]
"""By topic and partition: key and value of each record, in hex."""


def versions() -> list[Path]:
    return sorted(HERE.glob("v[0-9]*"))


def public_topics(deployed: DeployedStudy) -> list[str]:
    return [deployed.topics.ledger, *(deployed.topics.synthetic(release.name) for release in deployed.study.releases)]


def records(deployed: DeployedStudy, topics: Sequence[str]) -> Records:
    """What is committed in these topics."""
    partitions = {topic: deployed.parameters.partitions if topic == deployed.topics.reports else 1 for topic in topics}
    return {
        topic: [[(_hex(each.key), _hex(each.value)) for each in deployed.records(topic, p)] for p in range(count)]
        for topic, count in partitions.items()
    }


def save(folder: Path, deployed: DeployedStudy, topics: Records, released: Records) -> None:
    """Write the files of a recorded study, except its state folder."""
    shutil.copy(deployed.file, folder / "study.toml")
    if deployed.parameters.roster is not None:
        shutil.copy(deployed.folder / deployed.parameters.roster, folder)
    for name, content in (("topics", topics), ("released", released)):
        (folder / f"{name}.json").write_text(json.dumps(content, indent=0) + "\n")


def set_up(folder: Path, into: Path, programs: Programs) -> DeployedStudy:
    """Recreate the study as it was recorded, on an embedded log."""
    parameters = next(parameters for parameters in STUDIES if parameters.name == folder.name)
    deployed = DeployedStudy(into, "embedded:log", parameters, programs)
    for file in folder.iterdir():
        if file.is_file():
            shutil.copy(file, into)
    deployed.state.mkdir(0o700)
    for file in (folder / "state").iterdir():
        shutil.copyfile(file, deployed.state / file.name)
    asyncio.run(_fill(deployed, json.loads((folder / "topics.json").read_text())))
    return deployed


def released(folder: Path) -> Records:
    found: Records = json.loads((folder / "released.json").read_text())
    return {topic: [[(key, value) for key, value in part] for part in parts] for topic, parts in found.items()}


async def _fill(deployed: DeployedStudy, topics: Records) -> None:
    async with deployed.connect() as log:
        for topic, settings in wanted_settings(read_study(deployed.file), 1).items():
            await log.create_topic(topic, settings)
            for partition, part in enumerate(topics[topic]):
                content = [(_bytes(key), _bytes(value) or b"") for key, value in part]
                await log.append_many(topic, partition, content)


def _hex(data: bytes | None) -> str | None:
    return None if data is None else data.hex()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)

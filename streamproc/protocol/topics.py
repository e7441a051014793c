"""The topics of a study: their names, and which roles write and read each of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """The roles that connect to the broker."""

    REPORTER = "reporter"
    GATHERER = "gatherer"
    SYNTHESIZER = "synthesizer"
    STEWARD = "steward"
    OPERATOR = "operator"
    ANALYST = "analyst"


THIRTY_DAYS_MS = 30 * 24 * 60 * 60 * 1000


@dataclass(frozen=True)
class Topics:
    """The names of a study's topics, transactional id and consumer group on a broker."""

    study: str

    @property
    def reports(self) -> str:
        """The reports. Its number of partitions is set in the study."""
        return f"{self.study}.reports"

    @property
    def control(self) -> str:
        """The key and the cuts. Secret, because offsets are counts."""
        return f"{self.study}.control"

    @property
    def tallies(self) -> str:
        """The tallies of the gatherers. Secret."""
        return f"{self.study}.tallies"

    @property
    def rejects(self) -> str:
        """The offsets of reports that were not counted."""
        return f"{self.study}.rejects"

    @property
    def ledger(self) -> str:
        """The chain of intents, measurements and periods. Public."""
        return f"{self.study}.ledger"

    def synthetic(self, release: str) -> str:
        """The contract and columns of one release. Public."""
        return f"{self.study}.synthetic.{release}"

    @property
    def transactional_id(self) -> str:
        """The transactional id of the synthesizer."""
        return f"{self.study}.synthesizer"

    @property
    def group(self) -> str:
        """The consumer group in which gatherers share the partitions of the reports topic."""
        return f"{self.study}.gather"

    def access(self, releases: Iterable[str], *, scheduled: bool = False) -> tuple[Access, ...]:
        """Every topic of a study with these releases, and the access that each role needs.

        `scheduled` is True if the synthesizer appends cuts by the clock, in addition to the steward.
        """
        cutters = frozenset({Role.STEWARD, Role.SYNTHESIZER} if scheduled else {Role.STEWARD})
        followers = frozenset({Role.STEWARD, Role.SYNTHESIZER, Role.GATHERER})
        public = frozenset({Role.STEWARD, Role.SYNTHESIZER, Role.ANALYST})
        return (
            Access(self.reports, writes=_of(Role.REPORTER), reads=_of(Role.GATHERER), measures=cutters, partitioned=True),
            Access(self.control, writes=cutters, reads=followers),
            Access(self.tallies, writes=_of(Role.GATHERER), reads=_of(Role.SYNTHESIZER)),
            # A gatherer reads the rejects of its partition before it writes, so that it writes each of them once.
            Access(
                self.rejects,
                writes=_of(Role.GATHERER),
                reads=frozenset({Role.GATHERER, Role.OPERATOR}),
                retention_ms=THIRTY_DAYS_MS,
            ),
            Access(self.ledger, writes=_of(Role.SYNTHESIZER), reads=public | {Role.GATHERER}, public=True),
            *(
                Access(self.synthetic(release), writes=_of(Role.SYNTHESIZER), reads=public, public=True)
                for release in releases
            ),
        )


@dataclass(frozen=True)
class Access:
    """The access that each role needs to one topic."""

    topic: str
    writes: frozenset[Role]
    reads: frozenset[Role]
    """The roles that must read the topic. Others may read a public topic as well."""
    measures: frozenset[Role] = frozenset()
    """The roles that need the high watermarks of its partitions without reading them, to make a cut."""
    partitioned: bool = False
    """True if it has the study's number of partitions, False if it has one."""
    retention_ms: int = -1
    """Retention of records in milliseconds; -1 means forever."""
    public: bool = False
    """Whether it holds only what is released."""

    def used_by(self, role: Role) -> bool:
        """Whether a role needs any access to the topic."""
        return role in self.writes | self.reads | self.measures


def _of(role: Role) -> frozenset[Role]:
    return frozenset({role})

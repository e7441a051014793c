"""The topics of a study: their names, and who writes and reads each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """Who connects to the broker."""

    REPORTER = "reporter"
    GATHERER = "gatherer"
    SYNTHESIZER = "synthesizer"
    STEWARD = "steward"
    OPERATOR = "operator"
    ANALYST = "analyst"


THIRTY_DAYS_MS = 30 * 24 * 60 * 60 * 1000


@dataclass(frozen=True)
class Topics:
    """The names that a study's topics, transactions and group have on a broker."""

    study: str

    @property
    def reports(self) -> str:
        """What people send; as many partitions as the study says."""
        return f"{self.study}.reports"

    @property
    def control(self) -> str:
        """The key and the cuts. Secret: offsets are counts."""
        return f"{self.study}.control"

    @property
    def tallies(self) -> str:
        """What gatherers counted. Secret."""
        return f"{self.study}.tallies"

    @property
    def rejects(self) -> str:
        """Where reports lie that were not counted."""
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
        """Of the one synthesizer."""
        return f"{self.study}.synthesizer"

    @property
    def group(self) -> str:
        """In which gatherers share the partitions of the reports topic."""
        return f"{self.study}.gather"

    def access(self, releases: Iterable[str], *, scheduled: bool = False) -> tuple[Access, ...]:
        """Every topic of a study with these releases, and who must do what with it.

        `scheduled`: the synthesizer makes cuts by the clock, beside the steward.
        """
        cutters = frozenset({Role.STEWARD, Role.SYNTHESIZER} if scheduled else {Role.STEWARD})
        followers = frozenset({Role.STEWARD, Role.SYNTHESIZER, Role.GATHERER})
        public = frozenset({Role.STEWARD, Role.SYNTHESIZER, Role.ANALYST})
        return (
            Access(self.reports, writes=_of(Role.REPORTER), reads=_of(Role.GATHERER), measures=cutters, partitioned=True),
            Access(self.control, writes=cutters, reads=followers),
            Access(self.tallies, writes=_of(Role.GATHERER), reads=_of(Role.SYNTHESIZER)),
            # A gatherer reads the rejects of its partition before it writes, so that it writes none twice.
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
    """Who must do what with one topic."""

    topic: str
    writes: frozenset[Role]
    reads: frozenset[Role]
    """Of a public topic: those of the study's own processes and people; others may too."""
    measures: frozenset[Role] = frozenset()
    """Who asks where its partitions end without reading them: whoever makes a cut."""
    partitioned: bool = False
    """True if it has the study's number of partitions; the others have one."""
    retention_ms: int = -1
    """How long records are kept; -1 is for ever."""
    public: bool = False
    """Whether it holds nothing but what is released."""

    def used_by(self, role: Role) -> bool:
        """Whether a role has any business with it."""
        return role in self.writes | self.reads | self.measures


def _of(role: Role) -> frozenset[Role]:
    return frozenset({role})

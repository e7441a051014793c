"""Continual release of differentially private synthetic data from longitudinal data.

    import streamproc as sp

    study = sp.Study.load("poverty.toml")
    people = sp.read_people("people.csv", study)
    result = sp.replay(study, people)
    print(result["quarterly"].fraction(sp.count_of("1", at_least=2, of=3), period=6))

`help(sp.Study)`, `help(sp.replay)` and so on show an example each. Names are imported when they are first used: importing
the package itself costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamproc.api import Cumulative as Cumulative
    from streamproc.api import Panel as Panel
    from streamproc.api import Pattern as Pattern
    from streamproc.api import Result as Result
    from streamproc.api import Spell as Spell
    from streamproc.api import Stream as Stream
    from streamproc.api import Study as Study
    from streamproc.api import Window as Window
    from streamproc.api import connect as connect
    from streamproc.api import load as load
    from streamproc.api import plan as plan
    from streamproc.api import read_people as read_people
    from streamproc.api import replay as replay
    from streamproc.errors import BrokerUnavailable as BrokerUnavailable
    from streamproc.errors import BudgetExceeded as BudgetExceeded
    from streamproc.errors import InvalidInput as InvalidInput
    from streamproc.errors import PanelFileError as PanelFileError
    from streamproc.errors import Refused as Refused
    from streamproc.errors import StreamprocError as StreamprocError
    from streamproc.errors import StudyError as StudyError
    from streamproc.errors import UnsupportedQuery as UnsupportedQuery
    from streamproc.errors import VerificationFailed as VerificationFailed
    from streamproc.offline.people import People as People
    from streamproc.panel.panel import Answer as Answer
    from streamproc.planning.plan import StudyPlan as StudyPlan
    from streamproc.releases.kind import Contract as Contract
    from streamproc.releases.query import AtLeast as AtLeast
    from streamproc.releases.query import Entered as Entered
    from streamproc.releases.query import EventCount as EventCount
    from streamproc.releases.query import InSpell as InSpell
    from streamproc.releases.query import LastSymbols as LastSymbols
    from streamproc.releases.query import Left as Left
    from streamproc.releases.query import Matched as Matched
    from streamproc.releases.query import Present as Present
    from streamproc.releases.query import Query as Query
    from streamproc.releases.query import SinceEntry as SinceEntry
    from streamproc.releases.query import ask as ask
    from streamproc.releases.query import at_least as at_least
    from streamproc.releases.query import count_of as count_of
    from streamproc.releases.query import entered as entered
    from streamproc.releases.query import exactly as exactly
    from streamproc.releases.query import in_a_row as in_a_row
    from streamproc.releases.query import in_spell as in_spell
    from streamproc.releases.query import left as left
    from streamproc.releases.query import matched as matched
    from streamproc.releases.query import present as present
    from streamproc.releases.query import since_entry as since_entry
    from streamproc.study.releases import Release as Release
    from streamproc.study.schedule import Schedule as Schedule
    from streamproc.study.study import Broker as Broker
    from streamproc.study.study import Population as Population
    from streamproc.study.study import Privacy as Privacy
    from streamproc.study.study import Question as Question

    __version__: str

_HOMES = {
    "streamproc.api": [
        "Cumulative",
        "Panel",
        "Pattern",
        "Result",
        "Spell",
        "Stream",
        "Study",
        "Window",
        "connect",
        "load",
        "plan",
        "read_people",
        "replay",
    ],
    "streamproc.errors": [
        "BrokerUnavailable",
        "BudgetExceeded",
        "InvalidInput",
        "PanelFileError",
        "Refused",
        "StreamprocError",
        "StudyError",
        "UnsupportedQuery",
        "VerificationFailed",
    ],
    "streamproc.panel.panel": ["Answer"],
    "streamproc.releases.query": [
        "AtLeast",
        "Entered",
        "EventCount",
        "InSpell",
        "LastSymbols",
        "Left",
        "Matched",
        "Present",
        "Query",
        "SinceEntry",
        "ask",
        "at_least",
        "count_of",
        "entered",
        "exactly",
        "in_a_row",
        "in_spell",
        "left",
        "matched",
        "present",
        "since_entry",
    ],
    "streamproc.offline.people": ["People"],
    "streamproc.planning.plan": ["StudyPlan"],
    "streamproc.releases.kind": ["Contract"],
    "streamproc.study.releases": ["Release"],
    "streamproc.study.schedule": ["Schedule"],
    "streamproc.study.study": ["Broker", "Population", "Privacy", "Question"],
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted([*_HOME, "__version__"])  # noqa: PLE0605


if not TYPE_CHECKING:  # otherwise a type checker would accept any name

    def __getattr__(name: str) -> Any:
        """Import a public name from its module when it is first used."""
        if name == "__version__":
            from importlib.metadata import version

            value: Any = version("streamproc")
        elif name in _HOME:
            value = getattr(import_module(_HOME[name]), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

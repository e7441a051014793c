"""What `demo --open` prints: for each month who is present, entered and left, a share, and what a participation has cost."""

from __future__ import annotations

from dataclasses import dataclass

from rich.text import Text

from streamproc.cli.demo.open_population import ABSENT_AFTER, TENURE
from streamproc.cli.demo.progress import (
    ANSWER_WIDTH,
    GAP,
    WIDTH,
    AnswerVsTruth,
    ProgressScreen,
    no_answer,
    origin_of_noise,
    people_cell,
    share_cell,
)
from streamproc.cli.formatting import format_epsilon, format_people, format_rounded_up
from streamproc.privacy.types import Period, Rho
from streamproc.privacy.zcdp import epsilon_of_rho

_FLOW_WIDTH = 5
_COST_WIDTH = 8


@dataclass(frozen=True)
class OpenMonth:
    """A released month of an open study."""

    period: Period
    reports: int
    present: AnswerVsTruth
    """People present after the month."""
    entered: float
    """Estimated people who entered in the month."""
    left: float
    share: AnswerVsTruth | None
    """The share who overdrew their accounts; None while too few people can be asked."""
    spent: Rho
    """The largest cost so far of one person's participation."""


class OpenScreen(ProgressScreen[OpenMonth]):
    """Prints the demo of three years."""

    def introduce(self, people: int, *, seeded: bool) -> None:
        privacy = self._study.privacy
        cost = f"rho {format_rounded_up(privacy.budget)}, which is {self._epsilon_at_delta(privacy.budget)}"
        self._console.print("streamproc: people sign up and leave, and every month is published\n", style="bold")
        self._console.print(
            f"From the second year on about {format_people(people)} report every month whether they have overdrawn their "
            f"accounts. A person is present from the first report on, for at most {TENURE} months, and has left after "
            f"{ABSENT_AFTER} missing reports in a row. Synthetic people enter and leave like the real ones. "
            f"The study has no horizon. Whether somebody takes part at all, and when, is protected "
            f"({privacy.adjacency.value}): one person's whole participation costs at most {cost}, however long "
            "the study goes on.\n"
        )
        self._console.print(
            "These people are simulated, so the true values may be shown beside the published answers. "
            f"{origin_of_noise(seeded=seeded)}\n",
            style="dim",
        )

    def conclude(self) -> None:
        spent = self.months[-1].spent
        reports, columns = sum(month.reports for month in self.months), len(self.months) * len(self._study.releases)
        self._console.print(
            f"\n{reports:,} reports became {columns} columns of synthetic people. The study was closed with its "
            f"{len(self.months)}th month as the last. One person's participation cost at most rho "
            f"{format_rounded_up(spent)}: {self._epsilon_at_delta(spent)}. "
            f"It is the same after {self._flat_from} months and after any number."
        )
        shares = [month.share for month in self.months if month.share is not None]
        self.print_coverage([*(month.present for month in self.months), *shares])

    @property
    def _flat_from(self) -> int:
        """The first month after which the cost does not rise."""
        last = self.months[-1].spent
        return next(month.period for month in self.months if month.spent >= last)

    def headings(self) -> Text:
        figures = "truth answer 95% interval"
        lines = [
            ("", "", "", "% overdrawn in one or", "cost per"),
            ("", "people present", "people who", "more of three months", "person,"),
            ("month", figures, f"{'enter':>{_FLOW_WIDTH}} {'leave':>{_FLOW_WIDTH}}", figures, "epsilon"),
        ]
        return Text.assemble(*((f"{_heading_line(*line)}\n", "bold") for line in lines), (self._style.rule * WIDTH, "dim"))

    def line_of(self, month: OpenMonth) -> Text:
        epsilon = format_epsilon(epsilon_of_rho(month.spent, self._study.privacy.delta))
        flows = f"{month.entered:{_FLOW_WIDTH},.0f} {month.left:{_FLOW_WIDTH},.0f}"
        share = no_answer() if month.share is None else share_cell(month.share)
        cells = [Text(f"{month.period:5}"), people_cell(month.present), Text(flows), share]
        return Text(GAP).join(cells) + Text(f"{epsilon:>{_COST_WIDTH}}")


def _heading_line(month: str, present: str, flows: str, share: str, cost: str) -> str:
    cells = [f"{month:>5}", f"{present:{ANSWER_WIDTH}}", f"{flows:{2 * _FLOW_WIDTH + 1}}", f"{share:{ANSWER_WIDTH}}"]
    return GAP.join(cells) + f"{cost:>{_COST_WIDTH}}"

"""The two demos: a year with the same people, and three years in which people sign up and leave."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic

from streamproc.cli.demo.open_population import open_study_text, simulate_open_reports, true_months
from streamproc.cli.demo.open_screen import OpenMonth, OpenScreen
from streamproc.cli.demo.progress import AnswerVsTruth, AnyMonth, ProgressScreen
from streamproc.cli.demo.screen import Month, Screen
from streamproc.cli.demo.simulated_study import ASKED_FROM, QUESTIONS, simulate_reports, study_text
from streamproc.client.public_reader import PublicReader
from streamproc.errors import UnsupportedQuery
from streamproc.offline.people import People
from streamproc.panel import count_of
from streamproc.privacy.types import Period
from streamproc.releases.query import Entered, Left, Present
from streamproc.study import Study


class Scenario(ABC, Generic[AnyMonth]):
    """A simulated study: its file, its reports, its screen, and what an analyst and the truth say about each month."""

    ends: bool
    """Whether the last month has to be closed as the last one, because the study has no horizon."""
    text: str
    """The study file."""
    reports: People

    @abstractmethod
    def screen(self, study: Study) -> ProgressScreen[AnyMonth]:
        """The screen of the study."""

    @abstractmethod
    def released_month(self, public: PublicReader, period: Period, count: int) -> AnyMonth:
        """An analyst's answers from the public topics, whose digests `public` has checked, with the true values.

        Called once for each month, in order. `count` is the number of its reports.
        """


class YearScenario(Scenario[Month]):
    """Everybody reports from the first month to the last."""

    ends = False

    def __init__(self, people: int) -> None:
        self.text, self.reports = study_text(people), simulate_reports(people)

    def screen(self, study: Study) -> Screen:
        return Screen(study)

    def released_month(self, public: PublicReader, period: Period, count: int) -> Month:
        assert public.ledger is not None
        spent = public.ledger.record(period).rho_spent
        if period < ASKED_FROM:
            return Month(period, count, (), spent)
        truth = self.reports.filled(public.study)[:, :period]
        answers = []
        for question in QUESTIONS:
            panel = public.panel(question.release)
            assert panel is not None
            answers.append(AnswerVsTruth(float(question.holds(truth).mean()), panel.fraction(question.query, period)))
        return Month(period, count, tuple(answers), spent)


class OpenScenario(Scenario[OpenMonth]):
    """People sign up and leave, and nobody knows the last month in advance."""

    ends = True
    release = "quarterly"
    asked = count_of({"1"}, at_least=1, of=3)

    def __init__(self, people: int) -> None:
        self.text, self.reports = open_study_text(people), simulate_open_reports(people)

    def screen(self, study: Study) -> OpenScreen:
        self._truth = true_months(study, self.reports)
        return OpenScreen(study)

    def released_month(self, public: PublicReader, period: Period, count: int) -> OpenMonth:
        ledger, panel, truth = public.ledger, public.panel(self.release), next(self._truth)
        assert ledger is not None and panel is not None
        try:
            share = AnswerVsTruth(truth.share(panel.contract, self.asked), panel.fraction(self.asked, period))
        except UnsupportedQuery:  # noise could have made as many people as can be asked
            share = None
        present = AnswerVsTruth(truth.number(panel.contract, Present()), panel.people(Present(), period))
        entered, left = (panel.people(query, period).value for query in (Entered(), Left()))
        return OpenMonth(period, count, present, entered, left, share, ledger.record(period).rho_spent)

"""Collect what a run shows beside its decision: one value for all reports.

``Insights.of_run`` is called when a report is made of a loaded run. Each part has its own module.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from advisor.core import Diagnosis
from advisor.engine._history.diagnoses import read_diagnoses
from advisor.engine._history.disagreements import Disagreements, find_disagreements
from advisor.engine._history.expected_tuning import ExpectedTuning, expect_tuning_gain
from advisor.engine._history.incumbents import Incumbent, find_incumbents
from advisor.engine._history.label_check import CheckedLabels, read_label_check
from advisor.engine._history.loaded_run import LoadedRun
from advisor.engine._history.unfinished import Unfinished, read_unfinished_search


@dataclass(frozen=True)
class Insights:
    """Facts of a run beside its decision.

    Attributes:
        tuning: what fine-tuning is expected to add to the pick; None if it was fine-tuned or
            cannot be.
        unfinished: how far the search came; None if it has ended.
        incumbents: the files that the user ships, beside the pick.
        labels: the likely wrong labels; None if the search did not look for them.
        disagreements: the images on which the pick and its float32 file disagree; None where they
            are not known.
        diagnoses: why a compressed file loses accuracy, by its configuration's key.
    """

    tuning: ExpectedTuning | None = None
    unfinished: Unfinished | None = None
    incumbents: tuple[Incumbent, ...] = ()
    labels: CheckedLabels | None = None
    disagreements: Disagreements | None = None
    diagnoses: Mapping[str, Diagnosis] = field(default_factory=dict)

    @classmethod
    def of_run(cls, run: LoadedRun, running: bool) -> Insights:
        """Return what a run shows beside its decision; its search is ``running`` or not."""
        folder = run.folder
        pick = run.decision.pick
        unfinished = read_unfinished_search(run, running)
        # A search that goes on may still fine-tune the pick itself.
        tuning = None if unfinished else expect_tuning_gain(run)
        return cls(
            tuning=tuning,
            unfinished=unfinished,
            incumbents=find_incumbents(folder, run.evaluations, pick, run.question.robust),
            labels=read_label_check(folder),
            disagreements=find_disagreements(folder, run.evaluations, pick),
            diagnoses=read_diagnoses(folder),
        )

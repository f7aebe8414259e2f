"""One run of a list: its state, its pick with its figures, and the columns that sort runs.

``_runs.py`` reads the rows; the terminal and the pages of ``serve`` show them. Rows are kept in
the cache by their fields: a changed meaning needs a new number in ``INDEX`` of ``_runs.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any

from advisor.core import HOST, Evaluation, Provenance, plural, show_figure, show_latency
from advisor.engine import Snapshot


class RunState(StrEnum):
    """State of a run."""

    RUNNING = "running"
    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    DAMAGED = "damaged"


@dataclass(frozen=True)
class RunRow:
    """One run."""

    name: str  #: name of its folder
    state: RunState  #: its state
    why: str = ""  #: why it was interrupted or is damaged
    task: str = ""  #: its task
    metric: str = "Accuracy"  #: what its accuracy is, as a heading begins
    #: the options of its question with their values, as the user wrote them
    limits: tuple[tuple[str, str], ...] = ()
    reason: str = ""  #: the decision in words
    #: the recommended evaluation with its figures, without details; None without one
    pick: Evaluation | None = None
    feasible: bool = False  #: the pick meets the limits
    #: numbers of configurations with a result by status
    done: Mapping[str, int] = field(default_factory=dict)
    configurations: int = 0  #: all configurations of the search; 0 if not known
    latest: Evaluation | None = None  #: the last evaluation that is ok, while the search runs
    snapshot: Snapshot | None = None  #: what the search is doing, while it runs
    changed: str = ""  #: date and time of the last result, with the time zone
    report: bool = False  #: it has a ``report.html``
    remark: str = ""  #: why nobody can tell whether it was changed; empty if it proves itself
    opening: tuple[str, ...] = ()  #: the lines that every form of the answer begins with
    #: the processor and the cores of the machine that searched; empty if not known
    machine: str = ""

    @property
    def is_running(self) -> bool:
        """True while its search works."""
        return self.state is RunState.RUNNING

    @property
    def is_finished(self) -> bool:
        """True if its search has ended and its files are whole."""
        return self.state is RunState.FINISHED

    @property
    def evaluated(self) -> int:
        """Number of configurations with a result."""
        return sum(self.done.values())

    @property
    def model(self) -> str:
        """Card and form of the pick; empty without one."""
        configuration = self.pick.configuration if self.pick else None
        return f"{configuration.card} {configuration.variant_name}" if configuration else ""

    @property
    def origins(self) -> tuple[str, str, str]:
        """The origins of the pick's accuracy, latency (with its machine) and size;
        empty if not known.
        """
        pick = self.pick
        if pick is None:
            return "", "", ""
        target = pick.configuration.target
        # The hold-out chose nothing, so its figure comes before that of validation.
        accuracy = pick.holdout_accuracy or pick.accuracy
        unit = target.accelerator.upper()
        if target.accelerator == "cpu":
            unit = plural(target.threads, "CPU thread")
        place = (self.machine or "this machine") if target.device == HOST else target.device
        images = ""
        if accuracy and accuracy.n:
            images = f" on {plural(accuracy.n, 'image')}"
        return (
            f"{accuracy.provenance}{images}" if accuracy else "",
            f"{pick.latency.provenance}: {unit} of {place}" if pick.latency else "",
            str(pick.size.provenance) if pick.size else "",
        )


def figures(evaluation: Evaluation | None) -> tuple[str, str, str]:
    """Return accuracy, latency and size with their units; a dash for each that is not known."""
    if evaluation is None:
        return "–", "–", "–"
    accuracy = accuracy_of(evaluation)
    shown_accuracy = "–"
    if accuracy >= 0:
        source = "" if _on_own_images(evaluation) else " (ImageNet)"
        shown_accuracy = f"{show_figure('accuracy', accuracy)}{source}"
    return (
        shown_accuracy,
        show_latency(evaluation.latency) if evaluation.latency else "–",
        show_figure("size", evaluation.size.value) if evaluation.size else "–",
    )


def accuracy_of(evaluation: Evaluation) -> float:
    """Return the accuracy to expect in %: that on the hold-out if it is known; -1 if none is."""
    accuracy = evaluation.holdout_accuracy or evaluation.accuracy
    return accuracy.value if accuracy else -1.0


def _on_own_images(evaluation: Evaluation) -> bool:
    """Return whether the accuracy is one on the user's images, and not on ImageNet."""
    accuracy = evaluation.holdout_accuracy or evaluation.accuracy
    return accuracy is not None and accuracy.provenance is Provenance.MEASURED


def _by_accuracy(evaluation: Evaluation) -> tuple[bool, float]:
    """Return what runs are sorted by: those on the user's images come first."""
    return _on_own_images(evaluation), accuracy_of(evaluation)


def _of_pick(figure: Callable[[Evaluation], Any], none: object) -> Callable[[RunRow], Any]:
    return lambda row: figure(row.pick) if row.pick else none


@dataclass(frozen=True)
class RunColumn:
    """A column of the list that runs can be sorted by."""

    title: str  #: its heading
    key: Callable[[RunRow], Any]  #: what is compared
    falls: bool  #: True if the largest comes first


@cache
def map_columns() -> Mapping[str, RunColumn]:
    """Return the columns of the list by name."""
    return {
        "name": RunColumn("Run", lambda row: row.name, True),
        "state": RunColumn("Status", lambda row: row.state, False),
        "question": RunColumn("Question", lambda row: row.limits, False),
        "pick": RunColumn("Pick", lambda row: row.model, False),
        "accuracy": RunColumn("Accuracy", _of_pick(_by_accuracy, (False, -1.0)), True),
        "latency": RunColumn(
            "Latency", _of_pick(lambda evaluation: evaluation.latency_ms, float("inf")), False
        ),
        "size": RunColumn(
            "Size", _of_pick(lambda evaluation: evaluation.size_bytes, float("inf")), False
        ),
    }

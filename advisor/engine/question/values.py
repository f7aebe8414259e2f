"""A search as values: the question, how it is answered, and where the results go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.core.budget import Budget
from advisor.core.costs import Costs
from advisor.core.figures import HOST
from advisor.core.guarantees import Guarantees
from advisor.core.metrics import METRICS, TOP1
from advisor.core.names import ADVISOR, JOURNAL, LOCAL
from advisor.core.preference import BALANCED, Preference
from advisor.core.tasks import DEFAULT_TASK, TASKS
from advisor.core.training import NONE
from advisor.isolation.resources import usable_cores

if TYPE_CHECKING:
    from advisor.tasks.task import Task

LEAST_GAIN = 0.005
LARGE_SPACE = 100
"""Configurations; a smaller space is searched to its end, which takes minutes and gives the whole table."""


def _default_thread_counts() -> tuple[int, ...]:
    return tuple(sorted({1, usable_cores()}))


@dataclass(frozen=True)
class Question:
    """The question. Two runs with the same question can be compared; a resumed run keeps its question.

    Attributes:
        task: name of the task, see :data:`advisor.core.tasks.TASKS`.
        data: folder or manifest of labelled images, None for none.
        judged_whole: all labelled images are held out; nothing is learnt from them.
        unknown: folder of images of things that are none of the classes, None for none.
        devices: names of the devices of the question, each once: ``host``, ``galaxy-s24``, ``galaxy-s24:qnn-npu``.
        profiles: folders of device profiles.
        limits: the budget in base units, with accepted licences and required devices.
        preference: what counts among the candidates that meet the budget.
        metric: what accuracy is: one of :data:`advisor.core.metrics.METRICS`, for classifiers.
        costs: the cost of each answer of a classifier; None for none.
        robust: candidates are compared by their mean accuracy over capture conditions.
        candidates: names, families and globs of model cards; empty for all that name a source of weights.
        trainings: training recipes, the lightest first.
        tuning_limited: the training recipes are the default ones, so fine-tuning has a limited time, see
            :mod:`advisor.engine.scheduling.allowance`.
        tune_training: trials of fine-tuning for each card; 0 for the recipe's own hyperparameters.
        compressions: names of compression recipes; empty for the default ones.
        guarantees: what the thresholds in the shipped file guarantee.
        thread_counts: CPU thread counts to measure, ascending.
        catalog: catalogue files.
        seed: seed of the split, of training and of the sampler.
    """

    task: str = DEFAULT_TASK
    data: Path | None = None
    judged_whole: bool = False
    unknown: Path | None = None
    devices: tuple[str, ...] = (HOST,)
    profiles: tuple[Path, ...] = ()
    limits: Budget = field(default_factory=Budget)
    preference: Preference = BALANCED
    metric: str = TOP1
    costs: Costs | None = None
    robust: bool = False
    candidates: tuple[str, ...] = ()
    trainings: tuple[str, ...] = (NONE,)
    tuning_limited: bool = False
    tune_training: int = 0
    compressions: tuple[str, ...] = ()
    guarantees: Guarantees = field(default_factory=Guarantees)
    thread_counts: tuple[int, ...] = field(default_factory=_default_thread_counts)
    catalog: tuple[Path, ...] = ()
    seed: int = 0

    @property
    def of_task(self) -> Task:
        """The task, with the metric of the question."""
        task = TASKS[self.task]
        return task if self.metric == TOP1 else replace(task, metric=METRICS[self.metric].label)

    def require_data(self) -> Path:
        """Return the path of the images, of a question that has some."""
        assert self.data is not None, "images are read only where there are some"
        return self.data


@dataclass(frozen=True)
class Execution:
    """The way to answer a question. A resumed run may be given another one.

    Attributes:
        sampler: one of :data:`advisor.core.names.SAMPLERS`.
        time_limit_s: seconds after which the search stops, None for no limit.
        time_limit: the same limit as the user wrote it, for messages.
        max_trials: number of configurations after which the search stops; 0 for no limit.
        stop_below: share (0-1) of the front's hypervolume: the search stops when one more hour is expected to add
            less; 0 for never, None to decide by the size of the search space.
        capture_all: one file of each finalist's network runs under capture conditions, not only pick and runner-up.
        offline: never open a connection.
        mirror: folder or address of weights that is asked before all others.
        remeasure: measure again what an earlier run measured on this machine.
        storage: ``journal``, ``sqlite``, or the address of a database, which may hold a password.
        executor: ``local``, or a name that is registered in ``advisor.executors``.
        cluster: ``host:port`` of a Ray cluster; empty for the cluster of this machine.
        workers: most jobs at the same time; 0 for one for each core.
        shared_folder: folder that every node of a Ray cluster sees under the same name; None to send files.
    """

    sampler: str = ADVISOR
    time_limit_s: float | None = None
    time_limit: str = ""
    max_trials: int = 0
    stop_below: float | None = None
    capture_all: bool = False
    offline: bool = False
    mirror: str | None = None
    remeasure: bool = False
    storage: str = JOURNAL
    executor: str = LOCAL
    cluster: str = ""
    workers: int = 0
    shared_folder: Path | None = None

    def least_gain(self, configurations: int) -> float | None:
        """Return the share of the hypervolume that one more hour must be expected to add, None for no such rule.

        Args:
            configurations: size of the search space.
        """
        if self.stop_below is not None:
            return self.stop_below or None
        return LEAST_GAIN if self.sampler == ADVISOR and configurations >= LARGE_SPACE else None

    @property
    def cores(self) -> int:
        """Most jobs at the same time on this machine."""
        return self.workers or usable_cores()


@dataclass(frozen=True)
class Request:
    """A question, how it is answered, and where the results go.

    Attributes:
        question: the question.
        execution: how it is answered.
        folder: folder that takes the run.
        written: the options as the user wrote them, by name, without passwords: the content of ``request.yaml``.
    """

    question: Question
    execution: Execution
    folder: Path
    written: Mapping[str, object]

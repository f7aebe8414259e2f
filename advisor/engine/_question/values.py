"""A search as values: the question, how it is answered, and where the results go.

``parsing.py`` makes them, once a command. Everything in the engine reads them; nothing changes
them. The names of the fields are those of the options in ``core/_options.py``, by which
``Options.fields_of`` fills them: rename both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.core import (
    BALANCED,
    DEFAULT_TASK,
    HOST,
    LOCAL,
    METRICS,
    Costs,
    Guarantees,
    Limits,
    Metric,
    Preference,
    Sampler,
    ShipOn,
    StudyFile,
    TrainingName,
)
from advisor.isolation import usable_cores

if TYPE_CHECKING:
    from advisor.engine._task import SearchTask


LEAST_GAIN = 2.0
"""Points of accuracy, or what the preference counts like them,
that a CPU hour more must be expected to gain.
"""


@dataclass(frozen=True)
class Question:
    """The question. Two runs with the same question can be compared;
    a resumed run keeps its question.

    Attributes:
        data: folder or manifest of labelled images.
        judged_whole: all labelled images are held out; nothing is learnt from them.
        most_images: most labelled images that are read, 0 for all; None: as many as a time limit
            leaves time for.
        unknown: folder of images of things that are none of the classes.
        devices: names of devices, each once: ``host``, ``galaxy-s24``, ``galaxy-s24:qnn-npu``.
        fleet: the table of phones that one to three files shall serve, as text
            (``docs/fleet.md``); empty for none.
        limits: the budget in base units, with accepted licences and required devices.
        metric: one of :data:`advisor.core.METRICS`, for classifiers.
        input_size: side of the networks' input in pixels; 0 for that of the task, or of each card.
        robust: candidates are compared by their mean accuracy over capture conditions.
        candidates: names, families and globs of model cards; empty for all that name a source of
            weights.
        trainings: training recipes, the lightest first.
        tuning_limited: the training recipes are the default ones, so fine-tuning has a limited
            time.
        start: folder of an earlier run, whose heads the heads of the same networks start from.
        tune_training: trials of fine-tuning for each card; 0 for the recipe's own hyperparameters.
        compressions: compression recipes; empty for the default ones.
        thread_counts: CPU thread counts to measure, ascending.
        seed: seed of the split, of training and of the sampler.
    """

    task: str = DEFAULT_TASK
    data: Path | None = None
    judged_whole: bool = False
    most_images: int | None = None
    unknown: Path | None = None
    devices: tuple[str, ...] = (HOST,)
    fleet: str = ""
    profiles: tuple[Path, ...] = ()
    limits: Limits = field(default_factory=Limits)
    preference: Preference = BALANCED
    metric: str = Metric.TOP1
    input_size: int = 0
    costs: Costs | None = None
    robust: bool = False
    candidates: tuple[str, ...] = ()
    trainings: tuple[str, ...] = (TrainingName.NONE,)
    tuning_limited: bool = False
    start: Path | None = None
    tune_training: int = 0
    compressions: tuple[str, ...] = ()
    guarantees: Guarantees = field(default_factory=Guarantees)
    thread_counts: tuple[int, ...] = field(
        default_factory=lambda: tuple(sorted({1, usable_cores()}))
    )
    catalog: tuple[Path, ...] = ()
    seed: int = 0

    @property
    def of_task(self) -> SearchTask:
        """The task, with the metric and the input size of the question."""
        # Imported late, because the tasks import this room.
        from advisor.engine._task import find_task

        # A task is a frozen value of the registry,
        # so a question with another metric or size gets its own copy.
        task = find_task(self.task)
        if self.input_size:
            task = replace(task, side=self.input_size)
        if self.metric != Metric.TOP1:
            task = replace(task, metric=METRICS[self.metric].label)
        return task

    def require_data(self) -> Path:
        """Return the path of the images, of a question that has some."""
        assert self.data is not None, "images are read only where there are some"
        return self.data


@dataclass(frozen=True)
class Execution:
    """The way to answer a question. A resumed run may be given another one.

    Attributes:
        time_limit: ``time_limit_s`` as the user wrote it, for messages.
        max_trials: number of configurations after which the search stops; 0 for no limit.
        stop_below: points of accuracy over 100: the search stops when a CPU hour more is expected
            to gain less; 0 for never, None for the usual.
        capture_all: one file of each finalist's network runs under capture conditions, not only
            pick and runner-up.
        ship_on: images that the pick's file learns from, one of :class:`advisor.core.ShipOn`.
        mirror: folder or address of weights that is asked before all others.
        remeasure: measure again what an earlier run measured on this machine.
        storage: ``journal``, ``sqlite``, or the address of a database, which may hold a password.
        executor: ``local``, or a name that is registered in ``advisor.executors``.
        cluster: ``host:port`` of a Ray cluster, or a file of settings for Slurm; empty for the
            usual.
        workers: most jobs at the same time; 0 for one for each core.
        shared_folder: folder that every machine of a cluster sees under the same name; None to
            send files to Ray's.
        cache_size: limit of the cache in bytes; None for the usual.
        upload: files may be sent to a device cloud.
        upload_images: folder of images that may be sent there, too; None for none.
        cloud_limit: time that a cloud may take for a file, its queue included, as the user wrote
            it.
    """

    sampler: str = Sampler.ADVISOR
    time_limit_s: float | None = None
    time_limit: str = ""
    max_trials: int = 0
    stop_below: float | None = None
    capture_all: bool = False
    ship_on: str = ShipOn.ALL_BUT_HOLDOUT
    offline: bool = False
    mirror: str | None = None
    remeasure: bool = False
    storage: str = StudyFile.JOURNAL
    executor: str = LOCAL
    cluster: str = ""
    workers: int = 0
    shared_folder: Path | None = None
    cache_size: int | None = None
    upload: bool = False
    upload_images: str | None = None
    cloud_limit: str = "30min"

    def least_gain(self, question: Question) -> float:
        """Return the points of accuracy that a CPU hour more must be expected to gain;
        0 to evaluate everything.

        By default a search ends by itself where the user left the training and the compression
        recipes to it. What a file is worth to a fleet is not known while searching.
        """
        if self.stop_below is not None:
            return 100.0 * self.stop_below
        # A user who names recipes or another sampler wants to see all of them,
        # so nothing is left out by expected gain.
        names_recipes = not question.tuning_limited or question.compressions
        wants_all = question.fleet or names_recipes or self.sampler != Sampler.ADVISOR
        return 0.0 if wants_all else LEAST_GAIN

    @property
    def cores(self) -> int:
        """Most jobs at the same time on this machine."""
        return self.workers or usable_cores()


@dataclass(frozen=True)
class Request:
    """A question, how it is answered, and the folder that takes the run.

    ``written`` are the options as the user wrote them, without passwords:
    the content of ``request.yaml``.
    """

    question: Question
    execution: Execution
    folder: Path
    written: Mapping[str, object]

    @property
    def run_name(self) -> str:
        """The name of a run, without its time: the images or the task, and the budget."""
        question = self.question
        budget = self.written["budget"]
        name = question.task
        if question.data:
            # Resolved, because a path such as "." has no name.
            data = question.data.resolve()
            # The kind of a table says nothing of the images; a folder may be called "v1.2".
            name = data.stem if data.is_file() else data.name
            # The images of an update are called as the run that they continue,
            # and the new run has a time of its own.
            name = re.sub(r"^\d{8}-\d{6}-", "", name)
        return f"{name}-{budget}" if budget else name

"""A search as values: the question, how it is answered, and where the results go."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.core import (
    BALANCED,
    DEFAULT_TASK,
    HOST,
    LOCAL,
    METRICS,
    NO_TRAINING,
    PLAN,
    Costs,
    Guarantees,
    Limits,
    Metric,
    Preference,
    Sampler,
    Shares,
    ShipOn,
    StudyFile,
    Table,
    UsageError,
    nearest,
    parse_count,
    require_known,
    show_flag,
    units,
    without_passwords,
)
from advisor.isolation import usable_cores
from advisor.store import read_yaml

if TYPE_CHECKING:
    from advisor.engine._task import SearchTask


LEAST_GAIN = 2.0
"""Points of accuracy, or what the preference counts like them,
that a CPU hour more must be expected to gain.
"""

SCHEMA_VERSION = 1
"""Version of request files; raised when a key changes its meaning."""

REQUEST_OPTIONS = tuple(name for name, option in PLAN.items() if option.kept)
"""Names of the options of a request file."""

FREE_ON_RESUME = tuple(name for name in REQUEST_OPTIONS if PLAN[name].free)
"""Options that a resumed run may change: they do not change what is asked.
An address may get its password again.
"""

QUESTION_OPTIONS = tuple(name for name in REQUEST_OPTIONS if not PLAN[name].free)
"""Names of the options that make up the question."""

PRECISION = "--min-precision"
RECALL = "--min-recall"
COVERAGE = "--min-coverage"

SHARES = (0.5, 0.995)
COVERAGES = (0.01, 0.995)
"""Least and largest share of ``--min-precision`` and ``--min-recall``, and of
``--min-coverage``.
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
    trainings: tuple[str, ...] = (NO_TRAINING,)
    tuning_limited: bool = False
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
        return (
            task
            if self.metric == Metric.TOP1
            else replace(task, metric=METRICS[self.metric].label)
        )

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
        # Whoever names recipes or another sampler wants to see all of them,
        # so nothing is left out by expected gain.
        names_recipes = not question.tuning_limited or question.compressions
        asked = question.fleet or names_recipes or self.sampler != Sampler.ADVISOR
        return 0.0 if asked else LEAST_GAIN

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


@dataclass(frozen=True)
class Options:
    """The options of one search as a user writes them, by name.
    An empty text or tuple means: not given.
    """

    values: Mapping[str, Any]
    table: Table

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def parsed(self, name: str) -> Any:
        """Return the value of an option as a search uses it, if it is valid;
        None for a text that is not given.
        """
        value = self.values[name]
        option = self.table[name]
        # An empty text stands for an option that was not given: it has no value to parse.
        if value == "" and option.default == "":
            return None
        if option.parse is not None:
            return option.parse(value, show_flag(name))
        return (
            require_known(show_flag(name), value, option.choices)
            if option.choices and isinstance(value, str)
            else value
        )

    def fields_of(self, kind: type) -> dict[str, Any]:
        """Return the parsed values of the options that have the same name
        as a field of a dataclass.

        So an option acts because ``Question`` or ``Execution`` has a field of its name. Options
        whose value has another name, such as limits, or is made of several, are read one by one in
        ``engine/_question/__init__.py``.
        """
        return {
            field.name: self.parsed(field.name)
            for field in fields(kind)
            if field.name in self.values
        }

    def to_dict(self) -> dict[str, object]:
        """Return the keys and values of a request file; passwords are left out."""
        return {key: without_passwords(value) for key, value in self.values.items()}


def collect_options(given: Mapping[str, object], table: Table = PLAN) -> Options:
    """Return the options that were given, and the defaults of the others;
    refuse unknown names and wrong types.
    """
    defaults = {name: option.default for name, option in table.items() if option.kept}
    for key in given:
        if key not in defaults:
            raise UsageError(
                f"unknown option '{key}'{nearest(key, defaults)}",
                f"options: {', '.join(defaults)}",
            )
    return Options(
        defaults
        | {key: _convert_to_type(key, value, defaults[key]) for key, value in given.items()},
        table,
    )


def read_file(file: Path) -> Mapping[str, object]:
    """Return the options of a request file; dashes in names become underscores."""
    try:
        values = read_yaml(file).values
    except UsageError as error:
        raise UsageError(
            f"--request: {error.message}", "give the path of a YAML file; advisor init writes one"
        ) from None
    if not isinstance(values, dict):
        raise UsageError(f"--request: '{file}' holds no keys", "write for example: budget: 50ms")
    # People write request files by hand, and may leave the version out.
    version = values.get("schema_version", SCHEMA_VERSION)
    if version != SCHEMA_VERSION:
        raise UsageError(
            f"--request: '{file}' has schema version {version}, this advisor reads version"
            f" {SCHEMA_VERSION}",
            "update advisor, or write the file anew with advisor init",
        )
    return {
        str(key).replace("-", "_"): value
        for key, value in values.items()
        if key != "schema_version"
    }


def _convert_to_type(key: str, value: Any, default: object) -> Any:
    """Return ``value`` with the type of the option's default."""
    if value is None:
        raise UsageError(
            f"{key}: no value",
            f"write for example {key}: {default or '...'}, or leave the line out",
        )
    if isinstance(default, tuple):
        items = list(value) if isinstance(value, list | tuple) else [value]
        # YAML reads some words as truth values, which would become the names 'True' and 'False'.
        wrong = []
        for item in items:
            if isinstance(item, bool) or not isinstance(item, str | int | float | Path):
                wrong.append(item)
        if wrong:
            raise UsageError(
                f"{key}: '{wrong[0]}' is not one value",
                f"write for example {key}: [first, second]",
            )
        return tuple(_thread_count(item) if key == "threads" else str(item) for item in items)
    # Before whole numbers: True is an int in Python.
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise UsageError(f"{key}: '{value}' is neither true nor false", f"write {key}: true")
        return value
    if isinstance(default, int):
        # The default stands for no value, so it may lie outside the bounds of values.
        return default if value == default else parse_count(key, value, key)
    if isinstance(value, Mapping | list | tuple | bool):
        raise UsageError(
            f"{key}: '{value}' is not one value", f"write for example {key}: {default or '...'}"
        )
    return str(value)


def _thread_count(item: object) -> int:
    return usable_cores() if str(item) == "all" else parse_count("threads", item, "threads")


def parse_guarantees(precision: Sequence[str], recall: Sequence[str], coverage: str) -> Guarantees:
    """Return what the user asks of thresholds.

    ``precision`` and ``recall`` are texts such as ``95%``, ``trash=90%`` or ``95%,trash=90%``,
    ``coverage`` one such as ``80%``, empty for no wish.
    """
    share = (
        units.parse_share(coverage, COVERAGE, COVERAGES, _hint(COVERAGE, "80%"))
        if coverage
        else None
    )
    return Guarantees(_shares(precision, PRECISION), _shares(recall, RECALL), share)


def _shares(texts: Sequence[str], option: str) -> Shares:
    """Return the shares of an option, whose texts are divided at commas after a percent sign.

    A class's name is what stands before the last ``=``, so that it may hold both characters.
    """
    shares: dict[str | None, float] = {}
    parts = list[str]()
    for text in texts:
        parts += re.split(r"(?<=%)\s*,", text)
    for text in filter(None, map(str.strip, parts)):
        name, separator, written = text.rpartition("=")
        key = name.strip() if separator else None
        share = units.parse_share(written.strip(), option, SHARES, _hint(option, "95%"))
        if key in shares:
            twice = "a share for all classes" if key is None else f"a share for '{key}'"
            raise UsageError(f"{option}: {twice} is given twice", "leave one of them out")
        shares[key] = share
    return Shares(
        shares.pop(None, None), {name: share for name, share in shares.items() if name is not None}
    )


def _hint(option: str, example: str) -> str:
    return f"nothing can be guaranteed for all images: write for example {option} {example}"


def require_classes(guarantees: Guarantees, classes: Sequence[str]) -> None:
    """Refuse a guarantee for a class that the images do not have."""
    for option, shares in ((PRECISION, guarantees.precision), (RECALL, guarantees.recall)):
        for name in shares.by_class:
            if name not in classes:
                raise UsageError(
                    f"{option}: unknown class '{name}'{nearest(name, classes)}",
                    f"classes: {units.listed(classes, 20)}",
                )

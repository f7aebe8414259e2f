"""The options of a search as a user writes them, with their units and defaults; nothing is parsed yet.

An option belongs to one of three groups, and :mod:`advisor.engine.question.parsing` turns each group into one value.
A new option is one line here, one line there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from advisor.core.errors import UsageError, nearest
from advisor.engine.question.names import ADVISOR, IMAGE_CLASSIFICATION, LOCAL
from advisor.engine.question.storage_address import JOURNAL, without_password
from advisor.isolation.resources import usable_cores
from advisor.store.yamlfile import read_yaml

MOST_THREADS = 64


@dataclass(frozen=True)
class QuestionOptions:
    """What is asked. An empty text or tuple is an option that was not given.

    Attributes:
        task: ``image-classification``.
        budget: upper limit of the 90th percentile of the latency, such as ``50ms``.
        size_budget: upper limit of the file's size, such as ``5MB``.
        memory_budget: upper limit of the peak private memory, such as ``100MB``.
        max_drop: points of accuracy that a file may lose against its float32 form, such as ``1pt``.
        min_accuracy: lower limit of top-1 accuracy, such as ``85%``.
        data: folder or manifest of labelled images.
        device: ``host``, or names of device profiles (``galaxy-s24``, ``galaxy-s24:qnn-npu``), joined by commas.
        profiles: folders of device profiles.
        must_run_on: devices on which the same file must run too, within the latency budget.
        licence: accepted licences: ``permissive``, SPDX identifiers, or both joined by commas.
        objective: ``accuracy``, or ``robust-accuracy``, the mean over capture conditions.
        prefer: ``balanced``, ``accuracy``, ``latency``, ``size``, or weights such as ``accuracy=2,latency=1``.
        confidence: probability with which a predicted latency must meet the budget, such as ``90%``.
        candidates: names, families and globs of model cards.
        training: names of training recipes.
        tune_training: trials of fine-tuning for each card; 0 for the recipe's own hyperparameters.
        compressions: names of compression recipes.
        threads: CPU thread counts.
        catalog: catalogue files.
        seed: seed of the split, of training and of the sampler.
    """

    task: str = IMAGE_CLASSIFICATION
    budget: str = ""
    size_budget: str = ""
    memory_budget: str = ""
    max_drop: str = ""
    min_accuracy: str = ""
    data: str = ""
    device: str = "host"
    profiles: tuple[str, ...] = ()
    must_run_on: tuple[str, ...] = ()
    licence: str = ""
    objective: str = "accuracy"
    prefer: str = ""
    confidence: str = ""
    candidates: tuple[str, ...] = ()
    training: tuple[str, ...] = ()
    tune_training: int = 0
    compressions: tuple[str, ...] = ()
    threads: tuple[int, ...] = ()
    catalog: tuple[str, ...] = ()
    seed: int = 0


@dataclass(frozen=True)
class ExecutionOptions:
    """How the question is answered. An empty text is an option that was not given.

    Attributes:
        sampler: ``advisor``, ``tpe``, ``nsga2``, ``gp`` (needs PyTorch) or ``random``.
        time_limit: stop after this time, such as ``10min``.
        max_trials: stop after this number of configurations; 0 for no limit.
        stop_below: stop when one more hour is expected to add less than this share of the front's hypervolume, such
            as ``0.5%``; or ``never``.
        offline: never open a connection.
        mirror: folder or address of weights that is asked before all others.
        remeasure: measure again what an earlier run measured on this machine.
        storage: ``journal`` or ``sqlite`` in the run folder, or ``postgresql://...``.
        executor: ``local``, ``ray`` or ``ray://host:port``.
        workers: most jobs at the same time; 0 for one for each core.
        shared_folder: folder that every node of a Ray cluster sees under the same name.
    """

    sampler: str = ADVISOR
    time_limit: str = ""
    max_trials: int = 0
    stop_below: str = ""
    offline: bool = False
    mirror: str = ""
    remeasure: bool = False
    storage: str = JOURNAL
    executor: str = LOCAL
    workers: int = 0
    shared_folder: str = ""


@dataclass(frozen=True)
class OutputOptions:
    """Where the results go.

    Attributes:
        out: folder of the runs.
    """

    out: str = "runs"


@dataclass(frozen=True)
class Options:
    """All options of one search."""

    question: QuestionOptions
    execution: ExecutionOptions
    output: OutputOptions

    def to_dict(self) -> dict[str, object]:
        """Return the keys and values of a request file; passwords are left out."""
        values = {**asdict(self.question), **asdict(self.execution), **asdict(self.output)}
        values["storage"] = without_password(self.execution.storage)
        return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


def names_of(group: type[QuestionOptions | ExecutionOptions | OutputOptions]) -> tuple[str, ...]:
    """Return the names of the options in a group."""
    return tuple(field.name for field in fields(group))


def collect_options(given: Mapping[str, object]) -> Options:
    """Return the options that were given, and the defaults of the others.

    Args:
        given: value by name of the option, of the type that a YAML file or the command line has.

    Raises:
        UsageError: an unknown name, or a value of a wrong type.
    """
    groups = (QuestionOptions, ExecutionOptions, OutputOptions)
    defaults = {field.name: field.default for group in groups for field in fields(group)}
    for key in given:
        if key not in defaults:
            raise UsageError(f"unknown option '{key}'{nearest(key, defaults)}", f"options: {', '.join(defaults)}")
    values = {key: _typed(key, value, defaults[key]) for key, value in given.items()}
    question, execution, output = (
        {name: values[name] for name in names_of(group) if name in values} for group in groups
    )
    return Options(QuestionOptions(**question), ExecutionOptions(**execution), OutputOptions(**output))


def read_file(file: Path) -> Mapping[str, object]:
    """Return the options of a request file; dashes in names become underscores.

    Raises:
        UsageError: the file cannot be read, or holds no keys.
    """
    try:
        values = read_yaml(file).values
    except UsageError as error:
        raise UsageError(f"--request: {error.message}", "give the path of a YAML file; see docs/search.md") from None
    if not isinstance(values, dict):
        raise UsageError(f"--request: '{file}' holds no keys", "write for example: budget: 50ms")
    return {str(key).replace("-", "_"): value for key, value in values.items() if key != "schema_version"}


def _typed(key: str, value: Any, default: object) -> Any:
    """Return ``value`` with the type of the option's default."""
    if isinstance(default, tuple):
        items = [value] if isinstance(value, str | int | Path) else list(value)
        return tuple(_thread_count(item) if key == "threads" else str(item) for item in items)
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise UsageError(f"{key}: '{value}' is neither true nor false", f"write {key}: true")
        return value
    if isinstance(default, int):
        return _whole_number(key, value)
    if isinstance(value, Mapping | list | tuple | bool):
        raise UsageError(f"{key}: '{value}' is not one value", f"write for example {key}: {default or '...'}")
    return str(value)


def _whole_number(key: str, value: object) -> int:
    try:
        number = int(str(value))
    except ValueError:
        raise UsageError(f"{key}: '{value}' is not a whole number", f"write for example {key}: 1") from None
    if number < 0:
        raise UsageError(f"{key}: {number} is below zero", f"write for example {key}: 1")
    return number


def _thread_count(item: object) -> int:
    if str(item) == "all":
        return usable_cores()
    count = _whole_number("threads", item)
    if not 1 <= count <= MOST_THREADS:
        raise UsageError(
            f"threads: {count} is not between 1 and {MOST_THREADS}", "write for example --threads 1 --threads all"
        )
    return count

"""The options of a search as a user writes them, with their units and defaults; nothing is parsed yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from advisor.core.errors import UsageError, nearest
from advisor.core.names import ADVISOR, FIRST, JOURNAL, LOCAL, without_password
from advisor.core.tasks import IMAGE_CLASSIFICATION
from advisor.isolation.resources import usable_cores
from advisor.store.yamlfile import read_yaml

SCHEMA_VERSION = 1
"""Version of request files; raised when a key changes its meaning."""

MOST_THREADS = 64


@dataclass(frozen=True)
class Options:
    """The options of one search; :func:`advisor.search` describes each. An empty text or tuple means: not given."""

    task: str = IMAGE_CLASSIFICATION
    budget: str = ""
    size_budget: str = ""
    memory_budget: str = ""
    max_drop: str = ""
    min_accuracy: tuple[str, ...] = ()
    min_precision: tuple[str, ...] = ()
    min_recall: tuple[str, ...] = ()
    min_coverage: str = ""
    metric: str = ""
    costs: str = ""
    data: str = ""
    unknown: str = ""
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
    sampler: str = ADVISOR
    time_limit: str = ""
    max_trials: int = 0
    stop_below: str = ""
    capture: str = FIRST
    offline: bool = False
    mirror: str = ""
    remeasure: bool = False
    storage: str = JOURNAL
    executor: str = LOCAL
    workers: int = 0
    shared_folder: str = ""
    out: str = "runs"

    def to_dict(self) -> dict[str, object]:
        """Return the keys and values of a request file; passwords are left out."""
        values = {**asdict(self), "storage": without_password(self.storage)}
        return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


FREE_ON_RESUME = (
    "sampler", "time_limit", "max_trials", "stop_below", "capture", "offline", "mirror", "remeasure", "storage",
    "executor", "workers", "shared_folder", "out",
)  # fmt: skip
"""Options that a resumed run may change: they do not change what is asked. ``storage`` may add a password."""

QUESTION_OPTIONS = tuple(option.name for option in fields(Options) if option.name not in FREE_ON_RESUME)
"""Names of the options that make up the question."""


def collect_options(given: Mapping[str, object]) -> Options:
    """Return the options that were given, and the defaults of the others.

    Args:
        given: value by name of the option, of the type that a YAML file or the command line has.

    Raises:
        UsageError: an unknown name, or a value of a wrong type.
    """
    defaults = {option.name: option.default for option in fields(Options)}
    for key in given:
        if key not in defaults:
            raise UsageError(f"unknown option '{key}'{nearest(key, defaults)}", f"options: {', '.join(defaults)}")
    return Options(**{key: _typed(key, value, defaults[key]) for key, value in given.items()})


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
    version = values.get("schema_version", SCHEMA_VERSION)
    if version != SCHEMA_VERSION:
        raise UsageError(
            f"--request: '{file}' has schema version {version}, this advisor reads version {SCHEMA_VERSION}",
            "update advisor, or write the file anew with advisor init",
        )
    return {str(key).replace("-", "_"): value for key, value in values.items() if key != "schema_version"}


def _typed(key: str, value: Any, default: object) -> Any:
    """Return ``value`` with the type of the option's default."""
    if value is None:
        raise UsageError(f"{key}: no value", f"write for example {key}: {default or '...'}, or leave the line out")
    if isinstance(default, tuple):
        items = list(value) if isinstance(value, list | tuple) else [value]
        wrong = [item for item in items if isinstance(item, bool) or not isinstance(item, str | int | float | Path)]
        if wrong:
            raise UsageError(f"{key}: '{wrong[0]}' is not one value", f"write for example {key}: [first, second]")
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

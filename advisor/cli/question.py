"""The options of a question: declared once, taken by ``advisor search`` and ``advisor plan`` alike."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from advisor.cli.limits import (
    Budget,
    Confidence,
    Licence,
    MaxDrop,
    MemoryBudget,
    MinAccuracy,
    MustRunOn,
    Prefer,
    ProfileFolders,
    SizeBudget,
)
from advisor.cli.options import split_commas

Question = Mapping[str, Any]
"""What was given, by the names of :mod:`advisor.engine.question.options`; None is not given."""

JOINED = ("candidates", "training", "compressions", "threads", "must_run_on")
"""Options that may be repeated, or joined by commas."""


def _one(metavar: str, about: str) -> Any:
    return Annotated[str | None, typer.Option(metavar=metavar, help=about)]


def _several(metavar: str, about: str) -> Any:
    return Annotated[list[str] | None, typer.Option(metavar=metavar, help=about)]


def _number(about: str) -> Any:
    return Annotated[int | None, typer.Option(metavar="N", help=about)]


def _flag(name: str, about: str) -> Any:
    """Declare a flag that is given or left open, and has no opposite."""
    return Annotated[bool | None, typer.Option(name, help=about)]


_OPTIONS: Mapping[str, Any] = {
    "task": _one("TASK", "What the model is to do: image-classification."),
    "budget": Budget,
    "size_budget": SizeBudget,
    "memory_budget": MemoryBudget,
    "max_drop": MaxDrop,
    "min_accuracy": MinAccuracy,
    "data": _one("PATH", "Labelled pictures: a folder, or a CSV or Parquet manifest."),
    "device": _one("NAMES", "Where the model is to run: host, or names of devices joined by commas (device:target)."),
    "must_run_on": MustRunOn,
    "profiles": ProfileFolders,
    "objective": _one(
        "NAME", "What candidates are compared by: accuracy, or robust-accuracy (bad light, motion, ...)."
    ),
    "prefer": Prefer,
    "licence": Licence,
    "confidence": Confidence,
    "candidates": _several(
        "NAMES", "Names, families or globs of models ('mobilenet_v2_*'); repeat, or join by commas."
    ),
    "training": _several("NAMES", "Training recipes: head, finetune_top, finetune_all; repeat, or join by commas."),
    "tune_training": _number("Fine-tune each card so often, an Optuna study turning the hyperparameters; best kept."),
    "compressions": _several("NAMES", "Compression recipes: float32, int8, ...; repeat, or join by commas."),
    "threads": _several("COUNTS", "CPU threads to measure with: a number or 'all'; repeat, or join by commas."),
    "catalog": _several("FILE", "Your own catalogue file (YAML); repeat for more."),
    "sampler": _one("NAME", "Order of the search: advisor, tpe, nsga2, gp or random."),
    "time_limit": _one("TIME", "Stop with the best answer so far after, such as 10min."),
    "max_trials": _number("Evaluate at most so many configurations."),
    "stop_below": _one(
        "SHARE",
        "Stop when an hour more is expected to add less than this share of the front: 0.5%, or never. "
        "Default: 0.5% from 100 configurations on.",
    ),
    "storage": _one("PLACE", "Where the study is kept: journal, sqlite, or postgresql://user@host/database."),
    "executor": _one("PLACE", "Where the work runs: local, ray, or ray://host:10001 (a Ray cluster)."),
    "workers": _number("Jobs side by side at most. Default: one a core."),
    "shared_folder": _one("DIR", "With ray: what every node sees under the same name; else files are sent."),
    "seed": _number("Seed of the split, of training and of the order. Default 0."),
    "out": _one("DIR", "Folder that takes the run. Default: runs."),
    "request": _one("FILE", "YAML file with the same keys as these options."),
    "offline": _flag("--offline", "Never open a connection."),
    "mirror": _one("PLACE", "Folder or address that holds weights, asked first."),
    "remeasure": _flag("--remeasure", "Time again what was timed on this machine before."),
}
"""Each option's declaration; without exception None where it is not given."""


def asks(command: Callable[..., None]) -> Callable[..., None]:
    """Give ``command(question, ...)`` the options of a question in place of its first parameter.

    Typer reads a command's options off its signature, so the two signatures are joined.
    """
    shared = [_parameter(name, declared) for name, declared in _OPTIONS.items()]
    first, *own = inspect.signature(command, eval_str=True).parameters.values()

    @functools.wraps(command)
    def joined(**given: Any) -> None:
        question = {name: _split(name, given.pop(name)) for name in _OPTIONS}
        command(**{first.name: question}, **given)

    parameters = [*shared, *(option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in own)]
    joined.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    joined.__annotations__ = {option.name: option.annotation for option in parameters}
    return joined


def _parameter(name: str, declared: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=declared)


def _split(name: str, value: Any) -> Any:
    return list(split_commas(value)) if name in JOINED and value else value

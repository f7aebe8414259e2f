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
    split,
)

Question = Mapping[str, Any]
"""What was given, by the names of :class:`advisor.search.request.Request`'s attributes; None is not given."""

JOINED = ("candidates", "training", "compressions", "threads", "must_run_on")
"""Options that may be repeated, or joined by commas."""


def _options(
    task: Annotated[str | None, typer.Option(help="What the model is to do: image-classification.")] = None,
    budget: Budget = None,
    size_budget: SizeBudget = None,
    memory_budget: MemoryBudget = None,
    max_drop: MaxDrop = None,
    min_accuracy: MinAccuracy = None,
    data: Annotated[str | None, typer.Option(help="Labelled pictures: a folder, or a CSV or Parquet manifest.")] = None,
    device: Annotated[
        str | None,
        typer.Option(help="Where the model is to run: host, or names of devices joined by commas (device:target)."),
    ] = None,
    must_run_on: MustRunOn = None,
    profiles: ProfileFolders = None,
    objective: Annotated[
        str | None,
        typer.Option(help="What candidates are compared by: accuracy, or robust-accuracy (bad light, motion, ...)."),
    ] = None,
    prefer: Prefer = None,
    licence: Licence = None,
    confidence: Confidence = None,
    candidates: Annotated[
        list[str] | None,
        typer.Option(help="Names, families or globs of models ('mobilenet_v2_*'); repeat, or join by commas."),
    ] = None,
    training: Annotated[
        list[str] | None,
        typer.Option(help="Training recipes: head, finetune_top, finetune_all; repeat, or join by commas."),
    ] = None,
    compressions: Annotated[
        list[str] | None, typer.Option(help="Compression recipes: float32, int8, ...; repeat, or join by commas.")
    ] = None,
    threads: Annotated[
        list[str] | None,
        typer.Option(help="CPU threads to measure with: a number or 'all'; repeat, or join by commas."),
    ] = None,
    catalog: Annotated[list[str] | None, typer.Option(help="Your own catalogue file (YAML); repeat for more.")] = None,
    sampler: Annotated[str | None, typer.Option(help="Order of the search: advisor, tpe, nsga2 or random.")] = None,
    time_limit: Annotated[
        str | None, typer.Option(help="Stop with the best answer so far after, such as 10min.")
    ] = None,
    max_trials: Annotated[int | None, typer.Option(help="Evaluate at most so many configurations.")] = None,
    stop_below: Annotated[
        str | None,
        typer.Option(
            help="Stop when an hour more is expected to add less than this share of the front: 0.5%, or never. "
            "Default: 0.5% from 100 configurations on."
        ),
    ] = None,
    storage: Annotated[
        str | None, typer.Option(help="Where the study is kept: journal, sqlite, or postgresql://user@host/database.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the split, of training and of the order. Default 0.")
    ] = None,
    out: Annotated[str | None, typer.Option(help="Folder that takes the run. Default: runs.")] = None,
    request: Annotated[str | None, typer.Option(help="YAML file with the same keys as these options.")] = None,
    offline: Annotated[bool | None, typer.Option("--offline", help="Never open a connection.")] = None,
    mirror: Annotated[str | None, typer.Option(help="Folder or address that holds weights, asked first.")] = None,
    remeasure: Annotated[
        bool | None, typer.Option("--remeasure", help="Time again what was timed on this machine before.")
    ] = None,
) -> None:
    """Hold the declarations; never called."""


def asks(command: Callable[..., None]) -> Callable[..., None]:
    """Give ``command(question, ...)`` the options of a question in place of its first parameter.

    Typer reads a command's options off its signature, so the two signatures are joined.
    """
    shared = list(inspect.signature(_options, eval_str=True).parameters.values())
    first, *own = inspect.signature(command, eval_str=True).parameters.values()

    @functools.wraps(command)
    def joined(**given: Any) -> None:
        question = {option.name: _split(option.name, given.pop(option.name)) for option in shared}
        command(**{first.name: question}, **given)

    parameters = [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in (*shared, *own)]
    joined.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    joined.__annotations__ = {option.name: option.annotation for option in parameters}
    return joined


def _split(name: str, value: Any) -> Any:
    return split(value) if name in JOINED and value else value

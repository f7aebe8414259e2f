"""The options of commands: how they are declared and completed, and those of several commands.

A command of ``api`` has its options from a table of ``core`` (:func:`annotations_of`,
:func:`declare_options`), so that help, completion and Python agree.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from advisor.cli._values import split_values
from advisor.core import (
    FORMS,
    SEARCH,
    TASKS,
    Option,
    OptionGroup,
    Table,
    list_choosable,
    show_flag,
)

Command = Callable[..., Any]

ONE_TEXT = "one text"
"""Marks an option that may be repeated although its value is one text, with commas.
Otherwise the last of several values would silently count alone.
"""


def option(metavar: str, text: str, *names: str, **more: Any) -> Any:
    """Declare an option: what stands for its value (nothing for a flag), its help,
    its names if they are others.
    """
    return typer.Option(*names, metavar=metavar or None, help=text, **more)


def of_output(metavar: str, text: str, *names: str) -> Any:
    """Declare an option of the group of the output."""
    return option(metavar, text, *names, rich_help_panel=OptionGroup.OUTPUT)


def argument(metavar: str, text: str, complete: Callable[[str], list[str]] | None = None) -> Any:
    """Declare an argument: what stands for it, its help, its completion."""
    return typer.Argument(metavar=metavar, help=text, autocompletion=complete)


def completion_of(name: str) -> Callable[[str], list[str]]:
    """Return the completion of an option of a search;
    of several names joined by commas, the last is completed.
    """

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{choice}" for choice in _list_matching(list_choices(name), last)]

    return complete


def list_choices(name: str) -> tuple[str, ...]:
    """Return the names that an option takes; none for an option that takes something else."""
    # Imported here, because a command must start in 0.3 s and seldom completes a name.
    if name in ("candidates", "card"):
        from advisor.catalog import Catalogue

        catalogue = Catalogue.load([])
        if name == "card":
            return tuple(catalogue)
        return (*catalogue.families, *catalogue)
    if name in ("device", "must_run_on"):
        from advisor.devices import device_names, load_known_devices

        return tuple(dict.fromkeys((*load_known_devices(()), *device_names())))
    if name == "compressions":
        return tuple(FORMS)
    if name == "task":
        return tuple(TASKS)
    if name == "training":
        return list_choosable()
    return SEARCH[name].choices if name in SEARCH else ()


def complete_runs(incomplete: str) -> list[str]:
    """Return the run folders below the folder that is named, ``runs`` by default."""
    folder = Path(incomplete.rpartition("/")[0] or "runs")
    # An error here would be printed into the line that the user types.
    with suppress(OSError):
        requests = sorted(folder.glob("*/request.yaml"))
        return _list_matching([str(path.parent) for path in requests], incomplete)
    return []


def _list_matching(names: Iterable[str], incomplete: str) -> list[str]:
    """Return the names that begin so, in small or capital letters;
    ``Pixel 8`` begins as ``pixel-8`` does.
    """
    begun = incomplete.casefold()
    return [name for name in names if name.casefold().startswith((begun, begun.replace(" ", "-")))]


Quiet = Annotated[
    bool, of_output("", "Show the answer and errors, but no progress.", "--quiet", "-q")
]
RunArgument = Annotated[str, argument("RUN", "A run folder, such as runs/latest.", complete_runs)]
AsJson = Annotated[bool, of_output("", "Print JSON.", "--json")]
Brief = Annotated[bool, of_output("", "Print only the first lines of the answer.", "--brief")]
Sort = Annotated[
    str,
    of_output(
        "COLUMNS",
        "Sort the table by these columns, joined by commas; one after '-' descends: --sort=-size.",
    ),
]
Filter = Annotated[
    list[str] | None,
    of_output(
        "CONDITION",
        "Show only rows such as 'size<5MB' or 'card=mobilenet*,lenet'; repeat for more. Signs: ="
        " != < <= > >=.",
        "--filter",
    ),
]
LogTo = Annotated[
    str | None,
    of_output(
        "PLACE",
        "Also log the answer to mlflow:ADDRESS, with the question, the figures, the front and the"
        " bundle.",
    ),
]
Format = Annotated[
    str, option("FORMAT", "Format of the output: text, markdown or json.", "--format")
]
Catalogs = Annotated[
    list[str] | None,
    option("FILE", "Catalogue file of your own (YAML); repeat for more.", "--catalog"),
]
ProfileFolders = Annotated[
    list[str] | None,
    option("DIR", "Folder of your own device profiles; repeat for more.", "--profiles"),
]
Mirror = Annotated[
    str | None, option("PLACE", "Folder or address of weights that is asked first.")
]
Offline = Annotated[bool, option("", "Open no connection.", "--offline")]
Shape = Annotated[
    str | None,
    option("SHAPE", "Shape of the first input, if the file leaves it open: 1,224,224,3."),
]
Xnnpack = Annotated[bool, option("", "Use XNNPACK where it applies.", "--xnnpack/--no-xnnpack")]
Mean = Annotated[
    str | None,
    option("NUMBERS", "Value subtracted from RGB 0 to 255, if no file states it: 127.5."),
]
Std = Annotated[str | None, option("NUMBERS", "Value that the difference is divided by: 127.5.")]


def annotations_of(table: Table, defaults: bool = True) -> Mapping[str, Any]:
    """Return the annotation of a parameter for each option;
    the help states defaults of a search if ``defaults``.
    """
    return {name: _annotate(name, row, defaults) for name, row in table.items()}


def _annotate(name: str, declared: Option, defaults: bool) -> Any:
    kind: Any = type(declared.default)
    callback = None
    marks = []
    if isinstance(declared.default, tuple):
        kind = list[str]
        callback = split_values if declared.joined else None
    elif declared.joined:
        kind = list[str]
        marks.append(ONE_TEXT)
    # Typer would also make a negative form of a flag that has no name.
    names = [show_flag(name)] if declared.default is False else []
    autocompletion = complete_runs if name == "resume" else completion_of(name)
    information = option(
        declared.metavar,
        declared.help if defaults else declared.text,
        *names,
        rich_help_panel=declared.group,
        callback=callback,
        autocompletion=autocompletion,
    )
    return Annotated[(kind | None, information, *marks)]


def declare_options(options: Mapping[str, Any]) -> Callable[[Command], Command]:
    """Declare options, by their annotations, before a command's own;
    it receives them as keywords, None by default.
    """

    def declare(command: Command) -> Command:
        parameters = []
        for name, annotation in options.items():
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters.append(inspect.Parameter(name, kind, default=None, annotation=annotation))
        for parameter in inspect.signature(command, eval_str=True).parameters.values():
            # The command receives the shared options in ``**given``, which Typer could not read.
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
                parameters.append(parameter)
        # Arguments come before options.
        parameters.sort(key=lambda parameter: parameter.kind)
        joining = _join_texts(command, parameters)
        joining.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return joining

    return declare


def _join_texts(command: Command, parameters: Sequence[inspect.Parameter]) -> Command:
    """Return a command that receives each option with :data:`ONE_TEXT` as one text."""
    joined = []
    for parameter in parameters:
        if ONE_TEXT in getattr(parameter.annotation, "__metadata__", ()):
            joined.append(parameter.name)

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> Any:
        for name in joined:
            # None, if the option is not given.
            if options[name]:
                options[name] = ",".join(options[name])
        return command(*arguments, **options)

    return run

"""``advisor data`` and ``advisor compress``: commands on your own images and files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from advisor.cli import options
from advisor.cli.commands import Commands
from advisor.cli.options import AsJson, Filter, Sort, annotations_of, channels, completion_of, split, takes
from advisor.cli.output import print_json, progress
from advisor.core.errors import ExitCode
from advisor.core.options import CheckDataKeywords, CompressKeywords, options_of

if TYPE_CHECKING:
    from advisor.compression.user_model.values import Compression, RecipeResult
    from advisor.engine.data_check import DataCheck


SHEET = "data-check.html"

commands = Commands(
    name="data",
    help="Find faults in your own images, and write a manifest without them.",
    short_help="Find faults in your own images.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@commands.callback()
def _only_group() -> None:
    """Keep ``check`` a sub-command; Typer merges a single one into its group."""


@commands.command("check", short_help="Find faults and write a manifest without them.")
@takes(annotations_of(options_of(CheckDataKeywords)))
def check(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="Folder of images, a CSV or Parquet manifest, or a COCO file.")
    ],
    *,
    html: Annotated[str, typer.Option(metavar="FILE", help="File for the contact sheet of the suspects.")] = SHEET,
    sort: Sort = "",
    only: Filter = None,
    as_json: AsJson = False,
    **given: Any,
) -> None:
    """Find faults in images and boxes: unreadable, repeated, wrong labels, unlike a phone's. No image is changed.

    Prints a table and writes a contact sheet of the suspects.

    Example: advisor data check photos/ --fix cleaned.csv
    """
    from advisor import api
    from advisor.reporting.data_check import FAULTS, print_checked

    rows = FAULTS.select(sort, only)
    with progress("reading the images") as tell:
        checked = api.check_data(data, tell=tell, **given)
        sheet = _written(checked, Path(html))
    shown = rows.of(checked.findings)
    if as_json:
        print_json(replace(checked, findings=shown).to_json())
    else:
        print_checked(checked, sheet, Path(given["fix"]) if given["fix"] else None, shown=shown)


def _written(checked: DataCheck, path: Path) -> Path:
    from advisor.core.errors import UsageError
    from advisor.reporting.data_check import render

    try:
        path.write_text(render(checked), encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"--html: '{path}' cannot be written: {error.strerror}", "name another file with --html"
        ) from None
    return path


FILES = options_of(CompressKeywords, "max_drop_points", "mean", "std", "learn_s")


@dataclass(frozen=True)
class CompressOptions:
    """The options of ``advisor compress`` that it parses itself."""

    recipe: Annotated[
        list[str],
        typer.Option(
            "--recipe",
            metavar="NAMES",
            help="Compression recipes, such as int8,rounded; repeat, or join by commas.",
            autocompletion=completion_of("compressions"),
        ),
    ]
    max_drop: Annotated[
        str | None,
        typer.Option(metavar="POINTS", help="Points of accuracy that a file may lose, such as 0.5pt (needs --data)."),
    ] = None
    mean: options.Mean = None
    std: options.Std = None
    latency: Annotated[bool, typer.Option("--latency/--no-latency", help="Measure the latency of the files.")] = True
    time_limit: Annotated[
        str,
        typer.Option(metavar="TIME", help="Time limit of a recipe that trains; the best result so far is used."),
    ] = "10min"
    sort: options.Sort = ""
    only: options.Filter = None
    as_json: options.AsJson = False


@takes(annotations_of(FILES))
def compress(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A float .tflite file.")],
    *,
    asked: CompressOptions,
    **given: Any,
) -> None:
    """Make compressed files of a float .tflite file and measure what each costs.

    A classifier or detector of images needs nothing else. Any other model needs --samples.

    Exit code 3: no file could be made that stays within --max-drop.

    Example: advisor compress model.tflite --recipe int8,float16 --data photos/ --max-drop 0.5pt
    """
    from advisor import api
    from advisor.core.units import points, seconds
    from advisor.reporting.compression import FORMS

    rows = FORMS.select(asked.sort, asked.only)

    with progress(f"reading {model}") as tell:
        found = api.compress(
            model,
            split(asked.recipe) or (),
            max_drop_points=points(asked.max_drop, "--max-drop") if asked.max_drop else None,
            mean=channels(asked.mean, "--mean"),
            std=channels(asked.std, "--std"),
            latency=asked.latency,
            learn_s=seconds(asked.time_limit, "--time-limit"),
            tell=tell,
            **given,
        )
    _show(found, rows.of(found.forms), asked.as_json)
    if not found.good:
        raise typer.Exit(ExitCode.UNSATISFIED)


def _show(found: Compression, shown: Sequence[RecipeResult], as_json: bool) -> None:
    if as_json:
        from advisor.reporting.text import finite

        print_json(finite(replace(found, forms=tuple(shown)).to_json()))
        return
    from advisor.reporting.compression import print_compression

    print_compression(found, shown=shown)

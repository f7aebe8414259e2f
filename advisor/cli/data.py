"""``advisor data``: find faults in a set of images before a model learns from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from advisor.cli.commands import Commands
from advisor.cli.options import AsJson, Filter, Sort, annotations_of, takes
from advisor.cli.output import print_json
from advisor.cli.progress import progress
from advisor.core.options import CheckDataKeywords, options_of

if TYPE_CHECKING:
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

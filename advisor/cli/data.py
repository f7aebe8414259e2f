"""``advisor data``: find faults in a set of images before a model learns from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from advisor.cli import completion
from advisor.cli.commands import Commands
from advisor.cli.options import AsJson, Catalogs, Filter, Mirror, Offline, Sort
from advisor.cli.output import print_json
from advisor.cli.progress import progress
from advisor.core.tasks import DEFAULT_TASK, needs

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


@dataclass(frozen=True)
class CheckOptions:
    """The options of ``advisor data check``."""

    task: Annotated[
        str,
        typer.Option(
            metavar="TASK",
            help=f"Task; {needs()}.",
            autocompletion=completion.of("task"),
        ),
    ] = DEFAULT_TASK
    fix: Annotated[str, typer.Option(metavar="FILE", help="Manifest (CSV) to write without the suspects.")] = ""
    html: Annotated[str, typer.Option(metavar="FILE", help="File for the contact sheet of the suspects.")] = SHEET
    card: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Model card whose features judge the labels. Default: the best on this machine.",
            autocompletion=completion.of("card"),
        ),
    ] = ""
    labels: Annotated[
        bool, typer.Option("--labels/--no-labels", help="Look for wrong labels and crops with a network.")
    ] = True
    mirror: Mirror = None
    offline: Offline = False
    catalog: Catalogs = None
    sort: Sort = ""
    only: Filter = None
    as_json: AsJson = False


@commands.command("check", short_help="Find faults and write a manifest without them.")
def check(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="Folder of images, a CSV or Parquet manifest, or a COCO file.")
    ],
    *,
    asked: CheckOptions,
) -> None:
    """Find faults in images and boxes: unreadable, repeated, wrong labels, unlike a phone's. No image is changed.

    Prints a table and writes a contact sheet of the suspects.

    Example: advisor data check photos/ --fix cleaned.csv
    """
    from advisor import api
    from advisor.reporting.data_check import FAULTS, print_checked

    rows = FAULTS.select(asked.sort, asked.only)
    with progress("reading the images") as tell:
        checked = api.check_data(
            data,
            labels=asked.labels,
            card=asked.card,
            catalog=asked.catalog or (),
            offline=asked.offline,
            mirror=asked.mirror or "",
            fix=asked.fix,
            tell=tell,
            task=asked.task,
        )
        sheet = _written(checked, Path(asked.html))
    shown = rows.of(checked.findings)
    if asked.as_json:
        print_json(replace(checked, findings=shown).to_json())
    else:
        print_checked(checked, sheet, Path(asked.fix) if asked.fix else None, shown=shown)


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

"""``advisor data``: look at a set of pictures before anything is learnt from it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from advisor.cli.output import print_json

if TYPE_CHECKING:
    from advisor.engine.data_check import Checked

SHEET = "data-check.html"

commands = typer.Typer(
    name="data",
    help="Your own pictures: what is wrong with them, and a manifest without it.",
    short_help="Your own pictures: what is wrong with them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@commands.callback()
def _only_group() -> None:
    """Keep ``check`` a command of its own, though it is the only one."""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(commands)


@commands.command("check")
def check(
    data: Annotated[str, typer.Argument(metavar="DATA", help="Folder of pictures, or a CSV or Parquet manifest.")],
    fix: Annotated[str, typer.Option(metavar="FILE", help="Write a manifest (CSV) that leaves the suspects out.")] = "",
    html: Annotated[str, typer.Option(metavar="FILE", help="Where the contact sheet of the suspects goes.")] = SHEET,
    card: Annotated[
        str, typer.Option(metavar="NAME", help="Model card whose features judge the labels. Default: the best here.")
    ] = "",
    labels: Annotated[
        bool, typer.Option("--labels/--no-labels", help="Look for wrong labels and crops with a network.")
    ] = True,
    mirror: Annotated[
        str, typer.Option(metavar="PLACE", help="Folder or address that holds weights, asked first.")
    ] = "",
    offline: Annotated[bool, typer.Option("--offline", help="Never open a connection.")] = False,
    catalog: Annotated[
        list[str] | None, typer.Option("--catalog", metavar="FILE", help="Your own catalogue file (YAML).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")] = False,
) -> None:
    """Find what is wrong with pictures: unreadable, repeated, wrongly labelled, unlike a phone's. None is changed.

    Prints a table and writes a contact sheet of the suspects.

    Example: advisor data check photos/ --fix cleaned.csv
    """
    from advisor import api
    from advisor.cli.progress import progress
    from advisor.datasets.checks.fix import writable

    target = writable(Path(fix)) if fix else None
    with progress() as say:
        checked = api.check_data(
            data, labels=labels, card=card, catalog=catalog or (), offline=offline, mirror=mirror, say=say
        )
        sheet = _written(checked, Path(html))
    kept = checked.write_manifest(target) if target else None
    if as_json:
        print_json(checked.to_json())
        return
    from advisor.reporting.contact_sheet.table import print_checked

    print_checked(checked, sheet, target, kept)


def _written(checked: Checked, path: Path) -> Path:
    from advisor.core.errors import UsageError
    from advisor.reporting.contact_sheet.page import render

    try:
        path.write_text(render(checked), encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"--html: '{path}' cannot be written: {error.strerror}", "give another place with --html"
        ) from None
    return path

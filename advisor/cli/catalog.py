"""``advisor catalog``: list, show, fetch, check and add model cards."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from advisor.cli.options import decimals, split_commas
from advisor.cli.output import print_json
from advisor.cli.progress import download_bars, progress
from advisor.core.exits import ExitCode

if TYPE_CHECKING:
    from advisor.catalog.user_models.description import Given, Inspected

SCHEMA_VERSION = 1

Catalogs = Annotated[
    list[str] | None, typer.Option("--catalog", metavar="FILE", help="Your own catalogue file (YAML); repeat for more.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Mirror = Annotated[str | None, typer.Option(metavar="PLACE", help="Folder or address that holds weights, asked first.")]

commands = typer.Typer(
    name="catalog",
    help="The model cards: list, show, check them, fetch their weights, add a model of your own.",
    short_help="The model cards, and their weights.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(commands)


@commands.command("list")
def list_(
    family: Annotated[
        list[str] | None, typer.Option(metavar="NAMES", help="Only this family; repeat, or join by commas.")
    ] = None,
    max_params: Annotated[str | None, typer.Option(metavar="COUNT", help="Parameters at most, such as 5M.")] = None,
    max_macs: Annotated[
        str | None, typer.Option(metavar="COUNT", help="Multiply-accumulates at most, such as 300M.")
    ] = None,
    licence: Annotated[
        str, typer.Option(metavar="NAME", help="Only this licence; globs such as 'apache*' are taken.")
    ] = "",
    available: Annotated[
        bool, typer.Option("--available", help="Only cards whose weights are on this machine.")
    ] = False,
    mirror: Mirror = None,
    catalog: Catalogs = None,
    as_json: AsJson = False,
) -> None:
    """List the model cards with published accuracy, size and where their weights come from.

    Example: advisor catalog list --family mobilenet_v2 --max-macs 300M
    """
    from advisor.api import catalog as cards

    with progress() as tell:
        rows = cards.list_cards(
            family=split_commas(family),
            max_params=max_params,
            max_macs=max_macs,
            licence=licence,
            available=available,
            mirror=mirror,
            catalog=catalog or (),
            tell=tell,
        )
    if as_json:
        print_json({"schema_version": SCHEMA_VERSION, "cards": [row.to_json() for row in rows]})
        return
    from advisor.cli.catalog_table import print_rows

    print_rows(rows)


@commands.command("show")
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of a card.")],
    catalog: Catalogs = None,
    as_json: AsJson = False,
) -> None:
    """Show one card whole: counts, published figures with their sources, and every place of its weights.

    Example: advisor catalog show mobilenet_v2_1.0_224
    """
    from advisor.api import catalog as cards
    from advisor.catalog import listing

    card = cards.show(name, catalog=catalog or ())
    here = listing.is_here(card)
    if as_json:
        print_json({"schema_version": SCHEMA_VERSION, "card": {**listing.card_json(card), "weights_here": here}})
        return
    from advisor.cli.catalog_table import print_card

    print_card(card, here)


@commands.command("fetch")
def fetch(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Names, families or globs.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every card.")] = False,
    mirror: Mirror = None,
    offline: Annotated[bool, typer.Option("--offline", help="Never open a connection.")] = False,
    catalog: Catalogs = None,
    as_json: AsJson = False,
) -> None:
    """Fill the cache with weights, so that later searches need no network.

    Exit code 0: the cache holds the weights of every card asked for. 2: an unknown name. 3: some could not be had; the
    reasons are printed, and what was fetched is kept.

    Example: advisor catalog fetch mobilenet_v2 'efficientnet_lite*'
    """
    from advisor.api import catalog as cards

    wanted = split_commas(names)
    with download_bars() as advance:
        fetched = cards.fetch(
            *wanted, everything=everything, mirror=mirror, offline=offline, catalog=catalog or (), progress=advance
        )
    if as_json:
        from dataclasses import asdict

        rows = [{**asdict(entry), "path": str(entry.path or "")} for entry in fetched]
        print_json({"schema_version": SCHEMA_VERSION, "fetched": rows})
    else:
        from advisor.cli.catalog_table import print_fetched

        print_fetched(fetched)
    if not all(entry.cached for entry in fetched):
        raise typer.Exit(ExitCode.UNSATISFIED)


@commands.command("check")
def check(
    catalog: Catalogs = None,
    build: Annotated[bool, typer.Option("--build", help="Build every graph too and count it: a minute.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check every card: schema, names, hashes, and published counts (parameters equal, MACs within 2 %).

    A difference that a note on the card explains passes. Exit code 0: all hold, 2: some do not. Where a file cannot be
    read, or its text is wrong, that is said at once and no graph is built.

    Example: advisor catalog check --catalog team.yaml
    """
    from advisor.api import catalog as cards

    with progress() as tell:
        checked = cards.check(catalog=catalog or (), build=build, tell=lambda name: tell(f"built {name}"))
    if as_json:
        from dataclasses import asdict

        found = {
            "cards": checked.cards,
            "built": checked.built,
            "verified": asdict(checked.verified),
            "findings": [asdict(finding) for finding in checked.findings],
        }
        print_json({"schema_version": SCHEMA_VERSION, **found})
    else:
        from advisor.cli.catalog_table import print_checked

        print_checked(checked, build)
    if checked.errors:
        raise typer.Exit(ExitCode.USAGE)


@commands.command("add")
def add(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A .keras or .tflite file, or a SavedModel's folder.")],
    name: Annotated[str, typer.Option(metavar="NAME", help="Name of the card. Default: that of the file.")] = "",
    labels: Annotated[str, typer.Option(metavar="FILE", help="File with one label a line, or 'imagenet'.")] = "",
    mean: Annotated[
        str | None,
        typer.Option(metavar="NUMBERS", help="Subtracted from RGB 0..255: one number, or three joined by commas."),
    ] = None,
    std: Annotated[
        str | None, typer.Option(metavar="NUMBERS", help="What the difference is divided by, like --mean.")
    ] = None,
    input_size: Annotated[
        int | None, typer.Option(metavar="PIXELS", help="Side of the input where the model leaves it open.")
    ] = None,
    licence: Annotated[str, typer.Option(metavar="NAME", help="Licence of the model.")] = "",
    family: Annotated[str, typer.Option(metavar="NAME", help="Family of the card.")] = "own",
    top1: Annotated[
        str, typer.Option(metavar="PERCENT", help="Its known top-1, such as 71.8%, for searches without pictures.")
    ] = "",
    into: Annotated[
        str | None, typer.Option(metavar="FILE", help="Catalogue file that takes the card. Default: your own.")
    ] = None,
) -> None:
    """Make a model of your own a card, checked by running it; every search then finds it.

    Labels and normalization are read from the file's metadata, else asked for. No code in the file is run.

    Example: advisor catalog add net.keras --labels labels.txt --mean 127.5 --std 127.5
    """
    from advisor.catalog.user_models import import_model
    from advisor.catalog.user_models.description import Given
    from advisor.cli.catalog_table import print_added
    from advisor.core import units

    given = Given(
        name=name,
        labels=labels,
        mean=decimals(mean, "--mean") or (),
        std=decimals(std, "--std") or (),
        licence=licence,
        family=family,
        top1=units.percent(top1, "--top1") if top1 else None,
    )
    with ExitStack() as stack:
        with progress() as tell:
            tell(f"reading {Path(file).name}")
            inspected = stack.enter_context(import_model.inspect(Path(file), input_size))
        print_added(import_model.add(inspected, _completed(inspected, given), Path(into) if into else None))


def _completed(inspected: Inspected, given: Given) -> Given:
    """Ask for what neither the file nor the flags say, where somebody is there to answer."""
    from dataclasses import replace

    from advisor.catalog.user_models.description import missing

    if not sys.stdin.isatty():
        return given
    answers = {lacking: str(typer.prompt(_QUESTIONS[lacking], err=True)) for lacking in missing(inspected, given)}
    return replace(
        given,
        labels=answers.get("labels", given.labels),
        mean=decimals(answers.get("mean"), "--mean") or given.mean,
        std=decimals(answers.get("std"), "--std") or given.std,
    )


_QUESTIONS = {
    "labels": "Labels: a file with one a line, or 'imagenet'",
    "mean": "Mean that is subtracted from RGB 0..255 (0 where the model scales by itself)",
    "std": "Standard deviation that the difference is divided by (1 where the model scales by itself)",
}

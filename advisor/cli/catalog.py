"""``advisor catalog``: list, show, fetch, check and add model cards."""

import sys
from dataclasses import dataclass
from typing import Annotated

import typer

from advisor.cli.commands import Commands
from advisor.cli.options import AsJson, Catalogs, Filter, Mirror, Offline, Sort, channels, completion_of, split
from advisor.cli.output import download_bars, print_json, progress
from advisor.core.errors import ExitCode

SCHEMA_VERSION = 1

commands = Commands(
    name="catalog",
    help="List, show and check the model cards, fetch their weights, add a model of your own.",
    short_help="List the model cards and fetch their weights.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@commands.command("list", short_help="List the model cards.")
def list_(
    mirror: Mirror = None,
    catalog: Catalogs = None,
    sort: Sort = "",
    only: Filter = None,
    as_json: AsJson = False,
) -> None:
    """List the model cards with published accuracy, size and the sources of their weights.

    Example: advisor catalog list --filter family=mobilenet_v2 --filter 'macs<300M' --sort=-top1
    """
    from advisor import catalog as cards
    from advisor.reporting.listings import CARDS, print_cards

    selected = CARDS.select(sort, only)
    with progress("reading the catalogue") as tell:
        rows = selected.of(cards.list_cards(mirror=mirror, catalog=catalog or (), tell=tell))
    if as_json:
        print_json({"schema_version": SCHEMA_VERSION, "cards": [row.to_json() for row in rows]})
    else:
        print_cards(rows)


@commands.command("show", short_help="Show one card with its sources.")
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of a card.", autocompletion=completion_of("card"))],
    catalog: Catalogs = None,
    as_json: AsJson = False,
) -> None:
    """Show one card: counts, published figures with their sources, and the sources of its weights.

    Example: advisor catalog show mobilenet_v2_1.0_224
    """
    from advisor import catalog as cards
    from advisor.catalog import listing

    card = cards.show(name, catalog=catalog or ())
    here = listing.is_here(card)
    if as_json:
        print_json({"schema_version": SCHEMA_VERSION, "card": {**listing.card_json(card), "weights_here": here}})
        return
    from advisor.reporting.listings import print_card

    print_card(card, here)


@commands.command("fetch", short_help="Fetch weights into the cache.")
def fetch(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help="Names of cards, families or globs.",
            autocompletion=completion_of("candidates"),
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Fetch the weights of every card.")] = False,
    mirror: Mirror = None,
    offline: Offline = False,
    catalog: Catalogs = None,
    as_json: AsJson = False,
) -> None:
    """Fetch weights into the cache, so that later searches need no network.

    Exit code 0: the cache holds the weights of every named card. 2: a name is unknown. 3: some weights could not be
    fetched; the reasons are printed, and the other weights are kept.

    Example: advisor catalog fetch mobilenet_v2 'efficientnet_lite*'
    """
    from advisor import catalog as cards

    wanted = split(names) or ()
    with download_bars() as advance:
        fetched = cards.fetch(
            *wanted, everything=everything, mirror=mirror, offline=offline, catalog=catalog or (), progress=advance
        )
    if as_json:
        from dataclasses import asdict

        rows = [{**asdict(entry), "path": str(entry.path or "")} for entry in fetched]
        print_json({"schema_version": SCHEMA_VERSION, "fetched": rows})
    else:
        from advisor.reporting.listings import print_fetched

        print_fetched(fetched)
    if not all(entry.cached for entry in fetched):
        raise typer.Exit(ExitCode.UNSATISFIED)


@commands.command("check", short_help="Check every card against its published counts.")
def check(
    catalog: Catalogs = None,
    build: Annotated[
        bool, typer.Option("--build", help="Also build every graph and count its parameters: takes minutes.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check every card: schema, names, hashes, and published counts (parameters equal, MACs within 2 %).

    A difference passes if a note on the card explains it. Exit code 0: all cards pass. 2: some do not. If a file is
    invalid, no graph is built.

    Example: advisor catalog check --catalog team.yaml
    """
    from advisor import catalog as cards

    with progress("checking the cards") as tell:
        checked = cards.check(catalog=catalog or (), build=build, tell=lambda name: tell(f"built {name}"))
    if as_json:
        from dataclasses import asdict

        print_json({"schema_version": SCHEMA_VERSION, **asdict(checked)})
    else:
        from advisor.reporting.listings import print_checked

        print_checked(checked, build)
    if checked.errors:
        raise typer.Exit(ExitCode.USAGE)


@dataclass(frozen=True)
class AddOptions:
    """The options of ``advisor catalog add``."""

    name: Annotated[str, typer.Option(metavar="NAME", help="Name of the card. Default: the name of the file.")] = ""
    labels: Annotated[str, typer.Option(metavar="FILE", help="File with one label per line, or 'imagenet'.")] = ""
    mean: Annotated[
        str | None,
        typer.Option(metavar="NUMBERS", help="Value subtracted from RGB 0..255: one number, or three with commas."),
    ] = None
    std: Annotated[
        str | None, typer.Option(metavar="NUMBERS", help="Value that the difference is divided by, like --mean.")
    ] = None
    input_size: Annotated[
        int | None, typer.Option(metavar="PIXELS", help="Side of the input, if the model leaves it open.")
    ] = None
    licence: Annotated[str, typer.Option(metavar="NAME", help="Licence of the model.")] = ""
    family: Annotated[str, typer.Option(metavar="NAME", help="Family of the card.")] = "own"
    top1: Annotated[
        str, typer.Option(metavar="PERCENT", help="Known top-1, such as 71.8%, for searches without images.")
    ] = ""
    as_it_is: Annotated[
        bool, typer.Option("--as-it-is", help="Never retrain or compress the model. Quantized files never are.")
    ] = False
    into: Annotated[
        str | None, typer.Option(metavar="FILE", help="Catalogue file that takes the card. Default: your own.")
    ] = None
    data: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="Your labelled images, or with boxes for a detector: measures accuracy."),
    ] = None
    as_json: AsJson = False


@commands.command("add", short_help="Make a card of your own model.")
def add(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A .keras, .onnx, .pt2 or .tflite file, a SavedModel's folder, a handle of TensorFlow Hub, timm:NAME "
            "or torchvision:NAME.",
        ),
    ],
    *,
    asked: AddOptions,
) -> None:
    """Make a card of your own model and check the model by running it. Every later search finds the card.

    The model is a classifier, or a detector that ends in TFLite_Detection_PostProcess. A quantized file is never
    retrained or compressed. Labels and normalization are read from the file's metadata. Missing values are asked for.
    No code in the file is run.

    Example: advisor catalog add net.keras --labels labels.txt --mean 127.5 --std 127.5
    """
    from advisor import catalog as cards
    from advisor.core import units
    from advisor.reporting.listings import print_added_card, print_judged
    from advisor.reporting.text import finite

    with progress(f"reading {file}") as tell:
        added = cards.add(
            file,
            name=asked.name,
            labels=asked.labels,
            mean=channels(asked.mean, "--mean") or (),
            std=channels(asked.std, "--std") or (),
            input_size=asked.input_size,
            licence=asked.licence,
            family=asked.family,
            top1=units.percent(asked.top1, "--top1") if asked.top1 else None,
            as_it_is=asked.as_it_is,
            into=asked.into,
            ask=_ask if sys.stdin.isatty() and not asked.as_json else None,
            tell=tell,
        )
    if not asked.as_json:
        print_added_card(added)
    from advisor.api.models import judge

    with progress("measuring the accuracy") as tell:
        judged = judge(added.model, asked.data, tell=tell) if asked.data else None
    if asked.as_json:
        from dataclasses import asdict

        from advisor.catalog import listing

        places = {"catalogue": str(added.catalogue), "model": str(added.model)}
        accuracy = {"images": judged[0], **asdict(judged[1])} if judged else None
        card = listing.card_json(added.card)
        print_json(finite({"schema_version": SCHEMA_VERSION, "card": card, **places, "accuracy": accuracy}))
    elif judged:
        print_judged(added.card, *judged)


def _ask(value: str) -> str:
    return str(typer.prompt(_QUESTIONS[value], err=True))


_QUESTIONS = {
    "labels": "Labels: a file with one label per line, or 'imagenet'",
    "mean": "Mean that is subtracted from RGB 0..255 (0 if the model scales its input)",
    "std": "Standard deviation that the difference is divided by (1 if the model scales its input)",
}

"""``advisor catalog``: list, show, check and fetch model cards, and make one of your own model.

``_main.py`` registers the group; ``_card_output.py`` prints the results.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from advisor.cli import _options as options
from advisor.cli._groups import Commands
from advisor.cli._options import argument, completion_of, option
from advisor.cli._output import download_bars, print_document, progress
from advisor.cli._values import parse_channels, split_values
from advisor.core import (
    ExitCode,
    UsageError,
)

if TYPE_CHECKING:
    from advisor.catalog import ImportedModel

cards_app = Commands.group(
    "catalog",
    "List, show and check the model cards, fetch their weights, add a model of your own.",
    "List the model cards and fetch their weights.",
)

AS_GIVEN = ("name", "labels", "input_size", "licence", "family", "as_it_is", "task", "into")
"""The options of ``advisor catalog add`` that the function takes as they are."""

QUESTIONS = {
    "labels": "Labels: a file with one label per line, or 'imagenet'",
    "mean": "Mean that is subtracted from RGB 0..255 (0 if the model scales its input)",
    "std": (
        "Standard deviation that the difference is divided by (1 if the model scales its input)"
    ),
}
"""Questions for values that no file states."""


@cards_app.command("list", short_help="List the model cards.")
def list_cards(
    mirror: options.Mirror = None,
    catalog: options.Catalogs = None,
    sort: options.Sort = "",
    only: options.Filter = None,
    front: Annotated[
        str,
        option(
            "DEVICE",
            "Only the cards that no other card of the list beats in both published top-1 and"
            " latency on DEVICE. "
            "'host' times them with random weights, in a minute or two; other devices are"
            " predicted.",
            "--front",
        ),
    ] = "",
    profiles: options.ProfileFolders = None,
    as_json: options.AsJson = False,
) -> None:
    """List the model cards with published accuracy, size and the sources of their weights.

    Example: advisor catalog list --filter family=mobilenet_v2 --filter 'macs<300M' --sort=-top1

    Example: advisor catalog list --front raspberry-pi-5
    """
    from advisor import api, catalog as cards
    from advisor.cli._card_output import CARDS, print_cards

    selected = CARDS.select(sort, only)
    with progress("reading the catalogue") as tell:
        rows = selected.of(cards.list_cards(mirror=mirror, catalog=catalog or (), tell=tell))
        if front:
            rows = api.card_front(front, rows=rows, profiles=profiles or (), tell=tell)
            # The front is in the order of latency, which only --sort replaces.
            if sort:
                rows = selected.of(rows)
    if as_json:
        print_document(cards=[row.to_json() for row in rows])
    else:
        print_cards(rows)


@cards_app.command("show", short_help="Show one card with its sources.")
def show_card(
    name: Annotated[str, argument("NAME", "Name of a card.", completion_of("card"))],
    catalog: options.Catalogs = None,
    as_json: options.AsJson = False,
) -> None:
    """Show one card: counts, published figures with their sources, and the sources of its weights.

    Example: advisor catalog show mobilenet_v2_1.0_224
    """
    from advisor import catalog as cards
    from advisor.catalog import listing
    from advisor.cli._card_output import print_card

    card = cards.show(name, catalog=catalog or ())
    on_disk = listing.is_here(card)
    if as_json:
        print_document(card={**listing.card_json(card), "weights_here": on_disk})
    else:
        print_card(card, on_disk)


@cards_app.command("fetch", short_help="Fetch weights into the cache.")
def fetch(
    names: Annotated[
        list[str] | None,
        argument("NAME", "Names of cards, families or globs.", completion_of("candidates")),
    ] = None,
    everything: Annotated[bool, option("", "Fetch the weights of every card.", "--all")] = False,
    mirror: options.Mirror = None,
    offline: options.Offline = False,
    catalog: options.Catalogs = None,
    as_json: options.AsJson = False,
) -> None:
    """Fetch weights into the cache, so that later searches need no network.

    Exit code 0: the cache holds the weights of every named card. 2: a name is unknown. 3: some
    weights could not be fetched; the reasons are printed, and the other weights are kept.

    Example: advisor catalog fetch mobilenet_v2 'efficientnet_lite*'
    """
    from advisor import catalog as cards
    from advisor.cli._card_output import print_fetched

    wanted = split_values(names) or ()
    files = catalog or ()
    with download_bars() as advance:
        fetched = cards.fetch(
            *wanted,
            everything=everything,
            mirror=mirror,
            offline=offline,
            catalog=files,
            progress=advance,
        )
    if as_json:
        print_document(
            fetched=[{**asdict(entry), "path": str(entry.path or "")} for entry in fetched]
        )
    else:
        print_fetched(fetched)
    if not all(entry.cached for entry in fetched):
        raise typer.Exit(ExitCode.UNSATISFIED)


@cards_app.command("check", short_help="Check every card against its published counts.")
def check(
    catalog: options.Catalogs = None,
    build: Annotated[
        bool,
        option("", "Also build every graph and count its parameters: takes minutes.", "--build"),
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Check every card: schema, names, hashes,
    and published counts (parameters equal, MACs within 2 %).

    A difference passes if a note on the card explains it. Exit code 0: all cards pass. 2: some do
    not. If a file is invalid, no graph is built.

    Example: advisor catalog check --catalog team.yaml
    """
    from advisor import catalog as cards
    from advisor.cli._card_output import print_checked_cards

    with progress("checking the cards") as tell:
        checked = cards.check(
            catalog=catalog or (), build=build, tell=lambda name: tell(f"built {name}")
        )
    if as_json:
        print_document(**asdict(checked))
    else:
        print_checked_cards(checked, build)
    if checked.errors:
        typer.echo("hint:  correct the places that are named, then check again", err=True)
        raise typer.Exit(ExitCode.USAGE)


@dataclass(frozen=True)
class AddOptions:
    """The options of ``advisor catalog add``."""

    name: Annotated[str, option("NAME", "Name of the card. Default: the name of the file.")] = ""
    labels: Annotated[str, option("FILE", "File with one label per line, or 'imagenet'.")] = ""
    mean: Annotated[
        str | None,
        option("NUMBERS", "Value subtracted from RGB 0..255: one number, or three with commas."),
    ] = None
    std: Annotated[
        str | None, option("NUMBERS", "Value that the difference is divided by, like --mean.")
    ] = None
    input_size: Annotated[
        int | None, option("PIXELS", "Side of the input, if the model leaves it open.")
    ] = None
    licence: Annotated[str, option("NAME", "Licence of the model.")] = ""
    family: Annotated[str, option("NAME", "Family of the card.")] = "own"
    top1: Annotated[
        str, option("PERCENT", "Known top-1, such as 71.8%, for searches without images.")
    ] = ""
    as_it_is: Annotated[
        bool,
        option(
            "", "Never retrain or compress the model. Quantized files never are.", "--as-it-is"
        ),
    ] = False
    task: Annotated[
        str,
        option("NAME", "What a model that ends in logits does. Default: image-classification."),
    ] = ""
    into: Annotated[
        str | None, option("FILE", "Catalogue file that takes the card. Default: your own.")
    ] = None
    data: Annotated[
        str | None,
        option("PATH", "Your labelled images, or with boxes for a detector: measures accuracy."),
    ] = None
    as_json: options.AsJson = False


@cards_app.command("add", short_help="Make a card of your own model.")
def add_card(
    file: Annotated[
        str,
        argument(
            "FILE",
            "A .keras, .onnx, .pt2 or .tflite file, a SavedModel's folder, a handle of TensorFlow"
            " Hub, timm:NAME or "
            "torchvision:NAME.",
        ),
    ],
    *,
    asked: AddOptions,
) -> None:
    """Make a card of your own model and check the model by running it.
    Every later search finds the card.

    The model is a classifier, a tagger that ends in sigmoids, or a detector that ends in
    TFLite_Detection_PostProcess. A quantized file is never retrained or compressed. Labels and
    normalization are read from the file's metadata. Missing values are asked for. No code in the
    file is run.

    Example: advisor catalog add net.keras --labels labels.txt --mean 127.5 --std 127.5
    """
    from advisor import catalog as cards
    from advisor.api import judge, warn_of_input
    from advisor.cli._card_output import print_added_card
    from advisor.core import visible

    settings = _parse_settings(asked)
    # An address of a store cannot be looked at so cheaply; reading it says what is wrong.
    if asked.data and "://" not in asked.data and not Path(asked.data).exists():
        raise UsageError(
            f"--data: '{asked.data}' does not exist", "name a folder with labelled images"
        )
    with progress(f"reading {file}") as tell:
        added = cards.add(file, tell=tell, **settings)
    warning = added.warning
    if warning and asked.data:
        warning = warn_of_input(added.card, asked.data)
    if warning:
        typer.echo(visible(f"warning: {warning}"), err=True)
    if not asked.as_json:
        print_added_card(added, asked.data)
    judged = None
    if asked.data:
        with progress("measuring the accuracy") as tell:
            judged = judge(added.model, asked.data, tell=tell)
    _print_judged_card(added, judged, warning, asked.as_json)


def _parse_settings(asked: AddOptions) -> dict[str, Any]:
    """Return the keywords of :func:`advisor.catalog.add`, values of its options parsed."""
    from advisor.core import units

    settings = {name: getattr(asked, name) for name in AS_GIVEN}
    settings["mean"] = parse_channels(asked.mean, "--mean") or ()
    settings["std"] = parse_channels(asked.std, "--std") or ()
    settings["top1"] = units.parse_percent(asked.top1, "--top1") if asked.top1 else None
    # A script must get an error and not wait for an answer that nobody gives.
    settings["ask"] = _ask_value if sys.stdin.isatty() and not asked.as_json else None
    return settings


def _ask_value(value: str) -> str:
    """Ask the person at the terminal for a value that no file states."""
    return str(typer.prompt(QUESTIONS[value], err=True))


def _print_judged_card(
    added: ImportedModel, judged: tuple[str, Any] | None, warning: str, as_json: bool
) -> None:
    """Print the accuracy of the new card if it was measured; ``as_json``, the card as well."""
    from advisor.catalog import listing
    from advisor.cli._card_output import print_judged

    if not as_json:
        if judged is not None:
            images, agreement = judged
            print_judged(added.card, images, agreement.accuracy)
        return
    accuracy = None
    if judged is not None:
        images, agreement = judged
        accuracy = {"images": images, **asdict(agreement)}
    print_document(
        card=listing.card_json(added.card),
        catalogue=str(added.catalogue),
        model=str(added.model),
        accuracy=accuracy,
        warning=warning,
    )

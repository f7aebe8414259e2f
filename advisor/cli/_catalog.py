"""``advisor catalog`` and ``advisor devices``:
list, show, check, fetch and add model cards and device profiles.
"""

import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from advisor.cli import _options as options
from advisor.cli._groups import Commands
from advisor.cli._options import annotations_of, argument, completion_of, declare_options, option
from advisor.cli._output import download_bars, print_document, progress
from advisor.cli._values import parse_channels, split_values
from advisor.core import (
    AddPhoneKeywords,
    DeviceBenchmarkKeywords,
    ExitCode,
    StageError,
    UsageError,
    options_of,
)

cards_app = Commands.group(
    "catalog",
    "List, show and check the model cards, fetch their weights, add a model of your own.",
    "List the model cards and fetch their weights.",
)
devices_app = Commands.group(
    "devices",
    "List and show the device profiles, add or remove your own, calibrate an available device.",
    "List, add and calibrate device profiles.",
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

BUDGET = (
    "Latency budget, such as 50ms: choose models that are predicted near it, and one above it."
)
KERNELS = (
    "First time the operators of the candidates (all: over 20 minutes); their sum predicts a"
    " network."
)
CANDIDATES = (
    "Names, families or globs of the networks to choose from; repeat or join by commas. Default:"
    " all."
)


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
            rows = selected.of(rows) if sort else rows
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
    from advisor.catalog import listing
    from advisor.cli._card_output import print_added_card, print_judged
    from advisor.core import units, visible

    def ask(value: str) -> str:
        return str(typer.prompt(QUESTIONS[value], err=True))

    given = {name: getattr(asked, name) for name in AS_GIVEN} | {
        "mean": parse_channels(asked.mean, "--mean") or (),
        "std": parse_channels(asked.std, "--std") or (),
        "top1": units.parse_percent(asked.top1, "--top1") if asked.top1 else None,
        # A script must get an error and not wait for an answer that nobody gives.
        "ask": ask if sys.stdin.isatty() and not asked.as_json else None,
    }
    # An address of a store cannot be looked at so cheaply; reading it says what is wrong.
    if asked.data and "://" not in asked.data and not Path(asked.data).exists():
        raise UsageError(
            f"--data: '{asked.data}' does not exist", "name a folder with labelled images"
        )
    with progress(f"reading {file}") as tell:
        added = cards.add(file, tell=tell, **given)
    warning = added.warning
    if warning and asked.data:
        warning = warn_of_input(added.card, asked.data)
    if warning:
        typer.echo(visible(f"warning: {warning}"), err=True)
    if not asked.as_json:
        print_added_card(added)
    with progress("measuring the accuracy") as tell:
        judged = judge(added.model, asked.data, tell=tell) if asked.data else None
    if asked.as_json:
        accuracy = {"images": judged[0], **asdict(judged[1])} if judged else None
        catalogue = str(added.catalogue)
        card = listing.card_json(added.card)
        print_document(
            card=card,
            catalogue=catalogue,
            model=str(added.model),
            accuracy=accuracy,
            warning=warning,
        )
    elif judged:
        images, agreement = judged
        print_judged(added.card, images, agreement.accuracy)


DeviceName = Annotated[
    str,
    argument(
        "NAME", "Name of a device, also as people write it: 'Pixel 8'.", completion_of("device")
    ),
]


@devices_app.command("list", short_help="List the devices and their targets.")
def list_devices(
    profiles: options.ProfileFolders = None,
    phones: Annotated[
        bool,
        option(
            "", "List the phones that are known by their names, predicted or measured.", "--phones"
        ),
    ] = False,
    cloud: Annotated[
        str, option("NAME", "List the devices of this device cloud: aihub or devicefarm.")
    ] = "",
    sort: options.Sort = "",
    only: options.Filter = None,
    as_json: options.AsJson = False,
) -> None:
    """List the devices with their targets and the number of known measurements.

    Example: advisor devices list --filter kind=board --filter 'cores=*cortex-a76*'

    Example: advisor devices list --cloud aihub
    """
    from advisor import devices
    from advisor.cli._device_output import DEVICES, print_devices
    from advisor.devices import listing

    selected = DEVICES.select(sort, only)
    with progress("reading the device profiles"):
        rows = selected.of(
            devices.list_devices(profiles=profiles or (), phones=phones, cloud=cloud)
        )
    if as_json:
        print_document(devices=list(map(listing.row_json, rows)))
    else:
        print_devices(rows, by_kind=not sort)


@devices_app.command("show", short_help="Show one device with its sources.")
def show_device(
    name: DeviceName, profiles: options.ProfileFolders = None, as_json: options.AsJson = False
) -> None:
    """Show one device: processor, limits, targets, number of known measurements,
    and their sources.

    Example: advisor devices show raspberry-pi-4
    """
    from advisor import devices
    from advisor.cli._device_output import print_device
    from advisor.devices import listing

    profile = devices.show(name, profiles=profiles or ())
    if as_json:
        print_document(device=listing.device_json(profile))
    else:
        print_device(profile)


@devices_app.command("add", short_help="Add a profile of your own.")
@declare_options(annotations_of(options_of(AddPhoneKeywords, "into", "force")))
def add_device(
    file: Annotated[
        str | None, argument("FILE", "A profile (YAML) with its measurements (CSV) beside it.")
    ] = None,
    *,
    usb: Annotated[bool, option("", "Add the phone that is attached by USB.", "--usb")] = False,
    into: Annotated[
        str | None, option("DIR", "Folder that takes the profile. Default: your own.")
    ] = None,
    force: Annotated[
        bool, option("", "Replace your profile of the same name.", "--force")
    ] = False,
    as_json: options.AsJson = False,
    **attached: Any,
) -> None:
    """Check a device profile and copy it with its measurements to your own profiles,
    or add an attached phone.

    With --usb or --adb, the phone is asked what it is, and a first network is timed on its CPU,
    GPU and NPU. The profile has the connection: a search with this device measures on the phone.

    Example: advisor devices add our-board.yaml

    Example: advisor devices add --usb
    """
    from advisor import devices
    from advisor.cli._device_output import print_added_device

    given = {setting: value for setting, value in attached.items() if value}
    if file is not None:
        if usb or given:
            setting = "usb" if usb else next(iter(given))
            raise UsageError(
                f"--{setting.replace('_', '-')} is for an attached phone, and '{file}' is a"
                " profile",
                "give one of the two",
            )
        added = devices.add(file, into=into, force=force)
        if as_json:
            print_document(
                device=added.profile.name, path=str(added.path), replaced=added.replaced
            )
        else:
            print_added_device(added)
        return
    if not usb and "adb" not in given:
        raise UsageError(
            "there is nothing to add",
            "name a profile (YAML), or --usb for the phone that is attached",
        )
    with progress("looking for the phone") as tell:
        phone = devices.add_phone(into=into, force=force, tell=tell, **given)
    if as_json:
        print_document(**phone.to_json())
    else:
        print_added_device(phone.device, phone)


@devices_app.command("remove", short_help="Remove a profile of your own.")
def remove(
    name: DeviceName,
    from_: Annotated[
        str | None, option("DIR", "Folder that holds the profile. Default: your own.", "--from")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Remove one of your own device profiles with its measurements. Shipped profiles stay.

    Example: advisor devices remove our-board
    """
    from advisor import devices

    removed = devices.remove(name, folder=from_)
    if as_json:
        print_document(removed=list(map(str, removed)))
        return
    for path in removed:
        typer.echo(f"removed {path}")


@devices_app.command("calibrate", short_help="Measure a few models on an available device.")
@declare_options(
    annotations_of(
        options_of(DeviceBenchmarkKeywords, "device", "accelerator", "threads", "effort")
    )
)
def calibrate(
    name: Annotated[
        str, argument("NAME", "Name of a device, or name:target.", completion_of("device"))
    ],
    *,
    here: Annotated[
        bool, option("", "Measure on this machine: it is the device.", "--here")
    ] = False,
    models: Annotated[int, option("N", "Number of models to measure.")] = 5,
    budget: Annotated[str, option("TIME", BUDGET)] = "",
    candidates: Annotated[
        list[str] | None,
        option("NAMES", CANDIDATES, "--candidates", autocompletion=completion_of("candidates")),
    ] = None,
    kernels: Annotated[bool, option("", KERNELS, "--kernels")] = False,
    as_json: options.AsJson = False,
    **reached: Any,
) -> None:
    """Measure the most informative models on a device and add the measurements to its profile.

    Every model is measured in float32 and int8, if the target runs both. A shipped profile is
    first copied to your own profiles. With --kernels, timed operators are saved after each batch:
    repeat the command to continue. Exit code 3: some models were left out, because other programs
    disturbed them; or the device failed or slowed down, and no model is saved.

    Example: advisor devices calibrate our-board --ssh pi@board.local
    """
    from advisor import devices
    from advisor.cli._device_output import print_calibrated

    given = {setting: value for setting, value in reached.items() if value}
    chosen = split_values(candidates) or ()
    try:
        with progress("reading the profile") as tell:
            calibrated = devices.calibrate(
                name,
                here=here,
                models=models,
                budget=budget,
                kernels=kernels,
                candidates=chosen,
                tell=tell,
                **given,
            )
    except StageError as error:
        typer.echo(f"error: {error.message}", err=True)
        if error.hint:
            typer.echo(f"hint:  {error.hint}", err=True)
        raise typer.Exit(ExitCode.UNSATISFIED) from error
    if as_json:
        print_document(**calibrated.to_json())
    else:
        print_calibrated(calibrated)
    if calibrated.networks.left_out:
        raise typer.Exit(ExitCode.UNSATISFIED)

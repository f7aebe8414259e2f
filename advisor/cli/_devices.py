"""``advisor devices``: list, show and calibrate device profiles, add and remove your own.

``_main.py`` registers the group; ``_device_output.py`` prints the results.
"""

from typing import Annotated, Any

import typer

from advisor.cli import _options as options
from advisor.cli._groups import Commands
from advisor.cli._options import annotations_of, argument, completion_of, declare_options, option
from advisor.cli._output import print_document, progress
from advisor.cli._values import split_values
from advisor.core import (
    AddPhoneKeywords,
    DeviceBenchmarkKeywords,
    ExitCode,
    StageError,
    UsageError,
    options_of,
    show_flag,
)

devices_app = Commands.group(
    "devices",
    "List and show the device profiles, add or remove your own, calibrate an available device.",
    "List, add and calibrate device profiles.",
)

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
        print_devices(rows, by_kind=not sort, are_all=not only)


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
    settings = {name: value for name, value in attached.items() if value}
    if file is None:
        if not usb and "adb" not in settings:
            raise UsageError(
                "there is nothing to add",
                "name a profile (YAML), or --usb for the phone that is attached",
            )
        _add_attached_phone(settings, into, force, as_json)
        return
    if usb or settings:
        name = "usb" if usb else next(iter(settings))
        raise UsageError(
            f"{show_flag(name)} is for an attached phone, and '{file}' is a profile",
            "give one of the two",
        )
    _add_profile(file, into, force, as_json)


def _add_profile(file: str, into: str | None, force: bool, as_json: bool) -> None:
    from advisor import devices
    from advisor.cli._device_output import print_added_device

    added = devices.add(file, into=into, force=force)
    if as_json:
        print_document(device=added.profile.name, path=str(added.path), replaced=added.replaced)
    else:
        print_added_device(added)


def _add_attached_phone(
    settings: dict[str, Any], into: str | None, force: bool, as_json: bool
) -> None:
    from advisor import devices
    from advisor.cli._device_output import print_added_device

    with progress("looking for the phone") as tell:
        phone = devices.add_phone(into=into, force=force, tell=tell, **settings)
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
    **connection: Any,
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

    settings = {name: value for name, value in connection.items() if value}
    try:
        with progress("reading the profile") as tell:
            calibrated = devices.calibrate(
                name,
                here=here,
                models=models,
                budget=budget,
                kernels=kernels,
                candidates=split_values(candidates) or (),
                tell=tell,
                **settings,
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

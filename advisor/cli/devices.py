"""``advisor devices``: list, show, add and remove device profiles; calibrate an available device."""

from dataclasses import dataclass
from typing import Annotated

import typer

from advisor.cli import options
from advisor.cli.commands import Commands
from advisor.cli.options import AsJson, ProfileFolders, completion_of
from advisor.cli.output import print_json, progress

SCHEMA_VERSION = 1

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of a device.", autocompletion=completion_of("device"))]

commands = Commands(
    name="devices",
    help="List and show the device profiles, add or remove your own, calibrate an available device.",
    short_help="List, add and calibrate device profiles.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@commands.command("list", short_help="List the devices and their targets.")
def list_(
    profiles: ProfileFolders = None,
    sort: options.Sort = "",
    only: options.Filter = None,
    as_json: AsJson = False,
) -> None:
    """List the devices with their targets and the number of known measurements.

    Example: advisor devices list --filter kind=board --filter 'cores=*cortex-a76*'
    """
    from advisor import devices
    from advisor.devices.profiles import listing
    from advisor.reporting.listings import DEVICES, print_devices

    selected = DEVICES.select(sort, only)
    with progress("reading the device profiles"):
        found = selected.of(devices.list_devices(profiles=profiles or ()))
    if as_json:
        print_json({"schema_version": SCHEMA_VERSION, "devices": [listing.row_json(profile) for profile in found]})
    else:
        print_devices(found)


@commands.command("show", short_help="Show one device with its sources.")
def show(name: Name, profiles: ProfileFolders = None, as_json: AsJson = False) -> None:
    """Show one device: processor, limits, targets, number of known measurements, and their sources.

    Example: advisor devices show raspberry-pi-4
    """
    from advisor import devices
    from advisor.devices.profiles import listing

    profile = devices.show(name, profiles=profiles or ())
    if as_json:
        print_json({"schema_version": SCHEMA_VERSION, "device": listing.device_json(profile)})
        return
    from advisor.reporting.listings import print_device

    print_device(profile)


@commands.command("add", short_help="Add a profile of your own.")
def add(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A profile (YAML) with its measurements (CSV) beside it.")
    ],
    into: Annotated[
        str | None, typer.Option(metavar="DIR", help="Folder that takes the profile. Default: your own.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace your profile of the same name.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check a device profile and copy it with its measurements to your own profiles.

    Example: advisor devices add our-board.yaml
    """
    from advisor import devices
    from advisor.reporting.listings import print_added_device

    added = devices.add(file, into=into, force=force)
    if as_json:
        kept = {"device": added.profile.name, "path": str(added.path), "replaced": added.replaced}
        print_json({"schema_version": SCHEMA_VERSION, **kept})
        return
    print_added_device(added)


@commands.command("remove", short_help="Remove a profile of your own.")
def remove(
    name: Name,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="DIR", help="Folder that holds the profile. Default: your own.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Remove one of your own device profiles with its measurements. Shipped profiles stay.

    Example: advisor devices remove our-board
    """
    from advisor import devices

    removed = devices.remove(name, folder=from_)
    if as_json:
        print_json({"schema_version": SCHEMA_VERSION, "removed": [str(path) for path in removed]})
        return
    for path in removed:
        typer.echo(f"removed {path}")


@dataclass(frozen=True)
class CalibrateOptions:
    """The options of ``advisor devices calibrate``."""

    ssh: options.Ssh = ""
    adb: options.Adb = ""
    here: Annotated[bool, typer.Option("--here", help="Measure on this machine: it is the device.")] = False
    models: Annotated[int, typer.Option(min=1, max=50, metavar="N", help="Number of models to measure.")] = 5
    kernels: Annotated[
        bool,
        typer.Option(
            "--kernels",
            help="Also time single operators, in under 5 minutes; networks are then predicted as the sum of theirs.",
        ),
    ] = False
    python: options.Python = "python3"
    benchmark_model: options.BenchmarkModel = ""
    cores: options.Cores = ""
    profiles: ProfileFolders = None
    as_json: AsJson = False


@commands.command("calibrate", short_help="Measure a few models on an available device.")
def calibrate(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="Name of a device, or name:target.", autocompletion=completion_of("device")
        ),
    ],
    *,
    asked: CalibrateOptions,
) -> None:
    """Measure the most informative models on a device and add the measurements to its profile.

    Every model is measured in float32 and int8, if the target runs both. A shipped profile is first copied to your own
    profiles. Exit code 3: the device could not be measured; nothing is
    kept.

    Example: advisor devices calibrate our-board --ssh pi@board.local
    """
    from advisor import devices
    from advisor.core.errors import ExitCode, StageError
    from advisor.reporting.listings import print_calibrated
    from advisor.reporting.text import finite

    try:
        with progress("reading the profile") as tell:
            found = devices.calibrate(
                name, ssh=asked.ssh, adb=asked.adb, here=asked.here,
                python=asked.python, benchmark_model=asked.benchmark_model, cores=asked.cores,
                models=asked.models, kernels=asked.kernels, profiles=asked.profiles or (), tell=tell,
            )  # fmt: skip
    except StageError as error:
        typer.secho(f"error: {error.message}", err=True)
        raise typer.Exit(ExitCode.UNSATISFIED) from error
    if asked.as_json:
        print_json({"schema_version": SCHEMA_VERSION, **finite(found.to_json())})
        return
    print_calibrated(found)

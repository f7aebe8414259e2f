"""``advisor devices``: list, show, add and remove device profiles; calibrate a device at hand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from advisor.cli import reaching
from advisor.cli.output import print_json
from advisor.core.exits import ExitCode

if TYPE_CHECKING:
    from advisor.devices.profiles import Profiles

SCHEMA_VERSION = 1

Folders = Annotated[
    list[str] | None,
    typer.Option("--profiles", metavar="DIR", help="One more folder of your own device profiles; repeat for more."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of a device.")]

commands = typer.Typer(
    name="devices",
    help="The device profiles: list and show them, add or remove your own, calibrate a device at hand.",
    short_help="The device profiles: what is known of each.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(commands)


@commands.command("list")
def list_(
    kind: Annotated[
        str, typer.Option(metavar="KIND", help="Only phone, board, module, accelerator, microcontroller or computer.")
    ] = "",
    soc: Annotated[
        str, typer.Option(metavar="TEXT", help="Only where the SoC, a core or the NPU has this in its name.")
    ] = "",
    profiles: Folders = None,
    as_json: AsJson = False,
) -> None:
    """List the devices with their targets and how many measurements are known.

    Example: advisor devices list --kind board --soc cortex-a76
    """
    from advisor.devices.profiles import listing

    found = listing.filtered(_known(profiles).values(), kind, soc)
    if as_json:
        print_json({"schema_version": SCHEMA_VERSION, "devices": [listing.row_json(profile) for profile in found]})
        return
    from advisor.cli.devices_table import print_rows

    print_rows(found)


@commands.command("show")
def show(name: Name, profiles: Folders = None, as_json: AsJson = False) -> None:
    """Show one device whole: processor, limits, targets, how many measurements are known, and the sources.

    Example: advisor devices show raspberry-pi-4
    """
    from advisor.devices.profiles import listing

    profile = _known(profiles).profile(name)
    if as_json:
        print_json({"schema_version": SCHEMA_VERSION, "device": listing.device_json(profile)})
        return
    from advisor.cli.devices_table import print_device

    print_device(profile)


@commands.command("add")
def add(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A profile (YAML), its measurements (CSV) beside it.")],
    into: Annotated[str | None, typer.Option(metavar="DIR", help="Folder that takes it. Default: your own.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace your profile of the same name.")] = False,
) -> None:
    """Check a profile and keep it among your own, measurements included.

    Example: advisor devices add our-board.yaml
    """
    from advisor.cli.devices_table import print_added
    from advisor.devices.profiles.team import add_profile

    print_added(add_profile(Path(file), Path(into) if into else None, replace=force))


@commands.command("remove")
def remove(
    name: Name,
    from_: Annotated[
        str | None, typer.Option("--from", metavar="DIR", help="Folder that holds it. Default: your own.")
    ] = None,
) -> None:
    """Remove a profile of your own with its measurements; shipped ones stay.

    Example: advisor devices remove our-board
    """
    from advisor.devices.profiles.team import remove_profile

    for path in remove_profile(name, Path(from_) if from_ else None):
        typer.echo(f"removed {path}")


@commands.command("calibrate")
def calibrate(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of a device, or name:target.")],
    ssh: reaching.Ssh = "",
    adb: reaching.Adb = "",
    here: Annotated[bool, typer.Option("--here", help="It is this machine.")] = False,
    models: Annotated[int, typer.Option(min=1, max=50, metavar="N", help="How many models are measured.")] = 5,
    python: reaching.Python = "python3",
    benchmark_model: reaching.BenchmarkModel = "",
    cores: reaching.Cores = "",
    profiles: Folders = None,
) -> None:
    """Measure the few models that tell most about all others, and keep them in the device's profile.

    A shipped profile is copied among your own. Exit code 3: the device could not be measured; nothing is kept.

    Example: advisor devices calibrate our-board --ssh pi@board.local
    """
    from advisor.cli.devices_table import print_calibrated
    from advisor.cli.progress import progress
    from advisor.core.errors import StageError
    from advisor.devices.calibration import calibrate as calibrating
    from advisor.devices.connections import agent
    from advisor.devices.connections.settings import ConnectionSettings
    from advisor.devices.prediction.cached import device_predictor
    from advisor.devices.profiles.team import folder_of

    profile, target = _known(profiles).select(name)
    calibrating.check_target(profile, target)
    asked = reaching.reach(ssh, adb, here, python, benchmark_model, cores) or profile.connection or ConnectionSettings()
    connection = asked.connect(Path(agent.__file__))
    try:
        with progress() as tell:
            predictor = device_predictor()
            found = calibrating.calibrate(profile, target, connection, predictor, folder_of(profile), models, tell)
    except StageError as error:
        typer.secho(f"error: {error.message}", err=True)
        raise typer.Exit(ExitCode.UNSATISFIED) from error
    print_calibrated(found)


def _known(folders: list[str] | None) -> Profiles:
    from advisor.devices.profiles.team import known_devices

    return known_devices([Path(folder) for folder in folders or ()])

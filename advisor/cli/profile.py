"""``advisor profile``: where the time of one ``.tflite`` file goes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from advisor.cli.options import decimals, progress, shape_of
from advisor.core.errors import UsageError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("profile")(profile)


def profile(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A .tflite file.")],
    threads: Annotated[int, typer.Option(help="CPU threads.")] = 1,
    shape: Annotated[
        str | None, typer.Option(help="Shape of the first input where the file leaves it open: 1,224,224,3.")
    ] = None,
    xnnpack: Annotated[bool, typer.Option("--xnnpack/--no-xnnpack", help="Use XNNPACK where it applies.")] = True,
    accelerator: Annotated[
        list[str] | None,
        typer.Option(help="Also say what this accelerator would take: edgetpu, nnapi, coreml, ...; repeat for more."),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="FLOAT", help="The float file it was made from: why does it answer worse than that?"),
    ] = None,
    calibration: Annotated[
        str | None, typer.Option(metavar="DIR", help="Pictures to run both on; a few that are at hand without it.")
    ] = None,
    mean: Annotated[
        str | None, typer.Option(help="Subtracted from RGB 0 to 255, where neither file says it: 127.5")
    ] = None,
    std: Annotated[str | None, typer.Option(help="What the difference is divided by: 127.5")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    tsv: Annotated[str | None, typer.Option(help="Write the tables for a spreadsheet to this file.")] = None,
    trace: Annotated[str | None, typer.Option(help="Write a trace for Chrome or Perfetto to this file.")] = None,
    html: Annotated[str | None, typer.Option(help="Write the page with plots to this file.")] = None,
    graph: Annotated[str | None, typer.Option(help="Write the graph for Model Explorer to this file.")] = None,
    out: Annotated[str | None, typer.Option(help="Write all of these into this folder, and the JSON.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show every operator, not only the slowest.")] = False,
) -> None:
    """Show where the time of a .tflite file goes, operator by operator, and what to do about it.

    Example: advisor profile model.tflite --html profile.html
    """
    from advisor import api
    from advisor.report.profile.files import Wanted, write_files

    single = Wanted(html=_path(html), tsv=_path(tsv), trace=_path(trace), graph=_path(graph))
    wanted = Wanted.into(_path(out), single)
    wanted.check()
    diagnosis = None
    with progress() as tell:
        if against is not None:
            tell(f"holding {Path(model).name} against {Path(against).name}")
            diagnosis = api.diagnose(
                model, against, calibration=calibration, mean=decimals(mean, "--mean"), std=decimals(std, "--std")
            )
        elif calibration or mean or std:
            raise UsageError(
                "--calibration, --mean and --std belong to --against", "name the float file with --against"
            )
        tell(f"profiling {Path(model).name}")
        found = api.profile(
            model,
            threads=threads,
            kernels="default" if xnnpack else "builtin",
            shape=shape_of(shape),
            accelerators=_names(accelerator),
        )
    written = write_files(found, wanted, diagnosis)
    if as_json:
        import json

        more = {"diagnosis": diagnosis.to_json()} if diagnosis else {}
        typer.echo(json.dumps({**found.to_json(), **more}, indent=1, allow_nan=False))
        return
    from advisor.report.profile.profile_table import print_profile

    print_profile(found, everything=everything, written=written, diagnosis=diagnosis)


def _names(values: list[str] | None) -> tuple[str, ...]:
    """Return the names, repeated or joined by commas."""
    return tuple(part.strip() for value in values or () for part in value.split(",") if part.strip())


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None

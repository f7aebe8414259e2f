"""``advisor profile``: where the time of one ``.tflite`` file goes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from advisor.cli.options import progress, shape_of


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
    with progress() as tell:
        tell(f"profiling {Path(model).name}")
        found = api.profile(
            model,
            threads=threads,
            kernels="default" if xnnpack else "builtin",
            shape=shape_of(shape),
            accelerators=_names(accelerator),
        )
    written = write_files(found, wanted)
    if as_json:
        import json

        typer.echo(json.dumps(found.to_json(), indent=1, allow_nan=False))
        return
    from advisor.report.profile.profile_table import print_profile

    print_profile(found, everything=everything, written=written)


def _names(values: list[str] | None) -> tuple[str, ...]:
    """Return the names, repeated or joined by commas."""
    return tuple(part.strip() for value in values or () for part in value.split(",") if part.strip())


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None

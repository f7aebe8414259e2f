"""``advisor benchmark``: latency, loading and memory of ``.tflite`` files on this machine."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from advisor.cli.options import counts, numbers, progress, shape_of

FAILED = 2


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("benchmark")(benchmark)


def benchmark(
    models: Annotated[list[str], typer.Argument(metavar="MODEL...", help="One .tflite file, or several to compare.")],
    threads: Annotated[
        list[str] | None, typer.Option(help="CPU threads: a number or 'all'; repeat, or join by commas. Default 1.")
    ] = None,
    effort: Annotated[
        str, typer.Option(help="quick (6 s a file and thread count), normal (10 s) or full (60 s).")
    ] = "quick",
    shape: Annotated[
        str | None, typer.Option(help="Shape of the first input where the file leaves it open: 1,224,224,3.")
    ] = None,
    xnnpack: Annotated[bool, typer.Option("--xnnpack/--no-xnnpack", help="Use XNNPACK where it applies.")] = True,
    runtime: Annotated[
        str | None,
        typer.Option(help="Another runtime, in an environment of its own: tflite-runtime==2.14.0."),
    ] = None,
    cpus: Annotated[str | None, typer.Option(help="Pin the threads to these processors: 0,1.")] = None,
    contended: Annotated[
        bool, typer.Option("--contended", help="Also measure beside a load on the other processors.")
    ] = False,
    sustained: Annotated[
        str | None, typer.Option(help="Also run without a rest for so long, such as 5min: does it slow down?")
    ] = None,
    picture: Annotated[
        str | None, typer.Option(help="Picture whose whole way to an answer is timed; one is at hand.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    mllog: Annotated[bool, typer.Option("--mllog", help="Print MLPerf-style log lines.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Time even on a busy machine; the verdict says so.")] = False,
) -> None:
    """Time .tflite files on this machine, and say whether the figures can be trusted.

    Several files are timed in turn, block by block, and each is held against the first: a ratio with its interval.

    Example: advisor benchmark model.tflite --threads 1,2
    """
    from advisor import api
    from advisor.core.errors import UsageError
    from advisor.core.units import seconds

    if as_json and mllog:
        raise UsageError("--json and --mllog are two forms of one output", "ask for one of them")
    with progress() as tell:
        found = api.benchmark(
            *models,
            threads=counts(threads),
            effort=effort,
            shape=shape_of(shape),
            kernels="default" if xnnpack else "builtin",
            runtime=runtime,
            cpus=numbers(cpus, "--cpus"),
            contended=contended,
            sustained_s=seconds(sustained, "--sustained") if sustained else None,
            picture=picture,
            force=force,
            tell=tell,
        )
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=1, allow_nan=False))
    elif mllog:
        typer.echo(found.to_log())
    else:
        from advisor.report.profile.benchmark_table import print_benchmark

        print_benchmark(found)
    if found.failed:
        for file in found.failed if as_json or mllog else ():
            typer.echo(f"failed: {file.failure}", err=True)
        raise typer.Exit(FAILED)

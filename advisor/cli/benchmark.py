"""``advisor benchmark``: latency, loading and memory of ``.tflite`` files, here or on a device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from advisor.cli import reaching
from advisor.cli.options import counts, numbers, shape_of
from advisor.cli.output import print_json
from advisor.cli.progress import progress
from advisor.core.errors import UsageError
from advisor.core.exits import ExitCode

if TYPE_CHECKING:
    from advisor.measurement.latency.findings import Benchmark
    from advisor.measurement.on_device.findings import DeviceBenchmark


Models = Annotated[list[str], typer.Argument(metavar="MODEL", help="One .tflite file, or several to compare.")]
Device = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="A device profile, or name:target: measured over its connection, else predicted."
    ),
]
Accelerator = Annotated[str, typer.Option(metavar="NAME", help="cpu, or gpu; with --device also npu and tpu.")]
Threads = Annotated[
    list[str] | None,
    typer.Option(metavar="COUNTS", help="CPU threads: a number or 'all'; repeat, or join by commas. Default 1."),
]
EffortName = Annotated[
    str, typer.Option(metavar="NAME", help="quick (6 s a file and thread count), normal (10 s) or full (60 s).")
]
Shape = Annotated[
    str | None,
    typer.Option(metavar="SHAPE", help="Shape of the first input where the file leaves it open: 1,224,224,3."),
]
Xnnpack = Annotated[bool, typer.Option("--xnnpack/--no-xnnpack", help="Use XNNPACK where it applies.")]
Runtime = Annotated[
    str | None,
    typer.Option(metavar="PACKAGE", help="Another runtime, in an environment of its own: tflite-runtime==2.14.0."),
]
Cpus = Annotated[str | None, typer.Option(metavar="NUMBERS", help="Pin the threads to these processors: 0,1.")]
Contended = Annotated[bool, typer.Option("--contended", help="Also measure beside a load on the other processors.")]
Sustained = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Also run without a rest for so long, such as 5min: does it slow down?"),
]
LabelledImage = Annotated[
    str | None, typer.Option(metavar="FILE", help="Picture whose whole way to an answer is timed; one is at hand.")
]
Folders = Annotated[
    list[str] | None, typer.Option("--profiles", metavar="DIR", help="A folder of your own device profiles (--device).")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
AsLog = Annotated[bool, typer.Option("--mllog", help="Print MLPerf-style log lines.")]
Force = Annotated[bool, typer.Option("--force", help="Time even on a busy machine; the verdict says so.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("benchmark", short_help="Time .tflite files, here or on a device.")(benchmark)


def benchmark(
    models: Models,
    device: Device = "",
    accelerator: Accelerator = "",
    threads: Threads = None,
    effort: EffortName = "quick",
    shape: Shape = None,
    xnnpack: Xnnpack = True,
    runtime: Runtime = None,
    cpus: Cpus = None,
    contended: Contended = False,
    sustained: Sustained = None,
    image: LabelledImage = None,
    ssh: reaching.Ssh = "",
    adb: reaching.Adb = "",
    python: reaching.Python = "python3",
    benchmark_model: reaching.BenchmarkModel = "",
    cores: reaching.Cores = "",
    profiles: Folders = None,
    as_json: AsJson = False,
    mllog: AsLog = False,
    force: Force = False,
) -> None:
    """Time .tflite files on this machine or on a device, and say whether the figures can be trusted.

    Several files are timed in turn, block by block, and each is held against the first: a ratio with its interval.
    With --device the files are measured over the connection of its profile (or --ssh, --adb); a device that is not
    at hand gets a prediction, which says so.

    Example: advisor benchmark model.tflite --threads 1,2
    """
    if as_json and mllog:
        raise UsageError("--json and --mllog are two forms of one output", "ask for one of them")
    where = {"device": device, "accelerator": accelerator}
    reach = reaching.reach(ssh, adb, False, python, benchmark_model, cores)
    asked = {
        "shape": shape_of(shape),
        "kernels": "" if xnnpack else "builtin",
        "runtime": runtime,
        "cpus": numbers(cpus, "--cpus"),
        "contended": contended,
        "sustained_s": _seconds(sustained),
        "picture": image,
    }
    here = {name: value for name, value in asked.items() if value}
    with progress() as tell:
        common = {"effort": effort, "tell": tell}
        if _elsewhere(reach=reach, **where):
            _refuse_here_only(here, mllog)
            given = counts(threads) if threads else ()
            found = _device(models, reach=reach, profiles=profiles or (), threads=given, **where, **common)
        else:
            found = _local(models, threads=counts(threads), force=force, **here, **common)
    _show(found, as_json, mllog)


def _elsewhere(**where: Any) -> bool:
    from advisor.engine.targets.benchmarking import is_elsewhere

    return is_elsewhere(**where)


def _local(models: list[str], **options: Any) -> Benchmark | DeviceBenchmark:
    from advisor import api

    return api.benchmark(*models, **options)


def _device(models: list[str], **options: Any) -> Benchmark | DeviceBenchmark:
    from advisor import api

    return api.benchmark_device(*models, **options)


def _refuse_here_only(asked: dict[str, Any], mllog: bool) -> None:
    """Refuse what is measured of this machine's CPU alone.

    Raises:
        UsageError: such an option is given.
    """
    names = {"kernels": "--no-xnnpack", "sustained_s": "--sustained"}
    wrong = [names.get(name, f"--{name}") for name in asked] + ["--mllog"] * mllog
    if wrong:
        raise UsageError(f"{wrong[0]} is for this machine's CPU", "leave --device and --accelerator out, or the option")


def _seconds(text: str | None) -> float | None:
    from advisor.core.units import seconds

    return seconds(text, "--sustained") if text else None


def _show(found: Benchmark | DeviceBenchmark, as_json: bool, mllog: bool) -> None:
    """Print what was found.

    Raises:
        typer.Exit: a file could not be measured, or nothing could be predicted for it.
    """
    from advisor.measurement.latency.findings import Benchmark

    if as_json:
        print_json(found.to_json())
    elif mllog and isinstance(found, Benchmark):
        typer.echo(found.to_log())
    elif isinstance(found, Benchmark):
        from advisor.reporting.profile.benchmark_table import print_benchmark

        print_benchmark(found)
    else:
        from advisor.reporting.profile.device_table import print_device_benchmark

        print_device_benchmark(found)
    if found.failed:
        for file in found.failed if as_json or mllog else ():
            typer.echo(f"failed: {file.failure}", err=True)
        spent = isinstance(found, Benchmark) or bool(found.connection)
        raise typer.Exit(ExitCode.UNSATISFIED if spent else ExitCode.USAGE)

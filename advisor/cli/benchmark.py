"""``advisor benchmark``: latency, loading and memory of ``.tflite`` files, here or on a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from advisor.cli import completion, options
from advisor.cli.options import numbers, shape_of, split
from advisor.cli.output import print_json
from advisor.cli.progress import progress
from advisor.core.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from advisor.measurement.latency.findings import Benchmark
    from advisor.measurement.on_device.findings import DeviceBenchmark, DeviceRow
    from advisor.reporting.benchmark import FileTiming
    from advisor.reporting.selection import Selection


@dataclass(frozen=True)
class BenchmarkOptions:
    """The options of ``advisor benchmark``."""

    device: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Device profile, or name:target; host:litert,host:onnxruntime compares runtimes of this machine. "
            "Measured over its connection, else predicted. Default: this machine.",
            autocompletion=completion.of("device"),
        ),
    ] = ""
    accelerator: Annotated[
        str, typer.Option(metavar="NAME", help="Processor: cpu or gpu; with --device also npu and tpu. Default: cpu.")
    ] = ""
    threads: Annotated[
        list[str] | None,
        typer.Option(metavar="COUNTS", help="CPU threads: a number or 'all'; repeat, or join by commas. Default: 1."),
    ] = None
    effort: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Time for each file and thread count: quick (6 s), normal (10 s) or full (60 s)."
        ),
    ] = "quick"
    shape: options.Shape = None
    xnnpack: options.Xnnpack = True
    runtime: Annotated[
        str | None,
        typer.Option(metavar="PACKAGE", help="Another runtime, in a separate environment: tflite-runtime==2.14.0."),
    ] = None
    cpus: Annotated[str | None, typer.Option(metavar="NUMBERS", help="Processors that run the threads: 0,1.")] = None
    contended: Annotated[
        bool, typer.Option("--contended", help="Also measure with a load on the other processors.")
    ] = False
    sustained: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Also run for this time without a rest, such as 5min, to see it slow down."),
    ] = None
    image: Annotated[
        str | None,
        typer.Option("--image", metavar="FILE", help="Image for end-to-end timing. Default: a bundled photograph."),
    ] = None
    ssh: options.Ssh = ""
    adb: options.Adb = ""
    python: options.Python = "python3"
    benchmark_model: options.BenchmarkModel = ""
    cores: options.Cores = ""
    profiles: options.ProfileFolders = None
    sort: options.Sort = ""
    only: options.Filter = None
    as_json: options.AsJson = False
    force: Annotated[bool, typer.Option("--force", help="Measure on a busy machine, too; the verdict says so.")] = False


def benchmark(
    models: Annotated[list[str], typer.Argument(metavar="MODEL", help="One .tflite file, or several to compare.")],
    *,
    asked: BenchmarkOptions,
) -> None:
    """Time .tflite files on this machine or on a device, and say whether the timings can be trusted.

    Several files are timed in turn, block by block. Each is compared with the first: a ratio with its interval. With
    --device the files are measured over the connection of its profile (or --ssh, --adb). If the device is not
    available, the latency is predicted, and the output says so.

    Example: advisor benchmark model.tflite --threads 1,2
    """
    from advisor import api
    from advisor.core.figures import HOST
    from advisor.core.units import seconds
    from advisor.devices.profiles.runtimes import canonical
    from advisor.reporting.benchmark import DEVICE_ROWS, TIMINGS

    if (
        canonical(asked.device) not in ("", HOST)
        or asked.accelerator not in ("", "cpu")
        or asked.ssh
        or asked.adb
        or asked.benchmark_model
        or asked.cores
    ):
        cpu_only = {
            "--shape": asked.shape, "--no-xnnpack": not asked.xnnpack, "--runtime": asked.runtime, "--cpus": asked.cpus,
            "--contended": asked.contended, "--sustained": asked.sustained, "--image": asked.image,
        }  # fmt: skip
        _refuse_cpu_only(cpu_only)
        device_rows = DEVICE_ROWS.select(asked.sort, asked.only)
        with progress("reading the files") as tell:
            there = api.benchmark_device(
                *models, device=asked.device, accelerator=asked.accelerator, ssh=asked.ssh, adb=asked.adb,
                python=asked.python, benchmark_model=asked.benchmark_model, cores=asked.cores,
                threads=split(asked.threads) or (), effort=asked.effort, profiles=asked.profiles or (), tell=tell,
            )  # fmt: skip
        _show_device(there, asked.as_json, device_rows)
        return
    rows = TIMINGS.select(asked.sort, asked.only)
    sustained_s = seconds(asked.sustained, "--sustained") if asked.sustained else None
    with progress("reading the files") as tell:
        here = api.benchmark(
            *models, threads=split(asked.threads) or (1,), effort=asked.effort, shape=shape_of(asked.shape),
            kernels="default" if asked.xnnpack else "builtin", runtime=asked.runtime,
            cpus=numbers(asked.cpus, "--cpus"), contended=asked.contended, sustained_s=sustained_s, image=asked.image,
            force=asked.force, tell=tell,
        )  # fmt: skip
    _show(here, asked.as_json, rows)


def _refuse_cpu_only(given: Mapping[str, object]) -> None:
    """Refuse options that measure only this machine's CPU.

    Raises:
        UsageError: such an option is given.
    """
    for name, value in given.items():
        if value:
            raise UsageError(
                f"{name} works only for this machine's CPU",
                f"leave out {name}, or leave out --device and --accelerator",
            )


def _show(found: Benchmark, as_json: bool, rows: Selection[FileTiming]) -> None:
    """Print what was measured on this machine's CPU.

    Raises:
        typer.Exit: a file could not be measured.
    """
    from advisor.reporting.benchmark import print_benchmark, timings, with_timings

    shown = rows.of(timings(found))
    if as_json:
        print_json(with_timings(found, shown).to_json())
    else:
        print_benchmark(found, timed=shown)
    for file in found.failed if as_json else ():
        typer.echo(f"failed: {file.failure}", err=True)
    if found.failed:
        raise typer.Exit(ExitCode.UNSATISFIED)


def _show_device(found: DeviceBenchmark, as_json: bool, rows: Selection[DeviceRow]) -> None:
    """Print what was measured on a device, or predicted for it.

    Raises:
        typer.Exit: a file could not be measured, or nothing could be predicted for it.
    """
    shown = replace(found, rows=rows.of(found.rows))
    if as_json:
        print_json(shown.to_json())
    else:
        from advisor.reporting.benchmark import print_device_benchmark

        print_device_benchmark(shown)
    for row in found.failed if as_json else ():
        typer.echo(f"failed: {row.failure}", err=True)
    measured = bool(found.connection)
    if found.failed:
        raise typer.Exit(ExitCode.UNSATISFIED if measured else ExitCode.USAGE)

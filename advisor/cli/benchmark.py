"""``advisor benchmark`` and ``advisor profile``: how long a file takes, and where its time goes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from advisor.cli import options
from advisor.cli.options import annotations_of, channels, numbers, shape_of, split, takes
from advisor.cli.output import print_json, progress
from advisor.core.errors import ExitCode, UsageError
from advisor.core.options import BenchmarkKeywords, DeviceBenchmarkKeywords, options_of

if TYPE_CHECKING:
    from advisor.compression.diagnosis.values import Diagnosis
    from advisor.measurement.latency.findings import Benchmark
    from advisor.measurement.on_device.findings import DeviceBenchmark, DeviceRow
    from advisor.reporting.benchmark import FileTiming
    from advisor.reporting.frames import Selection


HERE = options_of(BenchmarkKeywords, "shape", "kernels", "cpus", "sustained_s", "pipeline")
THERE = options_of(DeviceBenchmarkKeywords, "threads", "effort")


@dataclass(frozen=True)
class BenchmarkOptions:
    """The options of ``advisor benchmark`` that it parses itself."""

    shape: options.Shape = None
    xnnpack: options.Xnnpack = True
    cpus: Annotated[str | None, typer.Option(metavar="NUMBERS", help="Processors that run the threads: 0,1.")] = None
    sustained: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Also run for this time without a rest, such as 5min, to see it slow down."),
    ] = None
    sort: options.Sort = ""
    only: options.Filter = None
    as_json: options.AsJson = False


@takes(annotations_of({**THERE, **HERE}))
def benchmark(
    models: Annotated[list[str], typer.Argument(metavar="MODEL", help="One .tflite file, or several to compare.")],
    *,
    asked: BenchmarkOptions,
    **given: Any,
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

    there = {name: given[name] for name in (*THERE, "threads", "effort")}
    elsewhere = (there[name] for name in ("ssh", "adb", "benchmark_model", "cores"))
    if (
        canonical(there["device"] or "") not in ("", HOST)
        or there["accelerator"] not in (None, "", "cpu")
        or any(elsewhere)
    ):
        _refuse_cpu_only(asked, given)
        device_rows = DEVICE_ROWS.select(asked.sort, asked.only)
        with progress("reading the files") as tell:
            found = api.benchmark_device(*models, tell=tell, **there)
        _show_device(found, asked.as_json, device_rows)
        return
    rows = TIMINGS.select(asked.sort, asked.only)
    sustained_s = seconds(asked.sustained, "--sustained") if asked.sustained else None
    with progress("reading the files") as tell:
        here = api.benchmark(
            *models, shape=shape_of(asked.shape), kernels="default" if asked.xnnpack else "builtin",
            cpus=numbers(asked.cpus, "--cpus"), sustained_s=sustained_s, tell=tell,
            **{name: given[name] for name in HERE},
        )  # fmt: skip
    _show(here, asked.as_json, rows)


def _refuse_cpu_only(asked: BenchmarkOptions, given: Mapping[str, object]) -> None:
    """Refuse options that measure only this machine's CPU.

    Raises:
        UsageError: such an option is given.
    """
    cpu_only = {
        "--shape": asked.shape, "--no-xnnpack": not asked.xnnpack, "--runtime": given["runtime"], "--cpus": asked.cpus,
        "--contended": given["contended"], "--sustained": asked.sustained, "--image": given["image"],
    }  # fmt: skip
    for name, value in cpu_only.items():
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


Tell = Callable[[str], None]


@dataclass(frozen=True)
class ProfileOptions:
    """The options of ``advisor profile``."""

    threads: Annotated[int, typer.Option(metavar="N", help="Number of CPU threads.")] = 1
    shape: options.Shape = None
    xnnpack: options.Xnnpack = True
    accelerator: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES",
            help="Also compute which operators this accelerator takes: edgetpu, ethos-u55, ...; repeat for more.",
        ),
    ] = None
    against: Annotated[
        str | None,
        typer.Option(metavar="FLOAT", help="Float file that MODEL was made from; shows why MODEL is less accurate."),
    ] = None
    calibration: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Folder of images that both files classify. Default: bundled photographs."),
    ] = None
    mean: options.Mean = None
    std: options.Std = None
    sort: options.Sort = ""
    only: options.Filter = None
    as_json: options.AsJson = False
    html: Annotated[str | None, typer.Option(metavar="FILE", help="Write the page with plots to this file.")] = None
    out: Annotated[str | None, typer.Option(metavar="DIR", help="Write the page and the JSON into this folder.")] = None
    everything: Annotated[bool, typer.Option("--all", help="Show every operator, not only the slowest.")] = False


def profile(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A .tflite file.")],
    *,
    asked: ProfileOptions,
) -> None:
    """Show where the time of a .tflite file goes, operator by operator, and what to do about it.

    Example: advisor profile model.tflite --html profile.html
    """
    from advisor import api
    from advisor.reporting.profile import STEPS, print_profile, requested_files, write_files

    rows = STEPS.select(asked.sort, asked.only)
    wanted = requested_files(Path(asked.out) if asked.out else None, {"html": Path(asked.html)} if asked.html else {})
    with progress(f"reading {Path(model).name}") as tell:
        diagnosis = _diagnosis(model, asked.against, asked.calibration, asked.mean, asked.std, tell)
        tell(f"profiling {Path(model).name}")
        found = api.profile(
            model,
            threads=asked.threads,
            kernels="default" if asked.xnnpack else "builtin",
            shape=shape_of(asked.shape),
            accelerators=split(asked.accelerator) or (),
        )
    write_files(found, wanted, diagnosis)
    shown = rows.of(found.operators)
    if asked.as_json:
        more = {"diagnosis": diagnosis.to_json()} if diagnosis else {}
        steps = replace(found, operators=shown).to_json()["operators"]
        print_json({**found.to_json(), "operators": steps, **more})
        return
    print_profile(
        found,
        everything=asked.everything,
        written=tuple(wanted.values()),
        diagnosis=diagnosis,
        steps=shown if asked.sort or asked.only else None,
    )


def _diagnosis(
    model: str, against: str | None, calibration: str | None, mean: str | None, std: str | None, tell: Tell
) -> Diagnosis | None:
    """Compare the file with the float file, if that is given.

    Raises:
        UsageError: options of this comparison without the float file.
    """
    from advisor import api

    if against is None:
        if calibration or mean or std:
            raise UsageError("--calibration, --mean and --std need --against", "name the float file with --against")
        return None
    tell(f"comparing {Path(model).name} with {Path(against).name}")
    means, stds = channels(mean, "--mean"), channels(std, "--std")
    return api.diagnose(model, against, calibration=calibration, mean=means, std=stds)

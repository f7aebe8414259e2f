"""The commands on ``.tflite`` files: ``benchmark`` and ``profile`` time them, ``compress`` makes
them smaller.

``_main.py`` registers them. Most options come from the tables of ``core``, which the public
functions share. A dataclass here has the other options of each command: those that the command
parses, ``--latency`` of ``compress``, and all options of ``profile``. The names of options and the
columns of tables are what users type, so they stay.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from advisor.cli import _options as options
from advisor.cli._options import annotations_of, argument, declare_options, option
from advisor.cli._output import print_json, progress
from advisor.cli._questions import with_readings
from advisor.cli._values import parse_channels, parse_numbers, parse_shape, split_values
from advisor.core import (
    BenchmarkKeywords,
    CompressKeywords,
    DeviceBenchmarkKeywords,
    ExitCode,
    UsageError,
    options_of,
)

HOST_OPTIONS = options_of(BenchmarkKeywords, "shape", "kernels", "cpus", "sustained_s", "pipeline")
"""Options of ``advisor benchmark`` for this machine's CPU, without those that are named here:
:class:`BenchmarkOptions` has them, and the command has no ``pipeline``.
"""

DEVICE_OPTIONS = options_of(DeviceBenchmarkKeywords, "threads", "effort")
"""Options for a device or another processor, without the two that are among
:data:`HOST_OPTIONS`, too.
"""

TIMING_COLUMNS = {
    "file": "0.model",
    "size_bytes": "0.size_bytes",
    "arena_bytes": "0.arena_bytes",
    "threads": "1.threads",
    "latency_median_ms": "1.wall.median",
    "latency_p90_ms": "1.wall.p90",
    "latency_cpu_ms": "1.cpu.median",
    "load_ms": "1.load_ms",
    "first_ms": "1.first_ms",
    "verdict": "1.verdict",
    "failure": "0.failure",
}
"""Columns of timings of files on this machine, by which users sort and filter."""

DEVICE_COLUMNS = {
    "file": "model",
    "device": "device",
    "threads": "threads",
    "latency_median_ms": "latency.value",
    "first_ms": "first_ms",
    "load_ms": "load_ms",
    "memory_bytes": "memory_bytes",
    "arena_bytes": "arena_bytes",
    "size_bytes": "size_bytes",
    "runtime": "runtime",
    "status": "status",
}
"""Columns of timings of files on devices."""

STEP_COLUMNS = {
    "position": "position",
    "type": "type",
    "where": "where",
    "time_us": "time_us",
    "time_share": "share",
    "macs": "node.macs",
    "moved_bytes": "node.bytes_moved",
    "gflops": "gflops",
    "output": "node.outputs.0",
}
"""Columns of the steps of a run."""

FORM_COLUMNS = {
    "form": "recipe",
    "status": "status",
    "size_bytes": "sizes.size_bytes",
    "download_bytes": "sizes.download_bytes",
    "arena_bytes": "sizes.arena_bytes",
    "accuracy_share": "agreement.accuracy.value",
    "drop_share": "agreement.drop.value",
    "agreement_share": "agreement.share.value",
    "snr_db": "agreement.snr_db",
    "latency_median_ms": "speed.latency_ms",
    "memory_bytes": "speed.memory_bytes",
    "verdict": "speed.verdict",
}
"""Columns of the forms of a file."""


@dataclass(frozen=True)
class BenchmarkOptions:
    """The options of ``advisor benchmark`` that it parses itself."""

    shape: options.Shape = None
    xnnpack: options.Xnnpack = True
    cpus: Annotated[str | None, option("NUMBERS", "Processors that run the threads: 0,1.")] = None
    sustained: Annotated[
        str | None,
        option(
            "TIME", "Also run for this time without a rest, such as 5min, to see it slow down."
        ),
    ] = None
    sort: options.Sort = ""
    only: options.Filter = None
    as_json: options.AsJson = False


@declare_options(annotations_of({**DEVICE_OPTIONS, **HOST_OPTIONS}))
def benchmark(
    models: Annotated[list[str], argument("MODEL", "One .tflite file, or several to compare.")],
    *,
    asked: BenchmarkOptions,
    **shared: Any,
) -> None:
    """Time .tflite files on this machine or on a device,
    and say whether the timings can be trusted.

    Several files are timed in turn, block by block. Each is compared with the first: a ratio with
    its interval. With --device the files are measured over the connection of its profile (or
    --ssh, --adb). If the device is not available, the latency is predicted, and the output says
    so.

    Example: advisor benchmark model.tflite --threads 1,2
    """
    from advisor.core import HOST
    from advisor.devices import canonical

    is_other_device = canonical(shared["device"] or "") not in ("", HOST)
    # This machine times files on its CPU alone.
    is_other_unit = shared["accelerator"] not in (None, "", "cpu")
    has_connection = any(shared[name] for name in ("ssh", "adb", "benchmark_model", "cores"))
    if is_other_device or is_other_unit or has_connection:
        _benchmark_there(models, asked, shared)
    else:
        _benchmark_here(models, asked, shared)


def _benchmark_here(models: list[str], asked: BenchmarkOptions, shared: dict[str, Any]) -> None:
    """Measure on this machine's CPU. Raises typer.Exit: a file could not be measured."""
    from advisor import api
    from advisor.core import units
    from advisor.reporting import Rows, print_benchmark

    rows = Rows.of_paths(TIMING_COLUMNS).select(asked.sort, asked.only)
    sustained_s = units.parse_seconds(asked.sustained, "--sustained") if asked.sustained else None
    with progress("reading the files") as tell:
        file_benchmark = api.benchmark(
            *models,
            shape=parse_shape(asked.shape),
            kernels="default" if asked.xnnpack else "builtin",
            cpus=parse_numbers(asked.cpus, "--cpus"),
            sustained_s=sustained_s,
            tell=tell,
            **{name: shared[name] for name in HOST_OPTIONS},
        )
    shown = rows.of(file_benchmark.timings)
    if asked.as_json:
        print_json(file_benchmark.select_timings(shown).to_json())
        _print_failures([file.failure for file in file_benchmark.failed])
    else:
        print_benchmark(file_benchmark, timed=shown)
    if file_benchmark.failed:
        raise typer.Exit(ExitCode.UNSATISFIED)


def _benchmark_there(models: list[str], asked: BenchmarkOptions, shared: dict[str, Any]) -> None:
    """Measure on a device, or predict for it.

    Raises typer.Exit: neither was possible for a file.
    """
    from advisor import api
    from advisor.reporting import Rows, print_device_benchmark

    cpu_only = {
        "--shape": asked.shape,
        "--no-xnnpack": not asked.xnnpack,
        "--runtime": shared["runtime"],
        "--cpus": asked.cpus,
        "--contended": shared["contended"],
        "--sustained": asked.sustained,
        "--image": shared["image"],
    }
    for name, value in cpu_only.items():
        if value:
            raise UsageError(
                f"{name} works only for this machine's CPU",
                f"leave out {name}, or leave out --device and --accelerator",
            )
    rows = Rows.of_paths(DEVICE_COLUMNS).select(asked.sort, asked.only)
    names = (*DEVICE_OPTIONS, "threads", "effort")
    with progress("reading the files") as tell:
        device_benchmark = api.benchmark_device(
            *models, tell=tell, **{name: shared[name] for name in names}
        )
    shown = replace(device_benchmark, rows=rows.of(device_benchmark.rows))
    if asked.as_json:
        print_json(shown.to_json())
        _print_failures([row.failure for row in device_benchmark.failed])
    else:
        print_device_benchmark(shown)
    measured = bool(device_benchmark.connection)
    if device_benchmark.failed:
        # Without a measurement nothing was spent, which is what the code of wrong usage promises.
        raise typer.Exit(ExitCode.UNSATISFIED if measured else ExitCode.USAGE)


def _print_failures(failures: Iterable[str]) -> None:
    for failure in failures:
        typer.echo(f"failed: {failure}", err=True)


@dataclass(frozen=True)
class ProfileOptions:
    """The options of ``advisor profile``."""

    threads: Annotated[int, option("N", "Number of CPU threads.")] = 1
    shape: options.Shape = None
    xnnpack: options.Xnnpack = True
    accelerator: Annotated[
        list[str] | None,
        option(
            "NAMES",
            "Also compute which operators this accelerator takes: edgetpu, ethos-u55, ...; repeat"
            " for more.",
        ),
    ] = None
    against: Annotated[
        str | None,
        option("FLOAT", "Float file that MODEL was made from; shows why MODEL is less accurate."),
    ] = None
    calibration: Annotated[
        str | None,
        option("DIR", "Folder of images that both files classify. Default: bundled photographs."),
    ] = None
    mean: options.Mean = None
    std: options.Std = None
    sort: options.Sort = ""
    only: options.Filter = None
    as_json: options.AsJson = False
    html: Annotated[str | None, option("FILE", "Write the page with plots to this file.")] = None
    out: Annotated[str | None, option("DIR", "Write the page and the JSON into this folder.")] = (
        None
    )
    everything: Annotated[
        bool, option("", "Show every operator, not only the slowest.", "--all")
    ] = False


def profile(
    model: Annotated[str, argument("MODEL", "A .tflite file.")], *, asked: ProfileOptions
) -> None:
    """Show where the time of a .tflite file goes, operator by operator, and what to do about it.

    Example: advisor profile model.tflite --html profile.html
    """
    from advisor import api
    from advisor.reporting import ProfileFiles, Rows, print_profile

    rows = Rows.of_paths(STEP_COLUMNS).select(asked.sort, asked.only)
    name = Path(model).name
    against = asked.against
    diagnosis = None
    # A place that cannot be written is an error before minutes of measuring.
    pages = {"html": Path(asked.html)} if asked.html else {}
    files = ProfileFiles.prepare_places(Path(asked.out) if asked.out else None, pages)
    with progress(f"reading {name}") as tell:
        if against is not None:
            tell(f"comparing {name} with {Path(against).name}")
            mean = parse_channels(asked.mean, "--mean")
            std = parse_channels(asked.std, "--std")
            diagnosis = api.diagnose(
                model, against, calibration=asked.calibration, mean=mean, std=std
            )
        elif asked.calibration or asked.mean or asked.std:
            raise UsageError(
                "--calibration, --mean and --std need --against",
                "name the float file with --against",
            )
        tell(f"profiling {name}")
        model_profile = api.profile(
            model,
            threads=asked.threads,
            kernels="default" if asked.xnnpack else "builtin",
            shape=parse_shape(asked.shape),
            accelerators=split_values(asked.accelerator) or (),
        )
    files.write_profile(model_profile, diagnosis)
    shown = rows.of(model_profile.operators)
    if asked.as_json:
        more = {"diagnosis": diagnosis.to_json()} if diagnosis else {}
        steps = replace(model_profile, operators=shown).to_json()["operators"]
        print_json({**model_profile.to_json(), "operators": steps, **more})
        return
    written = tuple(files.by_form.values())
    steps = shown if asked.sort or asked.only else None
    print_profile(
        model_profile,
        everything=asked.everything,
        written=written,
        diagnosis=diagnosis,
        steps=steps,
    )


@dataclass(frozen=True)
class CompressOptions:
    """The options of ``advisor compress`` that it parses itself."""

    recipe: Annotated[
        list[str],
        option(
            "NAMES",
            "Compression recipes, such as int8,rounded; repeat, or join by commas.",
            "--recipe",
            autocompletion=options.completion_of("compressions"),
        ),
    ]
    max_drop: Annotated[
        str | None,
        option("POINTS", "Points of accuracy that a file may lose, such as 0.5pt (needs --data)."),
    ] = None
    mean: options.Mean = None
    std: options.Std = None
    latency: Annotated[
        bool, option("", "Measure the latency of the files.", "--latency/--no-latency")
    ] = True
    time_limit: Annotated[
        str, option("TIME", "Time limit of a recipe that trains; the best result so far is used.")
    ] = "10min"
    sort: options.Sort = ""
    only: options.Filter = None
    as_json: options.AsJson = False


@declare_options(
    annotations_of(options_of(CompressKeywords, "max_drop_points", "mean", "std", "learn_s"))
)
def compress(
    model: Annotated[str, argument("MODEL", "A float .tflite file.")],
    *,
    asked: CompressOptions,
    **shared: Any,
) -> None:
    """Make compressed files of a float .tflite file and measure what each costs.

    A classifier or detector of images needs nothing else. Any other model needs --samples.

    Exit code 3: no file could be made that stays within --max-drop.

    Example: advisor compress model.tflite --recipe int8,float16 --data photos/ --max-drop 0.5pt
    """
    from advisor import api
    from advisor.core import units
    from advisor.reporting import Rows, print_compression

    rows = Rows.of_paths(FORM_COLUMNS).select(asked.sort, asked.only)

    def compress_with(**chosen: Any) -> Any:
        with progress(f"reading {model}") as tell:
            max_drop_points = (
                units.parse_points(asked.max_drop, "--max-drop") if asked.max_drop else None
            )
            return api.compress(
                model,
                split_values(asked.recipe) or (),
                max_drop_points=max_drop_points,
                mean=parse_channels(asked.mean, "--mean"),
                std=parse_channels(asked.std, "--std"),
                latency=asked.latency,
                learn_s=units.parse_seconds(asked.time_limit, "--time-limit"),
                tell=tell,
                **chosen,
            )

    compression = with_readings(compress_with, shared)
    shown = rows.of(compression.forms)
    if asked.as_json:
        print_json(replace(compression, forms=tuple(shown)).to_json())
    else:
        print_compression(compression, shown=shown)
    if not compression.good:
        raise typer.Exit(ExitCode.UNSATISFIED)

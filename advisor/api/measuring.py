"""Speed of ``.tflite`` files on this machine or on a device, operator by operator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from advisor.api.options import takes_options
from advisor.core.errors import StageError, UsageError
from advisor.core.options import BenchmarkKeywords, DeviceBenchmarkKeywords

if TYPE_CHECKING:
    from advisor.measurement.latency.findings import Benchmark
    from advisor.measurement.on_device.findings import DeviceBenchmark
    from advisor.measurement.operators.profile_values import Profile

Tell = Callable[[str], None]


@takes_options(BenchmarkKeywords, stated=True)
def benchmark(*models: str | Path, tell: Tell | None = None, **options: Unpack[BenchmarkKeywords]) -> Benchmark:
    """Measure one ``.tflite`` file on this machine's CPU, or several interleaved in one run.

    ::

        import advisor
        found = advisor.benchmark("a.tflite", "b.tflite", threads=(1, 2))
        print(found.ratios, found.files[0].advice)

    Args:
        models: one or more files.
        tell: called with a line about each step.

    Raises:
        UsageError: no file can be run, an option is invalid, or the machine is too busy. One of several files that
            cannot be run is a row with a ``failure``.
    """
    from advisor.measurement.latency import session

    options["threads"] = thread_counts(options["threads"])
    return session.benchmark(*models, tell=tell, **options)


@takes_options(DeviceBenchmarkKeywords, stated=True)
def benchmark_device(
    *models: str | Path, tell: Tell | None = None, **options: Unpack[DeviceBenchmarkKeywords]
) -> DeviceBenchmark:
    """Measure ``.tflite`` files on a device over its connection, or on this machine's GPU.

    If the device is not available, its latency is predicted. The result says so.

    ::

        import advisor
        print(advisor.benchmark_device("a.tflite", device="raspberry-pi-4").rows)

    Args:
        models: one or more files.
        tell: called with a line about each step.

    Raises:
        UsageError: an option is invalid, or no file can be measured.
    """
    from advisor.devices.connections.settings import ConnectionSettings
    from advisor.engine.targets import benchmarking

    settings = ConnectionSettings.from_options(
        options["ssh"], options["adb"], False, options["python"], options["benchmark_model"], options["cores"]
    )
    device, accelerator, counts = options["device"], options["accelerator"], thread_counts(options["threads"])
    return benchmarking.benchmark_device(
        models, device, accelerator, settings, options["profiles"], counts, options["effort"],
        tell or (lambda _text: None),
    )  # fmt: skip


def profile(
    model: str | Path,
    *,
    threads: int = 1,
    runs: int = 40,
    kernels: str = "default",
    shape: Sequence[int] | None = None,
    accelerators: Sequence[str] = (),
) -> Profile:
    """Measure the time of each operator of one ``.tflite`` file.

    ::

        import advisor
        found = advisor.profile("model.tflite")
        print(found.advice, found.top(5))

    Args:
        model: the file.
        threads: number of CPU threads.
        runs: number of profiled runs (fewer if they take more than 4 s).
        kernels: ``default`` (XNNPACK where it applies) or ``builtin``.
        shape: shape of the first input, if the file leaves it open.
        accelerators: also compute which operators each of these takes: ``edgetpu``, ``nnapi``, ``coreml``, ...;
            for ``ethos-u55``, ``ethos-u65-256``, ``ethos-u85:sram-only``, ... Arm's compiler estimates cycles.

    Raises:
        UsageError: the file is missing or damaged, or the runtime cannot run or profile it.
    """
    from advisor.measurement.operators import profile as operators

    try:
        return operators.profile(model, threads, runs=runs, kernels=kernels, shape=shape, accelerators=accelerators)
    except StageError as error:
        raise UsageError(error.message, error.hint) from error


def thread_counts(threads: Iterable[int | str]) -> tuple[int, ...]:
    """Return the thread counts as numbers; ``all`` is the number of cores that this process may use.

    Raises:
        UsageError: another text, or a number below 1.
    """
    return tuple(map(_count, threads))


def _count(given: int | str) -> int:
    if given == "all":
        from advisor.isolation.resources import usable_cores

        return usable_cores()
    text = str(given)
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"--threads: '{given}' is not a number of threads", "give numbers from 1, or 'all'")
    return int(text)

"""Speed of ``.tflite`` files on this machine or on a device, operator by operator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.core.errors import StageError, UsageError

if TYPE_CHECKING:
    from advisor.measurement.latency.findings import Benchmark
    from advisor.measurement.on_device.findings import DeviceBenchmark
    from advisor.measurement.operators.profile_values import Profile

Tell = Callable[[str], None]


def benchmark(
    *models: str | Path,
    threads: Sequence[int | str] = (1,),
    effort: str = "quick",
    shape: Sequence[int] | None = None,
    kernels: str = "default",
    runtime: str | None = None,
    cpus: Sequence[int] | None = None,
    contended: bool = False,
    sustained_s: float | None = None,
    pipeline: bool = True,
    image: str | Path | None = None,
    force: bool = False,
    tell: Tell | None = None,
) -> Benchmark:
    """Measure one ``.tflite`` file on this machine's CPU, or several interleaved in one run.

    ::

        import advisor
        found = advisor.benchmark("a.tflite", "b.tflite", threads=(1, 2))
        print(found.ratios, found.files[0].advice)

    Args:
        models: one or more files.
        threads: thread counts: numbers, or ``all``. Memory and loading are measured with the first.
        effort: ``quick`` (6 s for each file and thread count), ``normal`` (10 s) or ``full`` (60 s).
        shape: shape of the first input, if the file leaves it open.
        kernels: ``default`` (XNNPACK where it applies) or ``builtin``.
        runtime: another runtime, such as ``tflite-runtime==2.14.0``, installed in a separate environment.
        cpus: numbers of the processors that run the threads. Default: all.
        contended: also measure with a load on the other processors.
        sustained_s: also run for this many seconds without a rest.
        pipeline: also time the way from an image to an answer, if the file takes one image.
        image: image for the end-to-end timing. Default: a bundled photograph.
        force: measure on a busy machine, too.
        tell: called with a line about each step.

    Raises:
        UsageError: no file can be run, an option is invalid, or the machine is too busy. One of several files that
            cannot be run is a row with a ``failure``.
    """
    from advisor.measurement.latency import session

    return session.benchmark(
        *models,
        threads=thread_counts(threads),
        effort=effort,
        shape=shape,
        kernels=kernels,
        runtime=runtime,
        cpus=cpus,
        contended=contended,
        sustained_s=sustained_s,
        pipeline=pipeline,
        image=image,
        force=force,
        tell=tell,
    )


def benchmark_device(
    *models: str | Path,
    device: str = "",
    accelerator: str = "",
    ssh: str = "",
    adb: str = "",
    python: str = "python3",
    benchmark_model: str | Path | None = None,
    cores: str = "",
    threads: Sequence[int | str] = (),
    effort: str = "quick",
    profiles: Sequence[str | Path] = (),
    tell: Tell | None = None,
) -> DeviceBenchmark:
    """Measure ``.tflite`` files on a device over its connection, or on this machine's GPU.

    If the device is not available, its latency is predicted. The result says so.

    ::

        import advisor
        print(advisor.benchmark_device("a.tflite", device="raspberry-pi-4").rows)

    Args:
        models: one or more files.
        device: name of a device profile, or ``name:target``; several runtimes of this machine, such as
            ``host:litert,host:onnxruntime``, are compared in turn. Default: this machine.
        accelerator: ``cpu``, ``gpu``, ``npu`` or ``tpu``: the kind of target, if ``device`` names none.
        ssh: host to connect to over ssh: ``host``, ``user@host``, or a name of your ssh configuration.
        adb: serial of the phone to connect to over adb.
        python: Python interpreter of the device that has a TFLite runtime (ssh).
        benchmark_model: TensorFlow Lite's ``benchmark_model`` for the phone's processor (adb).
        cores: hexadecimal mask of the cores that run the models (adb).
        threads: thread counts: numbers, or ``all``. Default: the thread count of the target.
        effort: ``quick``, ``normal`` or ``full``.
        profiles: further folders of your own device profiles.
        tell: called with a line about each step.

    Raises:
        UsageError: an option is invalid, or no file can be measured.
    """
    from advisor.devices.connections.settings import ConnectionSettings
    from advisor.engine.targets import benchmarking

    settings = ConnectionSettings.from_options(ssh, adb, False, python, benchmark_model, cores)
    say = tell or (lambda _text: None)
    counts = thread_counts(threads)
    return benchmarking.benchmark_device(models, device, accelerator, settings, profiles, counts, effort, say)


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

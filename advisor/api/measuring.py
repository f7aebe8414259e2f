"""How fast a file is, here or on a device, and where its time goes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from advisor.measurement.latency.findings import Benchmark
    from advisor.measurement.on_device.findings import DeviceBenchmark
    from advisor.measurement.operators.profile_values import Profile


def benchmark(*models: str | Path, **options: Any) -> Benchmark:
    """Measure one ``.tflite`` file on this machine's CPU, or several interleaved in one run.

    ::

        from advisor import benchmark
        found = benchmark("a.tflite", "b.tflite", threads=(1, 2))
        print(found.ratios, found.files[0].advice)

    Args:
        models: one or more files.
        options: ``threads``, ``effort``, ``shape``, ``kernels``, ``runtime``, ``contended``, ``sustained_s``,
            ``pipeline``, ``picture``, ``force``, as ``measurement.latency.session.benchmark`` explains them.

    Raises:
        UsageError: a file cannot be run, an option is not valid, or the machine is not fit for timing.
    """
    from advisor.measurement.latency.session import benchmark as measured

    return measured(*models, **options)


def benchmark_device(*models: str | Path, **options: Any) -> DeviceBenchmark:
    """Measure ``.tflite`` files on a device over its connection, or on this machine's GPU; predict where there is none.

    ::

        from advisor.api import benchmark_device
        print(benchmark_device("a.tflite", device="raspberry-pi-4").rows)

    Args:
        models: one or more files.
        options: ``device`` (a name or ``name:target``), ``accelerator``, ``reach``, ``profiles``, ``threads``,
            ``effort``, as :func:`advisor.engine.targets.benchmarking.elsewhere` explains them.

    Raises:
        UsageError: an option is not valid, or not one file can be measured.
    """
    from advisor.engine.targets.benchmarking import elsewhere

    return elsewhere(models, **options)


def profile(model: str | Path, **options: Any) -> Profile:
    """Find where the time of one ``.tflite`` file goes, operator by operator.

    ::

        from advisor import profile
        found = profile("model.tflite")
        print(found.advice, found.top(5))

    Args:
        model: the file.
        options: ``threads``, ``runs``, ``kernels``, ``shape``, ``accelerators``, as
            :func:`advisor.measurement.operators.operators.profile` explains them.

    Raises:
        UsageError: the file is missing or damaged, or the runtime cannot run or profile it.
    """
    from advisor.core.errors import StageError, UsageError
    from advisor.measurement.operators.profile import profile as profiled

    try:
        return profiled(model, **options)
    except StageError as error:
        raise UsageError(error.message, error.hint) from error

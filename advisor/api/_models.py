"""The public functions for your own files and images: compress, diagnose, time and profile a file,
find faults in images.

``cli/_files.py`` calls them for the commands on ``.tflite`` files. The others are called by
``advisor data check``, ``advisor catalog add`` and ``advisor catalog list --front``, and by what
prints devices. ``_caches.py`` shares :func:`cache_bytes`. Each function turns the options into
values, checks them, and has the work done by ``engine`` or ``measurement``. Signatures and the
sections of docstrings stay: they are the reference for users.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from advisor.core import (
    BenchmarkKeywords,
    CheckDataKeywords,
    CompressKeywords,
    DeviceBenchmarkKeywords,
    StageError,
    takes_options,
    units,
)

if TYPE_CHECKING:
    from advisor.catalog import Card, listing
    from advisor.core import Diagnosis
    from advisor.devices import DeviceProfile, DeviceTarget
    from advisor.engine import Compression, DataCheck, FileAgreement
    from advisor.measurement import Accelerator, DeviceBenchmark, Profile, session

Tell = Callable[[str], None]
"""Called with a line about each step."""


@takes_options(CompressKeywords, stated=True)
def compress(
    model: str | Path,
    recipes: Sequence[str],
    *,
    latency: bool = True,
    tell: Callable[[str], None] | None = None,
    **options: Unpack[CompressKeywords],
) -> Compression:
    """Make compressed files of a float ``.tflite`` and measure what each costs.

    ::

        import advisor
        compression = advisor.compress("model.tflite", ["int8", "float16"], data="photos")
        print([(form.recipe, form.sizes, form.agreement) for form in compression.forms])

    Args:
        model: the float file.
        recipes: names of compression recipes.
        latency: also measure the latency of the files.
        tell: called with a line about each step.

    Raises:
        UsageError: the file, a recipe, the images or a limit is invalid, or files are in the way.
            Nothing is made.
    """
    from advisor.engine import compress as compress_model, prepare_compression

    size = cache_bytes(options.pop("cache_size"))
    question = prepare_compression(Path(model), recipes, **options)
    return compress_model(question, tell or (lambda _text: None), latency, size)


def judge(
    model: str | Path,
    data: str | Path,
    *,
    seed: int = 0,
    tell: Callable[[str], None] | None = None,
) -> tuple[str, FileAgreement]:
    """Measure the accuracy of a float ``.tflite`` classifier or detector on your images.

    ::

        from advisor.api import judge
        images, agreement = judge("detector.tflite", "boxes")
        print(images, agreement.accuracy)

    Args:
        model: the float file, with labels and normalisation.
        data: labelled images: class folders for a classifier, boxes for a detector. The hold-out
            counts, as a search with the same seed draws it.
        seed: of the draw.
        tell: called with a line about each step.

    Returns:
        The source of the judged images in words, and the accuracy.

    Raises:
        UsageError: the file or the images are not usable, or the file does not know a class of the
            images.
    """
    from advisor.engine import judge_float, prepare_compression

    question = prepare_compression(Path(model), (), judged_only=True, data=data, seed=seed)
    return question.images.scored_source, judge_float(question, tell or (lambda _text: None))


def warn_of_input(card: Card, data: str | Path) -> str:
    """Return a warning if a classifier of your own scales its input twice,
    tried on 20 labelled images; else nothing.

    Raises:
        UsageError: the images cannot be listed.
    """
    from advisor.engine import warn_of_input as warn

    return warn(card, Path(data))


def diagnose(
    model: str | Path,
    against: str | Path,
    *,
    calibration: str | Path | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> Diagnosis:
    """Find out why a quantized file is less accurate, or slower,
    than the float file that it was made from.

    ::

        import advisor
        print(*advisor.diagnose("model-int8.tflite", "model.tflite", calibration="photos").verdict,
        sep="\\n")

    Args:
        model: the quantized file.
        against: the float file.
        calibration: folder of images that both files classify. Default: bundled photographs.
        mean: value subtracted from RGB 0..255, one number or three. Default: the value in one of
            the files.
        std: value that the difference is divided by. Default: the value in one of the files.

    Raises:
        UsageError: a file is missing or damaged, the files do not belong together, or the
            normalization is unknown.
    """
    from advisor.engine import diagnose as diagnose_files

    return diagnose_files(
        Path(model), Path(against), None if calibration is None else Path(calibration), mean, std
    )


@takes_options(CheckDataKeywords, stated=True)
def check_data(
    data: str | Path,
    *,
    tell: Callable[[str], None] | None = None,
    **options: Unpack[CheckDataKeywords],
) -> DataCheck:
    """Find faults in a set of images or of boxes: unreadable, repeated, wrongly labelled.
    No image is changed.

    ::

        import advisor
        checked = advisor.check_data("photos", fix="cleaned.csv")
        print([finding.message for finding in checked.findings])

    Args:
        data: a folder, a CSV or Parquet manifest, or a file with images (zip, tar, ...), also in
            an object store (``s3://``, ``gs://``); for boxes also a COCO file.
        tell: called with a line about each step.

    Raises:
        UsageError: ``data`` is missing or cannot be read as a data set, the task or the card is
            unknown, or ``fix`` exists or cannot be written.
    """
    from advisor.engine import check_data as check

    return check(Path(data), options, tell or (lambda _text: None))


@takes_options(BenchmarkKeywords, stated=True)
def benchmark(
    *models: str | Path, tell: Tell | None = None, **options: Unpack[BenchmarkKeywords]
) -> session.Benchmark:
    """Measure one ``.tflite`` file on this machine's CPU, or several interleaved in one run.

    ::

        import advisor
        timings = advisor.benchmark("a.tflite", "b.tflite", threads=(1, 2))
        print(timings.ratios, timings.files[0].advice)

    Args:
        models: one or more files.
        tell: called with a line about each step.

    Raises:
        UsageError: no file can be run, an option is invalid, or the machine is too busy. One of
            several files that cannot be run is a row with a ``failure``.
    """
    from advisor.measurement import session

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
    from advisor.devices import ConnectionSettings
    from advisor.measurement import benchmark_device as measure_on_device

    settings = ConnectionSettings.from_options(
        options["ssh"],
        options["adb"],
        False,
        options["python"],
        options["benchmark_model"],
        options["cores"],
    )
    device = options["device"]
    accelerator = options["accelerator"]
    return measure_on_device(
        models,
        device,
        accelerator,
        settings,
        options["profiles"],
        options["threads"],
        options["effort"],
        tell or (lambda _text: None),
        {name: options[name] for name in ("upload", "upload_images", "cloud_limit")},
    )


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
        steps = advisor.profile("model.tflite")
        print(steps.advice, steps.top(5))

    Args:
        model: the file.
        threads: number of CPU threads.
        runs: number of profiled runs (fewer if they take more than 4 s).
        kernels: ``default`` (XNNPACK where it applies) or ``builtin``.
        shape: shape of the first input, if the file leaves it open.
        accelerators: also compute which operators each of these takes: ``edgetpu``, ``nnapi``,
            ``coreml``, ...; for ``ethos-u55``, ``ethos-u65-256``, ``ethos-u85:sram-only``, ...
            Arm's compiler estimates cycles.

    Raises:
        UsageError: the file is missing or damaged, or the runtime cannot run or profile it.
    """
    from advisor.measurement import profile as operators

    try:
        return operators.profile(
            model, threads, runs=runs, kernels=kernels, shape=shape, accelerators=accelerators
        )
    except StageError as error:
        # The file is the user's own, so one that cannot run is wrong input,
        # and no failed step of ours.
        raise error.blame_file(Path(model).name) from error


def card_front(
    device: str = "host",
    *,
    rows: Sequence[listing.CardRow] | None = None,
    profiles: Sequence[str | Path] = (),
    tell: Tell | None = None,
) -> tuple[listing.CardRow, ...]:
    """Return the cards that no other card beats in published top-1 and in latency on a device,
    the fastest first.

    On this machine, each card that may be among them is built with random weights and timed, which
    takes a minute or two. The graphs are kept. Latencies on another device are predicted.

    Args:
        device: ``host``, another device, or ``DEVICE:TARGET``.
        rows: the cards to choose from. Default: all of :func:`advisor.catalog.list_cards`.
        profiles: further folders of your own device profiles.
        tell: called with a line about each step.

    Raises:
        UsageError: no device has this name, nothing comparable to it is known, or this machine is
            too busy.
    """
    from advisor import catalog
    from advisor.engine import card_front as front

    chosen = catalog.list_cards() if rows is None else rows
    return front.card_front(chosen, device, profiles, tell or (lambda _text: None))


def cache_bytes(size: str | None) -> int | None:
    """Return the limit of the cache in bytes; None for the usual.
    UsageError if the text is no size.
    """
    return None if size is None else units.size_bytes(size, "--cache-size")


def list_accelerators(profile: DeviceProfile, target: DeviceTarget) -> tuple[Accelerator, ...]:
    """Return the accelerators that a target of a device uses;
    none for a CPU, which runs every operator.
    """
    from advisor.measurement import Accelerator

    return () if target.accelerator == "cpu" else Accelerator.list_serving(profile, target)

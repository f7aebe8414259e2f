"""Your own model and images: compress a model, diagnose a compressed file, find faults in images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.core.tasks import DEFAULT_TASK

if TYPE_CHECKING:
    from advisor.compression.diagnosis.values import Diagnosis
    from advisor.compression.user_model.values import Compression, FileAgreement
    from advisor.engine.data_check import DataCheck


def compress(
    model: str | Path,
    recipes: Sequence[str],
    *,
    calibration: str | Path | None = None,
    data: str | Path | None = None,
    samples: str | Path | None = None,
    max_drop_points: float | None = None,
    to: str | Path | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    seed: int = 0,
    latency: bool = True,
    accelerator: str = "xnnpack",
    learn_s: float = 600.0,
    force: bool = False,
    tell: Callable[[str], None] | None = None,
) -> Compression:
    """Make compressed files of a float ``.tflite`` and measure what each costs.

    ::

        import advisor
        found = advisor.compress("model.tflite", ["int8", "float16"], data="photos")
        print([(form.recipe, form.sizes, form.agreement) for form in found.forms])

    Args:
        model: the float file.
        recipes: names of compression recipes.
        calibration: folder of calibration images. Default: the images of ``data``, else bundled photographs.
        data: folder of labelled images with one sub-folder for each class, or images with boxes for a detector;
            measures accuracy.
        samples: ``.npz`` file with an array for each input of the model, for a model that is no classifier or detector
            of images. Forms are then compared with the float file by their outputs.
        max_drop_points: percentage points of accuracy that a file may lose against float. Needs ``data``.
        to: folder for the files. Default: ``MODEL-forms``.
        mean: value subtracted from RGB 0..255, one number or three. Default: the value in the file.
        std: value that the difference is divided by. Default: the value in the file.
        seed: seed of all random draws.
        latency: also measure the latency of the files.
        accelerator: accelerator whose operators are counted: ``xnnpack`` (the CPU), ``edgetpu``, ``nnapi``, ...
        learn_s: time limit of a recipe that trains, in seconds. The best result so far is used.
        force: replace files that exist.
        tell: called with a line about each step.

    Raises:
        UsageError: the file, a recipe, the images or a limit is invalid, or files are in the way. Nothing is made.
    """
    from advisor.compression.user_model.compress import compress as made
    from advisor.compression.user_model.question import ask

    question = ask(
        Path(model), recipes, calibration=_path(calibration), data=_path(data), samples=_path(samples),
        max_drop_points=max_drop_points, to=_path(to), mean=mean, std=std, seed=seed, target=accelerator,
        learn_s=learn_s, force=force,
    )  # fmt: skip
    return made(question, tell or (lambda _text: None), latency)


def judge(
    model: str | Path, data: str | Path, *, seed: int = 0, tell: Callable[[str], None] | None = None
) -> tuple[str, FileAgreement]:
    """Measure the accuracy of a float ``.tflite`` classifier or detector on your images.

    ::

        from advisor.api.models import judge
        images, found = judge("detector.tflite", "boxes")
        print(images, found.accuracy)

    Args:
        model: the float file, with labels and normalisation.
        data: labelled images: class folders for a classifier, boxes for a detector. The hold-out counts, as a search
            with the same seed draws it.
        seed: of the draw.
        tell: called with a line about each step.

    Returns:
        The source of the judged images in words, and the accuracy.

    Raises:
        UsageError: the file or the images are not usable, or the file does not know a class of the images.
    """
    from advisor.compression.user_model.compress import judge as judged
    from advisor.compression.user_model.question import ask

    question = ask(Path(model), (), data=Path(data), seed=seed, judged_only=True)
    return question.images.scored_source, judged(question, tell or (lambda _text: None))


def diagnose(
    model: str | Path,
    against: str | Path,
    *,
    calibration: str | Path | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> Diagnosis:
    """Find out why a quantized file is less accurate, or slower, than the float file that it was made from.

    ::

        import advisor
        print(*advisor.diagnose("model-int8.tflite", "model.tflite", calibration="photos").verdict, sep="\\n")

    Args:
        model: the quantized file.
        against: the float file.
        calibration: folder of images that both files classify. Default: bundled photographs.
        mean: value subtracted from RGB 0..255, one number or three. Default: the value in one of the files.
        std: value that the difference is divided by. Default: the value in one of the files.

    Raises:
        UsageError: a file is missing or damaged, the files do not belong together, or the normalization is unknown.
    """
    from advisor.compression.diagnosis.diagnose import diagnose as diagnosed

    return diagnosed(Path(model), Path(against), _path(calibration), mean, std)


def check_data(
    data: str | Path,
    *,
    labels: bool = True,
    card: str = "",
    catalog: Sequence[str | Path] = (),
    offline: bool = False,
    mirror: str = "",
    fix: str | Path | None = None,
    tell: Callable[[str], None] | None = None,
    task: str = DEFAULT_TASK,
) -> DataCheck:
    """Find faults in a set of images or of boxes: unreadable, repeated, wrongly labelled. No image is changed.

    ::

        import advisor
        checked = advisor.check_data("photos", fix="cleaned.csv")
        print([finding.message for finding in checked.findings])

    Args:
        data: a folder, or a CSV or Parquet manifest; for boxes also a COCO file.
        labels: look for wrong labels and for crops, with the features of a network.
        card: model card of this network. Default: the best one whose weights are on this machine.
        catalog: your own catalogue files.
        offline: open no connection.
        mirror: folder or address of weights that is asked first.
        fix: manifest (CSV) to write without the suspects.
        tell: called with a line about each step.
        task: as ``--task`` of a search; ``object-detection`` and ``object-counting`` need images with boxes.

    Raises:
        UsageError: ``data`` is missing or cannot be read as a data set, the task or the card is unknown, or ``fix``
            exists or cannot be written.
    """
    from advisor.datasets.checks.fix import writable
    from advisor.engine import data_check

    manifest = writable(Path(fix)) if fix else None
    checker = data_check.LabelChecker(card, tuple(Path(path) for path in catalog), offline, mirror) if labels else None
    checked = data_check.check_data(Path(data), checker, tell or (lambda _text: None), task)
    if manifest:
        checked.write_manifest(manifest)
    return checked


def _path(given: str | Path | None) -> Path | None:
    return None if given is None else Path(given)

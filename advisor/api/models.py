"""Your own model and images: compress a model, diagnose a compressed file, find faults in images."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from advisor.api.options import takes_options
from advisor.core.options import CheckDataKeywords, CompressKeywords

if TYPE_CHECKING:
    from advisor.compression.diagnosis.values import Diagnosis
    from advisor.compression.user_model.values import Compression, FileAgreement
    from advisor.engine.data_check import DataCheck


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
        found = advisor.compress("model.tflite", ["int8", "float16"], data="photos")
        print([(form.recipe, form.sizes, form.agreement) for form in found.forms])

    Args:
        model: the float file.
        recipes: names of compression recipes.
        latency: also measure the latency of the files.
        tell: called with a line about each step.

    Raises:
        UsageError: the file, a recipe, the images or a limit is invalid, or files are in the way. Nothing is made.
    """
    from advisor.engine.compress.compress import compress as made
    from advisor.engine.compress.question import ask

    return made(ask(Path(model), recipes, **options), tell or (lambda _text: None), latency)


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
    from advisor.engine.compress.compress import judge as judged
    from advisor.engine.compress.question import ask

    question = ask(Path(model), (), judged_only=True, data=data, seed=seed)
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


@takes_options(CheckDataKeywords, stated=True)
def check_data(
    data: str | Path, *, tell: Callable[[str], None] | None = None, **options: Unpack[CheckDataKeywords]
) -> DataCheck:
    """Find faults in a set of images or of boxes: unreadable, repeated, wrongly labelled. No image is changed.

    ::

        import advisor
        checked = advisor.check_data("photos", fix="cleaned.csv")
        print([finding.message for finding in checked.findings])

    Args:
        data: a folder, or a CSV or Parquet manifest; for boxes also a COCO file.
        tell: called with a line about each step.

    Raises:
        UsageError: ``data`` is missing or cannot be read as a data set, the task or the card is unknown, or ``fix``
            exists or cannot be written.
    """
    from advisor.datasets.checks.fix import writable
    from advisor.engine import data_check

    manifest, checker = writable(Path(options["fix"])) if options["fix"] else None, None
    if options["labels"]:
        catalog = tuple(Path(path) for path in options["catalog"])
        checker = data_check.LabelChecker(options["card"], catalog, options["offline"], options["mirror"])
    checked = data_check.check_data(Path(data), checker, tell or (lambda _text: None), options["task"])
    if manifest:
        checked.write_manifest(manifest)
    return checked


def _path(given: str | Path | None) -> Path | None:
    return None if given is None else Path(given)

"""Your own model: compress it, and find out what a compressed file loses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from advisor.compression.diagnosis.values import Diagnosis
    from advisor.compression.user_model.values import Compression


def compress(
    model: str | Path,
    recipes: Sequence[str],
    *,
    calibration: str | Path | None = None,
    data: str | Path | None = None,
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
    """Make compressed files of a float ``.tflite`` classifier and measure what each costs.

    ::

        import advisor
        found = advisor.compress("model.tflite", ["int8", "float16"], data="photos")
        print([(form.recipe, form.sizes, form.likeness) for form in found.forms])

    Args:
        model: the float file.
        recipes: names of compression recipes.
        calibration: folder of calibration images. Default: the images of ``data``, else bundled photographs.
        data: folder of labelled images with one sub-folder for each class; measures accuracy.
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
        Path(model), recipes, calibration=_path(calibration), data=_path(data), max_drop_points=max_drop_points,
        to=_path(to), mean=mean, std=std, seed=seed, target=accelerator, learn_s=learn_s, force=force,
    )  # fmt: skip
    return made(question, tell or (lambda _text: None), latency)


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
    from advisor.compression.diagnosis.request import diagnose as diagnosed

    return diagnosed(Path(model), Path(against), _path(calibration), mean, std)


def _path(given: str | Path | None) -> Path | None:
    return None if given is None else Path(given)

"""A model of your own: made smaller, and looked at for what its smaller forms lose."""

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
    """Make forms of a float ``.tflite`` classifier and say what each costs.

    ::

        from advisor.api import compress
        found = compress("model.tflite", ["int8", "float16"], data="photos")
        print([(form.recipe, form.sizes, form.likeness) for form in found.forms])

    Args:
        model: the float file.
        recipes: names of recipes.
        calibration: folder of pictures to calibrate on; without it those of ``data``, else bundled photographs.
        data: folder of labelled pictures, one folder a class, to measure accuracy on.
        max_drop_points: what a form may lose against float; recipes that score or train work towards it.
        to: folder for the forms, ``MODEL-forms`` by default.
        mean: subtracted from RGB 0..255, one number or three; by default what the file says.
        std: what the difference is divided by.
        seed: of every draw.
        latency: also time the forms.
        accelerator: whose operators are counted, such as ``edgetpu``.
        learn_s: how long a recipe that learns may take; it gives the best that it has by then.
        force: replace forms that are there.
        tell: told what is being done.

    Raises:
        UsageError: as :func:`advisor.compression.user_model.question.ask` says; nothing is made then.
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
    """Say why a quantized file answers worse, or runs slower, than the float file that it was made from.

    ::

        from advisor.api import diagnose
        print(*diagnose("model-int8.tflite", "model.tflite", calibration="photos").verdict, sep="\\n")

    Args:
        model: the quantized file.
        against: the float file.
        calibration: folder of pictures to run both on; bundled photographs without it.
        mean: subtracted from RGB 0..255, one number or three; by default what one of the files says.
        std: what the difference is divided by.

    Raises:
        UsageError: a file is missing or damaged, they do not fit each other, or nobody says how they read pictures.
    """
    from advisor.compression.diagnosis.request import diagnose as diagnosed

    return diagnosed(Path(model), Path(against), _path(calibration), mean, std)


def _path(given: str | Path | None) -> Path | None:
    return None if given is None else Path(given)

"""What a recipe uses besides the float file, and what it returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.compression.quantization.observe import Observer
from advisor.core.errors import StageError
from advisor.datasets.images import InputSpec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class TrainingImages:
    """Labelled images for recipes that score files or train weights; they never include the hold-out.

    Attributes:
        paths: the training part.
        labels: its class indices.
        classes: number of classes.
        spec: how an image becomes the model's input.
        seed: of every draw.
        validation_paths: images to score files on; nothing is trained on them.
        validation_labels: their class indices.
    """

    paths: tuple[Path, ...]
    labels: tuple[int, ...]
    classes: int
    spec: InputSpec
    seed: int = 0
    validation_paths: tuple[Path, ...] = ()
    validation_labels: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        sides = ((self.paths, self.labels), (self.validation_paths, self.validation_labels))
        if any(len(paths) != len(labels) for paths, labels in sides):
            raise StageError("each training image needs one label")


@dataclass(frozen=True, eq=False)
class RecipeInputs:
    """What a recipe may use besides the float file.

    Attributes:
        calibration: normalised images, float32 (n, S, S, 3); None if there are none.
        images: the user's labelled images; None without ``--data``.
        max_drop_points: points of top-1 that a file may lose against float32; None for no limit.
        seconds: time that a recipe that scores or trains may take; it then returns the best result so far.
        observer: keeps the activations on the calibration images; pass the same one for all recipes of a model.
        decided: notes of the same recipe on a similar model; the recipe reuses its choices.
    """

    calibration: NDArray[np.float32] | None = None
    images: TrainingImages | None = None
    max_drop_points: float | None = None
    seconds: float = 600.0
    observer: Observer = field(default_factory=Observer)
    decided: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Compressed:
    """A compressed file.

    Attributes:
        data: the ``.tflite``.
        notes: what the recipe did and found, as JSON can hold it; empty if its name says all.
    """

    data: bytes
    notes: Mapping[str, Any] = field(default_factory=dict)

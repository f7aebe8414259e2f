"""What a recipe works from besides the float file, and what it gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from advisor.compression.quantization.observe import Observer
from advisor.core.errors import StageError
from advisor.datasets.images import InputSpec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class TrainingImages:
    """Labelled images for recipes that score forms or train weights; the hold-out is never among them.

    Attributes:
        paths: the training part.
        labels: its class indices.
        classes: number of classes.
        view: how an image becomes the model's input.
        seed: of every draw.
        validation_paths: images that forms are judged on and that nothing is learnt from.
        validation_labels: their class indices.
    """

    paths: tuple[Path, ...]
    labels: tuple[int, ...]
    classes: int
    view: InputSpec
    seed: int = 0
    validation_paths: tuple[Path, ...] = ()
    validation_labels: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        sides = ((self.paths, self.labels), (self.validation_paths, self.validation_labels))
        if any(len(paths) != len(labels) for paths, labels in sides):
            raise StageError("each training image needs one label")


@dataclass(frozen=True, eq=False)
class RecipeInputs:
    """What is at hand for a recipe.

    Attributes:
        calibration: normalised images, float32 (n, S, S, 3); None where there are none.
        images: the team's labelled images; None without ``--data``.
        max_drop_points: points of top-1 that a form may lose against float32; None where no limit was given.
        seconds: how long a recipe that scores or trains may take; it gives the best that it has by then.
        observer: keeps what the calibration images showed; hand the same one to all forms of a model.
        decided: notes of the same recipe on a like model, whose choices it takes over instead of choosing again.
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
        notes: what the recipe did and found, as JSON can hold it; empty where the name says all.
    """

    data: bytes
    notes: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

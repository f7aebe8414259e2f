"""Define what a compression recipe is, what it uses besides the float file, and what it returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any

from advisor.compression.quantization.grid import Grids
from advisor.compression.quantization.observe import Inputs, Observer
from advisor.compression.recipes.suitable import require_plain_float
from advisor.core.errors import StageError, UnsupportedRecipe
from advisor.datasets.images import InputSpec


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
    """Inputs of a recipe besides the float file.

    Attributes:
        calibration: normalised images, float32 (n, S, S, 3), or an array for each input; None if there are none.
        images: the user's labelled images; None without ``--data``.
        max_drop_points: points of top-1 that a file may lose against float32; None for no limit.
        seconds: time limit of the user's for a recipe that scores or trains; it then returns the best result so far.
            None leaves only the recipe's own limit of work: equal inputs then give equal files.
        observer: keeps the activations on the calibration images; pass the same one for all recipes of a model.
        decided: notes of the same recipe on a similar model; the recipe reuses its choices.
    """

    calibration: Inputs | None = None
    images: TrainingImages | None = None
    max_drop_points: float | None = None
    seconds: float | None = None
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


class Needs(IntEnum):
    """Needs of a recipe besides the float file; each level includes the ones before and takes longer."""

    FILE = 0
    CALIBRATION = 1
    SCORING = 2
    TRAINING = 3


class Recipe(ABC):
    """One way to make a float model smaller or faster.

    Attributes:
        name: as users and file names write it.
        version: raised whenever the same input would give other bytes.
        description: one line for help and reports.
        needs_calibration: the recipe needs images, labelled or not.
        grids: the grid that it corrects weights for; None if it corrects none.
        needs: what the recipe needs, as a level. One that trains is skipped without labelled images.
        after: a lighter recipe that is tried first; this one is tried only if that one loses too much. Empty for none.
    """

    name: str
    version = 1
    description: str
    needs_calibration = False
    grids: Grids | None = None
    needs = Needs.FILE
    after = ""

    @abstractmethod
    def convert(self, model: bytes, inputs: RecipeInputs, /) -> Compressed:
        """Return the compressed file, with notes if there are any."""

    def make(self, model: bytes, inputs: RecipeInputs) -> Compressed:
        """Return the compressed file after checking that the recipe applies.

        Args:
            model: a float ``.tflite`` with fixed shapes.
            inputs: what the recipe may use.

        Raises:
            UnsupportedRecipe: the model is already quantized, has open shapes, custom operators or several graphs; or
                the recipe needs labelled images and there are none.
            StageError: calibration images are missing or have another shape than the model's input.
            UsageError: the file is damaged.
        """
        require_plain_float(model, self.name)
        if self.needs is Needs.TRAINING and inputs.images is None:
            raise UnsupportedRecipe(
                f"{self.name} needs labelled images, and none were given", "give a folder of images with --data"
            )
        return self.convert(model, inputs)

    def apply(self, model: bytes, calibration: Inputs | None = None) -> bytes:
        """Return the compressed file without its notes; see :meth:`make`."""
        return self.make(model, RecipeInputs(calibration)).data


class Edit(Recipe):
    """A recipe that edits the file and needs nothing else.

    Args:
        name: the recipe's name.
        edit: takes the float file, returns the edited one.
        description: one line.
    """

    def __init__(self, name: str, edit: Callable[[bytes], bytes], description: str) -> None:
        self.name, self.description = name, description
        self._edit = edit

    def convert(self, model: bytes, _inputs: RecipeInputs, /) -> Compressed:
        """Return the edited file."""
        return Compressed(self._edit(model))


def lighter_recipes(name: str, recipes: Mapping[str, Recipe], named: Collection[str] = ()) -> tuple[str, ...]:
    """Return the recipes of a search whose results decide whether ``name`` is tried, the lightest first.

    None decides on a recipe that the user ``named``: it is always tried.
    """
    found: list[str] = []
    if name in named:
        return ()
    before = recipes[name].after
    while before in recipes and before not in found:
        found.insert(0, before)
        before = recipes[before].after
    return tuple(found)

"""What a compression recipe is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING

from advisor.compression.recipes.inputs import Compressed, RecipeInputs, TrainingImages
from advisor.compression.recipes.suitable import require_plain_float
from advisor.core.errors import UnsupportedRecipe

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Calibration = NDArray[np.float32]


class Rung(IntEnum):
    """How much a recipe asks for, lightest first."""

    FILE = 0
    CALIBRATED = 1
    SCORED = 2
    TRAINED = 3


class Recipe(ABC):
    """One way to make a float model smaller or faster.

    Attributes:
        name: as users and file names write it.
        version: raised whenever the same input would give other bytes.
        description: one line for help and reports.
        needs_calibration: images must be given, labelled or not.
        needs_images: labelled images must be given; without them the recipe is skipped.
        rung: how much it asks for.
        after: the lighter recipe whose loss is the evidence for trying this one; empty where it needs none.
    """

    name: str
    version = 1
    description: str
    needs_calibration = False
    needs_images = False
    rung = Rung.FILE
    after = ""

    @abstractmethod
    def convert(self, model: bytes, material: RecipeInputs, /) -> bytes | Compressed:
        """Return the compressed file, with notes where there are any."""

    def make(self, model: bytes, material: RecipeInputs) -> Compressed:
        """Return the compressed file, after a check that the recipe applies.

        Args:
            model: a float ``.tflite`` with fixed shapes.
            material: what the recipe may use.

        Raises:
            UnsupportedRecipe: the model is quantized already, has open shapes, custom operators or several graphs; or
                the recipe needs labelled images and there are none.
            StageError: calibration images are missing or do not fit.
            UsageError: the file is damaged.
        """
        require_plain_float(model, self.name)
        if self.needs_images and material.images is None:
            raise UnsupportedRecipe(
                f"{self.name} needs labelled images, and none were given", "give a folder of images with --data"
            )
        made = self.convert(model, material)
        return made if isinstance(made, Compressed) else Compressed(made)

    def apply(
        self, model: bytes, calibration: Calibration | None = None, images: TrainingImages | None = None
    ) -> bytes:
        """Return the file alone; see :meth:`make`."""
        return self.make(model, RecipeInputs(calibration, images)).data


class Edit(Recipe):
    """A recipe that needs the file alone.

    Args:
        name: the recipe's name.
        edit: file in, file out.
        description: one line.
    """

    def __init__(self, name: str, edit: Callable[[bytes], bytes], description: str) -> None:
        self.name, self.description = name, description
        self._edit = edit

    def convert(self, model: bytes, _material: RecipeInputs, /) -> bytes:
        """Return the edited file."""
        return self._edit(model)

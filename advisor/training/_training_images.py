"""Hold the labelled images of a search for what scores files or trains weights with them.

Recipes of compression get :class:`TrainingImages`, and train float files of LiteRT on them
(``_flatgraph/``).
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from advisor.core import StageError
from advisor.datasets import InputSpec, choose_images


@dataclass(frozen=True)
class TrainingImages:
    """Labelled images for recipes that score files or train weights, never of the hold-out.

    The training part with the class index of each image, or with its stratum
    (:func:`._strata.list_strata`) if it has several objects; ``seed`` is that of every draw.
    Files are scored on the validation images, and nothing is trained on them.
    """

    paths: tuple[Path, ...]
    labels: tuple[int, ...]
    classes: int
    spec: InputSpec
    seed: int = 0
    validation_paths: tuple[Path, ...] = ()
    validation_labels: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        training_fits = len(self.paths) == len(self.labels)
        validation_fits = len(self.validation_paths) == len(self.validation_labels)
        if not training_fits or not validation_fits:
            raise StageError("each training image needs one label")

    def read_training(self, count: int) -> NDArray[np.float32]:
        """Return at most ``count`` images of the training part as model input, drawn by class."""
        places = choose_images(self.labels, count, self.seed)
        return self.spec.read_all([self.paths[place] for place in places])

    def read_validation(self, count: int) -> tuple[NDArray[np.float32], tuple[int, ...]]:
        """Return at most ``count`` validation images as model input, drawn by class,
        and their labels.
        """
        places = choose_images(self.validation_labels, count, self.seed)
        labels = tuple(self.validation_labels[place] for place in places)
        paths = [self.validation_paths[place] for place in places]
        return self.spec.read_all(paths), labels

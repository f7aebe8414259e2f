"""The training recipes: one object each, from the lightest to the heaviest.

A new recipe is one object in :data:`TRAININGS`, the stage of its name, and its hyperparameters in
``training/_finetune/hyperparameters.py``. Configurations, files of runs, cache keys and the
command line have its name, so a name stays. Its gains are expectations, which a run's own results
correct.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from advisor.core._training_recipe import TrainingName, TrainingRecipe

TRAININGS: Mapping[str, TrainingRecipe] = MappingProxyType(
    {
        recipe.name: recipe
        for recipe in (
            TrainingRecipe(TrainingName.NONE, "published weights", learns=False, base=True),
            TrainingRecipe(
                TrainingName.HEAD_SUBSET, "head retrained on some of your images", quick_head=True
            ),
            TrainingRecipe(
                TrainingName.HEAD,
                "head retrained on your images",
                base=True,
                detects=True,
                over=TrainingName.HEAD_SUBSET,
                gain=0.13,
                spread=0.10,
            ),
            TrainingRecipe(
                TrainingName.FINETUNE_CACHED,
                "last blocks fine-tuned on your images",
                layers=0.61,
                cached=True,
                over=TrainingName.HEAD,
                gain=0.30,
                spread=0.12,
                points=4.0,
                step=5.7,
            ),
            TrainingRecipe(
                TrainingName.FINETUNE_TOP,
                "last layers fine-tuned on your images",
                layers=0.65,
                detects=True,
                over=TrainingName.HEAD,
                gain=0.25,
                spread=0.12,
                points=2.0,
                step=7.0,
            ),
            TrainingRecipe(
                TrainingName.FINETUNE_ALL,
                "all layers fine-tuned on your images",
                layers=1.0,
                detects=True,
                over=TrainingName.HEAD,
                gain=0.25,
                spread=0.12,
                points=3.0,
                step=12.0,
            ),
        )
    }
)
"""Every recipe by its name, the lightest first. The gain of a head is over one that learns from
about two thousand images. Shares of errors hold for sets of any difficulty: with
``finetune_cached``, EfficientNet-Lite0 gained 2 points at 90 % on TrashNet, and MobileNetV2 14
points at 65 % on groceries of another visit (decision 0048). With ``finetune_top``, they removed
0.34 and 0.16 of the errors on TrashNet.
"""

_OTHER = TrainingRecipe("", "", learns=False, base=True)


def recipe_of(name: str) -> TrainingRecipe:
    """Return the recipe of that name;
    one without any effect for other names, such as those of another version.
    """
    return TRAININGS.get(name, _OTHER)


class Gain(NamedTuple):
    """The gain of fine-tuning over the head alone."""

    share: float  #: share (0-1) of the head's errors that it removes
    spread: float  #: standard deviation of ``share``


def list_choosable() -> tuple[str, ...]:
    """Return the names that a user may choose, the lightest first."""
    return tuple(name for name, recipe in TRAININGS.items() if not recipe.quick_head)

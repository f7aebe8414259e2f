"""Choose the compression recipes of a question: those that the user named, or the usual ones.

A search asks once, when it finds the parts of its question. ``advisor compress`` asks which
recipes its file can have.
"""

from advisor.compression import RECIPES, Needs, Recipe
from advisor.core import (
    UsageError,
    nearest,
)
from advisor.engine._question import Question

DEFAULT_RECIPES = ("float32", "float16", "dynamic_int8", "weight_int8", "int8")

# Tried if ``--max-drop`` is given, where lighter compressions lose more.
HEAVIER_RECIPES = ("mixed_int8", "qat_int8")


def recipe_applies(recipe: Recipe, question: Question) -> bool:
    """Return whether a compression recipe can use the images of the question's task,
    or needs none.
    """
    task = question.of_task
    if recipe.needs is Needs.SCORING:
        return task.labelled
    if recipe.needs is Needs.TRAINING:
        return task.retrains
    return True


def choose_recipes(question: Question) -> dict[str, Recipe]:
    """Return the compression recipes of the question by name. float32 is always among them:
    the others are compared with it.

    Raises:
        UsageError: a recipe is unknown, or not for the task.
    """
    known = {recipe.name: recipe for recipe in RECIPES if recipe_applies(recipe, question)}
    names = question.compressions or DEFAULT_RECIPES
    limited = question.data is not None and question.limits.drops
    if limited and not question.compressions:
        names = (*names, *(name for name in HEAVIER_RECIPES if name in known))
    for name in names:
        if name not in known:
            raise UsageError(
                f"--compressions: unknown '{name}'{nearest(name, known)}",
                f"recipes: {', '.join(known)}",
            )
    return {name: known[name] for name in dict.fromkeys(("float32", *names))}

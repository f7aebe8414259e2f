"""Make a float ``.tflite`` smaller or faster, and say what it costs.

Read ``_recipes/`` first (which forms there are), then ``_quantization/`` (how weights are
rounded) and ``_diagnosis/`` (why a form loses accuracy).
"""

from typing import TYPE_CHECKING

from advisor._faces import open_face

if TYPE_CHECKING:
    from advisor.compression._diagnosis.diagnose import compare_layers
    from advisor.compression._diagnosis.explanations import FastKernels
    from advisor.compression._diagnosis.figures import to_decibel
    from advisor.compression._quantization.grid import Grids, round_dense
    from advisor.compression._recipes import (
        RECIPES,
        CalibrationSource,
        Sizes,
        arena_bytes,
        lighter_recipes,
        make_file,
        prepare_file,
        recipe,
    )
    from advisor.compression._recipes.base import (
        INPUT_TYPES,
        Needs,
        Recipe,
        RecipeInputs,
        require_float,
    )
else:
    __getattr__, __dir__ = open_face(__name__)

__all__ = [
    "INPUT_TYPES",
    "RECIPES",
    "CalibrationSource",
    "FastKernels",
    "Grids",
    "Needs",
    "Recipe",
    "RecipeInputs",
    "Sizes",
    "arena_bytes",
    "compare_layers",
    "lighter_recipes",
    "make_file",
    "prepare_file",
    "recipe",
    "require_float",
    "round_dense",
    "to_decibel",
]

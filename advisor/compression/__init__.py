"""Make a float ``.tflite`` smaller or faster, and say what it costs.

Read ``_recipes/`` first (which forms there are), then ``_quantization/`` (how weights are
rounded), ``_calibration.py`` (the images for it) and ``_diagnosis/`` (why a form loses accuracy).
"""

from typing import TYPE_CHECKING

from advisor._faces import open_face

if TYPE_CHECKING:
    from advisor.compression._calibration import (
        CALIBRATION_IMAGES,
        FEWEST_IMAGES,
        PHOTOGRAPHS_VERSION,
        CalibrationImages,
        choose_images,
        draw_paths,
        find_images,
        from_photographs,
        spec_of_file,
    )
    from advisor.compression._diagnosis.diagnose import diagnose, run_in_child
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
        sizes_of,
    )
    from advisor.compression._recipes.base import (
        INPUT_TYPES,
        Needs,
        Recipe,
        RecipeInputs,
        TrainingImages,
        require_float,
    )
else:
    __getattr__, __dir__ = open_face(__name__)

__all__ = [
    "CALIBRATION_IMAGES",
    "FEWEST_IMAGES",
    "INPUT_TYPES",
    "PHOTOGRAPHS_VERSION",
    "RECIPES",
    "CalibrationImages",
    "CalibrationSource",
    "Grids",
    "Needs",
    "Recipe",
    "RecipeInputs",
    "Sizes",
    "TrainingImages",
    "arena_bytes",
    "choose_images",
    "diagnose",
    "draw_paths",
    "find_images",
    "from_photographs",
    "lighter_recipes",
    "make_file",
    "prepare_file",
    "recipe",
    "require_float",
    "round_dense",
    "run_in_child",
    "sizes_of",
    "spec_of_file",
    "to_decibel",
]

"""Build the rules of ai-edge-quantizer, by operator; the library is imported when they are needed."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any

Rules = list[dict[str, Any]]
"""A quantization recipe of ai-edge-quantizer."""

MakeRules = Callable[[], Rules]
"""Makes rules when the quantizer is needed, as its import is slow."""


def shipped(name: str) -> MakeRules:
    """Return a function that makes one of ai-edge-quantizer's own recipes, by its name."""

    def make() -> Rules:
        from ai_edge_quantizer import recipe as recipes

        made: Rules = getattr(recipes, name)()
        return made

    return make


def per_tensor() -> Rules:
    """Return rules for 8 bits everywhere, with one step a kernel."""
    from ai_edge_quantizer import qtyping, recipe_manager

    manager = recipe_manager.RecipeManager()
    manager.add_static_config(
        regex=".*",
        operation_name=qtyping.TFLOperationName.ALL_SUPPORTED,
        activation_num_bits=8,
        weight_num_bits=8,
        weight_granularity=qtyping.QuantGranularity.TENSORWISE,
    )
    made: Rules = manager.get_quantization_recipe()
    return made


def dynamic() -> Rules:
    """Return rules for dynamic kernels; depthwise ones stay float, as no runtime runs them fast (4x slower on x86)."""
    from ai_edge_quantizer import algorithm_manager, qtyping, recipe_manager

    manager = recipe_manager.RecipeManager()
    manager.add_dynamic_config(regex=".*", operation_name=qtyping.TFLOperationName.ALL_SUPPORTED, num_bits=8)
    manager.add_quantization_config(
        regex=".*",
        operation_name=qtyping.TFLOperationName.DEPTHWISE_CONV_2D,
        algorithm_key=algorithm_manager.AlgorithmName.NO_QUANTIZE,
    )
    made: Rules = manager.get_quantization_recipe()
    return made


def four_bits() -> Rules:
    """Return rules for 4-bit kernels; depthwise ones take 8 bits, as 4 bits harm them and they are small."""
    from ai_edge_quantizer import qtyping, recipe_manager

    manager = recipe_manager.RecipeManager()
    manager.add_weight_only_config(".*", qtyping.TFLOperationName.ALL_SUPPORTED, num_bits=4)
    manager.add_weight_only_config(".*", qtyping.TFLOperationName.DEPTHWISE_CONV_2D, num_bits=8)
    made: Rules = manager.get_quantization_recipe()
    return made


def eight_bits(but: Collection[str] = ()) -> MakeRules:
    """Return a function that makes the rules for 8-bit weights and activations.

    Args:
        but: names of the output tensors of operators that stay float.
    """

    def make() -> Rules:
        from ai_edge_quantizer import algorithm_manager, qtyping, recipe_manager

        every = qtyping.TFLOperationName.ALL_SUPPORTED
        manager = recipe_manager.RecipeManager()
        manager.add_static_config(".*", every, activation_num_bits=8, weight_num_bits=8)
        for name in but:
            # The quantizer identifies an operator by the names of its outputs, each followed by a semicolon.
            manager.add_quantization_config(
                f"^{re.escape(name)};$", every, algorithm_key=algorithm_manager.AlgorithmName.NO_QUANTIZE
            )
        made: Rules = manager.get_quantization_recipe()
        return made

    return make

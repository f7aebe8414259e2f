"""Build the rules of ai-edge-quantizer, by operator; the library is imported when they are needed."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

Rules = list[dict[str, Any]]
"""A quantization recipe of ai-edge-quantizer."""


def shipped(name: str) -> Rules:
    """Return one of ai-edge-quantizer's own recipes, by its name."""
    from ai_edge_quantizer import recipe

    return list(getattr(recipe, name)())


def dynamic() -> Rules:
    """Return rules for dynamic kernels; depthwise ones stay float, as no runtime runs them fast (4x slower on x86)."""
    from ai_edge_quantizer import algorithm_manager, qtyping, recipe_manager

    manager = recipe_manager.RecipeManager()
    manager.add_dynamic_config(".*", qtyping.TFLOperationName.ALL_SUPPORTED, num_bits=8)
    manager.add_quantization_config(
        ".*", qtyping.TFLOperationName.DEPTHWISE_CONV_2D, algorithm_key=algorithm_manager.AlgorithmName.NO_QUANTIZE
    )
    return list(manager.get_quantization_recipe())


def four_bits() -> Rules:
    """Return rules for 4-bit kernels; depthwise ones take 8 bits, as 4 bits harm them and they are small."""
    from ai_edge_quantizer import qtyping, recipe_manager

    manager = recipe_manager.RecipeManager()
    manager.add_weight_only_config(".*", qtyping.TFLOperationName.ALL_SUPPORTED, num_bits=4)
    manager.add_weight_only_config(".*", qtyping.TFLOperationName.DEPTHWISE_CONV_2D, num_bits=8)
    return list(manager.get_quantization_recipe())


def eight_bits(but: Collection[str] = (), per_channel: bool = True) -> Rules:
    """Return rules for 8-bit weights and activations.

    Args:
        but: names of the output tensors of operators that stay float.
        per_channel: one step for each output channel of a kernel, else one for the kernel.
    """
    from ai_edge_quantizer import algorithm_manager, qtyping, recipe_manager

    every = qtyping.TFLOperationName.ALL_SUPPORTED
    steps = qtyping.QuantGranularity.CHANNELWISE if per_channel else qtyping.QuantGranularity.TENSORWISE
    manager = recipe_manager.RecipeManager()
    manager.add_static_config(".*", every, activation_num_bits=8, weight_num_bits=8, weight_granularity=steps)
    for name in but:
        # The quantizer identifies an operator by the names of its outputs, each followed by a semicolon.
        manager.add_quantization_config(
            f"^{re.escape(name)};$", every, algorithm_key=algorithm_manager.AlgorithmName.NO_QUANTIZE
        )
    return list(manager.get_quantization_recipe())

"""What XNNPACK takes in LiteRT 2.3, as rules: the delegate's own documentation, held against what really ran there."""

from __future__ import annotations

from functools import cache

from advisor.benchmark.delegation import Rules, parse_forms

SOURCE = (
    "github.com/google-ai-edge/LiteRT, tflite/delegates/xnnpack/README.md, signed and unsigned 8-bit enabled as in the "
    "wheel of ai-edge-litert 2.3.0; dynamic range observed there"
)

_FLOAT_ONLY = (
    *("ABS", "AVERAGE_POOL_2D", "CEIL", "DIV", "FLOOR", "HARD_SWISH", "MAXIMUM", "MINIMUM", "NEG", "PRELU", "RELU"),
    *("RELU6", "RELU_N1_TO_1", "ROUND", "SOFTMAX", "SQRT", "SQUARE", "SQUARED_DIFFERENCE", "STRIDED_SLICE"),
)
_ANY = (
    *("ADD", "CONCATENATION", "DEPTH_TO_SPACE", "LEAKY_RELU", "LOGISTIC", "MAX_POOL_2D", "MEAN", "MUL", "PAD"),
    *("RESHAPE", "RESIZE_BILINEAR", "SLICE", "SPACE_TO_DEPTH", "SPLIT", "SUB", "TANH", "TRANSPOSE"),
)
_EIGHT_BIT = ("int8", "uint8")


@cache
def xnnpack_rules() -> Rules:
    """Return the rules. Limits that concern options (a fused TANH, a stride, the beta of SOFTMAX) are left out."""
    forms: dict[str, tuple[str, ...]] = dict.fromkeys(_FLOAT_ONLY, ("float32",))
    forms |= dict.fromkeys(_ANY, ("float32", *_EIGHT_BIT))
    forms |= dict.fromkeys(("CONV_2D", "FULLY_CONNECTED"), ("float32", "float32*int8", "float32*int4", *_EIGHT_BIT))
    forms |= dict.fromkeys(("DEPTHWISE_CONV_2D", "TRANSPOSE_CONV"), ("float32", *_EIGHT_BIT))
    forms["ELU"] = ("float32", "int8")
    forms["QUANTIZE"] = ("float32->int8", "float32->uint8", *_EIGHT_BIT)
    forms["DEQUANTIZE"] = ("int8->float32", "uint8->float32", "float16->float32")
    return Rules("XNNPACK", SOURCE, parse_forms(forms), most_inputs={"CONCATENATION": 4, "ADD": 2}, least_macs=0)

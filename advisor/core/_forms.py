"""State the arithmetic of the files of each compression recipe, and the features of a file on
which its latency depends.

A new recipe needs its row in :data:`FORMS` (``docs/extend-stages.md``): its figures order the plan
of a search before the first file is made. ``tflite`` reads :class:`FileFeatures` from a file, and
the prediction of latencies learns from them; their names are entries of ``evaluations.jsonl``.
"""

from collections.abc import Mapping
from dataclasses import astuple, dataclass

from advisor.core._form import Form

FORMS: Mapping[str, Form] = {
    "float32": Form("float32", "float32", predictable=True),
    "float16": Form("float16", "float32", log_sd=0.05, predictable=True, bytes=2.0),
    # Not predictable: LiteRT 2.3 on x86 takes half to four times the float latency.
    "dynamic_int8": Form("dynamic_int8", "float32", log_sd=0.7, latency=3.0, bytes=1.0, drop=0.6),
    "weight_int8": Form("weight_int8", "float32", log_sd=0.1, predictable=True, bytes=1.0),
    "int8": Form("int8", "int8", predictable=True, latency=0.45, bytes=1.0, drop=1.2),
    # Not predictable: XNNPACK leaves many layers to slow kernels;
    # measured at 3.5 to 5 times the float latency.
    "weight_int4": Form("weight_int4", "float32", log_sd=0.2, bytes=0.5, drop=15.0),
    "int8_per_tensor": Form("int8", "int8", predictable=True, latency=0.45, bytes=1.0, drop=4.0),
    # Not predictable: XNNPACK does not support it,
    # and the predictor knows no measurement of such a form.
    "int16x8": Form("int16x8", "int16x8", latency=1.5, bytes=1.0),
    "int8_float_io": Form("int8", "int8", predictable=True, latency=0.45, bytes=1.0, drop=1.2),
    # Not predictable: its float layers are known only once it is made;
    # measured as fast as int8 to 20 % slower.
    "mixed_int8": Form("int8", "int8", latency=0.55, bytes=1.0, drop=0.6),
    "qat_int8": Form("int8", "int8", predictable=True, latency=0.45, bytes=1.0, drop=0.6),
    "pruned_50": Form("pruned_50", "float32", log_sd=0.05, predictable=True),
    "pruned_75": Form("pruned_75", "float32", log_sd=0.05, predictable=True),
    "clustered_16": Form("clustered_16", "float32", log_sd=0.05, predictable=True),
    "rounded": Form("float32", "float32", predictable=True),
}
"""Every recipe of ``advisor.compression._recipes``, by name."""


def form_of(recipe: str) -> Form:
    """Return the form of a recipe's files;
    any other name, such as a measured precision, is a form itself.
    """
    return FORMS.get(recipe) or Form(recipe, recipe)


@dataclass(frozen=True)
class Traits:
    """Shape of an architecture, each 0 (absent) to 1 (everywhere)."""

    depthwise: float = 0.0  #: share of the convolution blocks that are depthwise
    grouped: float = 0.0  #: share that are grouped
    attention: float = 0.0  #: matrix products between activations
    #: activations other than ReLU (swish, GELU, sigmoid), which some accelerators lack
    smooth: float = 0.0
    squeeze_excite: float = 0.0  #: global pooling inside the blocks
    branches: float = 0.0  #: concatenations and splits

    @property
    def values(self) -> tuple[float, ...]:
        """The six shares in a fixed order."""
        return astuple(self)


@dataclass(frozen=True)
class FileFeatures:
    """Features of a ``.tflite`` file that its latency depends on."""

    macs: int  #: multiply-accumulates of one run
    parameters: int  #: elements of all weights
    input_size: int  #: side of the square input, pixels
    layers: int  #: operators, without those that only change the form of a tensor
    #: how most of the multiply-accumulates are computed: ``float32``, ``float16`` (halved
    #: weights), ``weight_int8``, ``dynamic_int8``, ``int8`` or ``int16x8``.
    form: str
    arena_bytes: int  #: memory of the activations
    operators: Mapping[str, int]  #: how many of each kind
    traits: Traits  #: shape of the architecture
    weight_bytes: int = 0  #: all constants as stored; 0 where this was not read
    #: memory that the CPU's kernels need besides: constants packed into their own order, widened
    #: where the arithmetic is wider than the stored form, and the indirection buffers of
    #: convolutions.
    held_bytes: int = 0
    #: tensor arena of TensorFlow Lite Micro; 0 where this was not computed
    micro_arena_bytes: int = 0

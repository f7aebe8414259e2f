"""Read, measure and edit a ``.tflite`` file as a value, without TensorFlow.

Read ``_model.py`` first (``read``), then ``_macs.py`` and ``_arena.py`` (the work and the memory
of a file) and ``_tables.py`` (how one is changed). The other modules are one kind of edit each;
``README.md`` lists them.
"""

from typing import TYPE_CHECKING

from advisor._faces import open_face

if TYPE_CHECKING:
    from advisor.tflite import _model as model
    from advisor.tflite._arena import (
        MICRO_ALIGNMENT,
        activation_arena_bytes,
        indirection_bytes,
        micro_arena,
    )
    from advisor.tflite._floats import to_float32
    from advisor.tflite._fusion import simplify_file
    from advisor.tflite._heads import read_head, with_head
    from advisor.tflite._input_scale import scale_of_input
    from advisor.tflite._layout import (
        with_channels_last,
        without_transposes,
    )
    from advisor.tflite._levels import (
        FEATURES,
        LARGEST_SHARE,
        LEVELS_VERSION,
        attach_head,
        last_width,
        with_levels,
    )
    from advisor.tflite._macs import (
        CLAMPS,
        OperatorCost,
        Works,
        count,
        count_graph_works,
        form_of,
    )
    from advisor.tflite._metadata import (
        Metadata,
        one_line,
    )
    from advisor.tflite._model import (
        LITERT_CUSTOM,
        open_model,
        read,
        text_of,
    )
    from advisor.tflite._operator_work import CONVOLUTION, DENSE, DEPTHWISE, Work
    from advisor.tflite._postprocess import (
        CENTRE_DISTANCE,
        CENTRE_SCALE,
        CENTRES,
        DETECTIONS,
        ENCODINGS,
        ENDS,
        OPERATOR,
        SCORES,
        SIDE_SCALE,
        Suppression,
        cut_postprocess,
        has_postprocess,
        post_processing,
        split_postprocess,
        with_calibrated_scores,
        with_named_outputs,
    )
    from advisor.tflite._quantization import (
        IN_FLOAT,
        dequantize,
        fold_normalization,
        quantize,
        take_floats,
        to_float16,
        to_float_io,
        with_fixed_batch,
    )
    from advisor.tflite._rewrite import (
        select_output,
        unpack,
    )
    from advisor.tflite._tables import BUILTINS, Tables
    from advisor.tflite._unknown import head_layers, with_probe, with_temperature, with_unknown
    from advisor.tflite._values import (
        OPTIONS,
        Model,
        Operator,
        Subgraph,
        Tensor,
        slices_of,
    )
else:
    __getattr__, __dir__ = open_face(__name__)

__all__ = [
    "BUILTINS",
    "CENTRES",
    "CENTRE_DISTANCE",
    "CENTRE_SCALE",
    "CLAMPS",
    "CONVOLUTION",
    "DENSE",
    "DEPTHWISE",
    "DETECTIONS",
    "ENCODINGS",
    "ENDS",
    "FEATURES",
    "IN_FLOAT",
    "LARGEST_SHARE",
    "LEVELS_VERSION",
    "LITERT_CUSTOM",
    "MICRO_ALIGNMENT",
    "OPERATOR",
    "OPTIONS",
    "SCORES",
    "SIDE_SCALE",
    "Metadata",
    "Model",
    "Operator",
    "OperatorCost",
    "Subgraph",
    "Suppression",
    "Tables",
    "Tensor",
    "Work",
    "Works",
    "activation_arena_bytes",
    "attach_head",
    "count",
    "count_graph_works",
    "cut_postprocess",
    "dequantize",
    "fold_normalization",
    "form_of",
    "has_postprocess",
    "head_layers",
    "indirection_bytes",
    "last_width",
    "micro_arena",
    "model",
    "one_line",
    "open_model",
    "post_processing",
    "quantize",
    "read",
    "read_head",
    "scale_of_input",
    "select_output",
    "simplify_file",
    "slices_of",
    "split_postprocess",
    "take_floats",
    "text_of",
    "to_float16",
    "to_float32",
    "to_float_io",
    "unpack",
    "with_calibrated_scores",
    "with_channels_last",
    "with_fixed_batch",
    "with_head",
    "with_levels",
    "with_named_outputs",
    "with_probe",
    "with_temperature",
    "with_unknown",
    "without_transposes",
]

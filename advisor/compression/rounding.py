"""Float weights rounded to few steps: the file keeps its size and its arithmetic, and compresses like int8."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from advisor.core.errors import UnsupportedRecipe

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

STEPS = 256
MIN_ELEMENTS = 256
"""Smaller constants (biases, scalars) stay as they are: they weigh nothing and cost accuracy."""

SCALE_BITS = 4
"""Significant bits of a step: the low bytes of every rounded weight are then zero, which deflate rewards."""


def round_weights(data: bytes) -> bytes:
    """Round every large float32 constant to a grid of ``STEPS`` even steps between its ends.

    The size of the file does not change. As a download it shrinks to about a quarter, as app stores deflate it.

    Raises:
        UnsupportedRecipe: there is no float32 constant of ``MIN_ELEMENTS`` elements and two dimensions.
        UsageError: the file is damaged.
    """
    import numpy as np

    from advisor.tflite.rewrite import pack, unpack

    model = unpack(data)
    places = {tensor.buffer for graph in model.subgraphs for tensor in graph.tensors if _is_weight(tensor, model)}
    if not places:
        raise UnsupportedRecipe("rounded does not apply: the model has no float32 weights")
    for place in places:
        stored = np.frombuffer(bytes(bytearray(model.buffers[place].data)), dtype="<f4")
        model.buffers[place].data = np.frombuffer(to_steps(stored).astype("<f4").tobytes(), dtype=np.uint8)
    return pack(model)


def to_steps(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Round values to at most ``STEPS`` multiples of one step, zero among them.

    The step is the range over ``STEPS`` - 1, rounded up to ``SCALE_BITS`` significant bits.
    """
    import numpy as np

    spread = float(values.max()) - float(values.min())
    if spread == 0.0 or not np.isfinite(spread):
        return values
    mantissa, exponent = np.frexp(spread / (STEPS - 2))
    step = np.ldexp(np.ceil(mantissa * 2**SCALE_BITS) / 2**SCALE_BITS, exponent)
    result: NDArray[np.float32] = (np.rint(values / step) * step).astype(np.float32)
    return result


def _is_weight(tensor: Any, model: Any) -> bool:
    from ai_edge_litert import schema_py_generated as schema

    content = model.buffers[tensor.buffer].data
    dense = tensor.type == schema.TensorType.FLOAT32 and tensor.sparsity is None
    return dense and content is not None and len(content) >= 4 * MIN_ELEMENTS and len(tensor.shape) >= 2

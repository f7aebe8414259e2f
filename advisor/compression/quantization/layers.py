"""Find the layers with weights in the editable tables of a float graph, and read and write their values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from ai_edge_litert import schema_py_generated as schema
    from numpy.typing import NDArray

CONVOLUTION, DEPTHWISE, DENSE = "CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"


@dataclass(frozen=True)
class Layer:
    """A convolution or dense layer by its tensors' indices.

    Attributes:
        kind: ``CONV_2D`` (kernel: outputs, height, width, inputs), ``DEPTHWISE_CONV_2D`` (1, height, width, outputs) or
            ``FULLY_CONNECTED`` (outputs, inputs).
        source: its input.
        kernel: float32 constant.
        bias: float32 constant.
        output: its output.
    """

    kind: str
    source: int
    kernel: int
    bias: int
    output: int

    @property
    def depthwise(self) -> bool:
        """Whether each output channel sees one input channel."""
        return self.kind == DEPTHWISE

    @property
    def output_axis(self) -> int:
        """The kernel's axis of output channels."""
        return 3 if self.depthwise else 0


def layers(model: schema.ModelT) -> list[Layer]:
    """Return the layers of the first graph whose kernel and bias are float constants of that layer alone."""
    graph = model.subgraphs[0]
    found = [layer for operator in graph.operators if (layer := _layer(model, graph, operator))]
    used = [index for layer in found for index in (layer.kernel, layer.bias)]
    return [layer for layer in found if used.count(layer.kernel) == used.count(layer.bias) == 1]


def _layer(model: schema.ModelT, graph: schema.SubGraphT, operator: schema.OperatorT) -> Layer | None:
    from ai_edge_litert import schema_py_generated as schema

    from advisor.tflite.rewrite import content_of, operator_name

    kind = operator_name(model, operator)
    if kind not in (CONVOLUTION, DEPTHWISE, DENSE) or len(operator.inputs) < 3 or operator.inputs[2] < 0:
        return None
    source, kernel, bias = operator.inputs[:3]
    constants = [graph.tensors[index] for index in (kernel, bias)]
    constant = all(one.type == schema.TensorType.FLOAT32 and content_of(model, one) is not None for one in constants)
    return Layer(kind, source, kernel, bias, operator.outputs[0]) if constant else None


def values(model: schema.ModelT, index: int) -> NDArray[np.float64]:
    """Return a constant's content, float64 in the tensor's shape."""
    import numpy as np

    tensor = model.subgraphs[0].tensors[index]
    stored = np.frombuffer(bytes(bytearray(model.buffers[tensor.buffer].data)), dtype="<f4")
    return stored.reshape([int(side) for side in tensor.shape]).astype(np.float64)


def set_values(model: schema.ModelT, index: int, content: NDArray[np.float64]) -> None:
    """Write a constant's content into a new buffer, as other tensors may share the old one."""
    import numpy as np

    from advisor.tflite.rewrite import add_buffer

    tensor = model.subgraphs[0].tensors[index]
    tensor.buffer = add_buffer(model, np.ascontiguousarray(content, dtype="<f4").tobytes())

"""A user's ONNX model in ONNX Runtime."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.catalog.user_models.comparison import OriginalLayer
from advisor.catalog.user_models.onnx_files.graph import VERSION, Image
from advisor.catalog.weights.arrays import Array

if TYPE_CHECKING:
    from onnx import ModelProto


class OnnxOriginal:
    """A fixed graph in ONNX Runtime, as the user gave it.

    Args:
        model: the graph.
        image: its input.
    """

    converter = f"onnx2tf {VERSION}"

    def __init__(self, model: ModelProto, image: Image) -> None:
        self._model, self._image = model, image

    @property
    def runtime(self) -> str:
        """The runtime and its version."""
        import onnxruntime

        return f"onnxruntime {onnxruntime.__version__}"

    def scores(self, images: Array) -> Array:
        """Return the scores (N, C) of normalised images (N, S, S, 3)."""
        session = _session(self._model)
        return np.stack([session.run(None, self._fed(image[None]))[0].reshape(-1) for image in images])

    def layers(self, image: Array) -> Sequence[OriginalLayer]:
        """Return every node with a float output for one image (1, S, S, 3)."""
        import onnx

        nodes = list(self._model.graph.node)
        shown = copy.deepcopy(self._model)
        stated = {entry.name for entry in shown.graph.output}
        names = dict.fromkeys(name for node in nodes for name in node.output if name)
        shown.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name not in stated)
        session = _session(shown)
        outputs = [entry.name for entry in session.get_outputs()]
        values = dict(zip(outputs, session.run(outputs, self._fed(image)), strict=True))
        made = {name: node.name or node.output[0] for node in nodes for name in node.output}
        return [
            OriginalLayer(
                made[node.output[0]], node.op_type, tuple(made[name] for name in node.input if name in made), value
            )
            for node in nodes
            if isinstance(value := values.get(node.output[0]), np.ndarray) and value.dtype == np.float32
        ]

    def _fed(self, image: Array) -> dict[str, Array]:
        return {self._image.name: image.transpose(0, 3, 1, 2) if self._image.channels_first else image}


def _session(model: ModelProto) -> Any:
    """Return a session without rewriting of the graph: it is the reference."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

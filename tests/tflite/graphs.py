"""Small graphs written table by table, for what the converter cannot be made to write."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import flatbuffers
import numpy as np
import numpy.typing as npt
from ai_edge_litert import schema_py_generated as schema

from advisor.tflite import CENTRES, Suppression, Tables, unpack

FLOAT32 = schema.TensorType.FLOAT32
INT32 = schema.TensorType.INT32
RNG = np.random.default_rng(0)


class Graph:
    """A model under construction: one subgraph, one signature."""

    def __init__(self) -> None:
        self.model = Tables(version=3, operatorCodes=[], buffers=[schema.BufferT()], metadata=[])
        self.graph = schema.SubGraphT(tensors=[], inputs=[], outputs=[], operators=[], name=b"main")
        self.model.subgraphs = [self.graph]

    @classmethod
    def with_image(cls, shape: Sequence[int]) -> "tuple[Graph, int]":
        """Begin a model; return it with its tensor ``image``."""
        graph = cls()
        return graph, graph.tensor("image", shape)

    def tensor(
        self, name: str, shape: Sequence[int], content: npt.NDArray[Any] | None = None, dtype: int = FLOAT32
    ) -> int:
        return self.model.add_tensor(self.graph, name, shape, dtype, None if content is None else content.tobytes())

    def operator(self, builtin: int, inputs: Sequence[int], outputs: Sequence[int], options: Any = None) -> None:
        operator = schema.OperatorT(inputs=list(inputs), outputs=list(outputs))
        operator.opcodeIndex = self.model.find_operator_code(builtin, 1)
        if options is not None:
            operator.builtinOptions = options
            operator.builtinOptionsType = getattr(schema.BuiltinOptions, type(options).__name__.removesuffix("T"))
        self.graph.operators.append(operator)

    def added(self, builtin: int, inputs: Sequence[int], shape: Sequence[int], options: Any = None) -> int:
        """Add an operator and its only result, and return the result."""
        output = self.tensor(f"made_{len(self.graph.tensors)}", shape)
        self.operator(builtin, inputs, [output], options)
        return output

    def integers(self, *values: Any) -> int:
        return self.tensor("numbers", np.shape(values), np.asarray(values, np.int32), INT32)

    def floats(self, *shape: int) -> int:
        return self.tensor("floats", shape, RNG.normal(size=shape).astype(np.float32))

    def transposed(self, tensor: int, order: Sequence[int], shape: Sequence[int]) -> int:
        inputs = [tensor, self.integers(*order)]
        return self.added(schema.BuiltinOperator.TRANSPOSE, inputs, shape, schema.TransposeOptionsT())

    def signature(self, inputs: Mapping[str, int], outputs: Mapping[str, int]) -> None:
        definition = schema.SignatureDefT(signatureKey=b"serving_default", subgraphIndex=0)
        definition.inputs = [schema.TensorMapT(name=name.encode(), tensorIndex=i) for name, i in inputs.items()]
        definition.outputs = [schema.TensorMapT(name=name.encode(), tensorIndex=i) for name, i in outputs.items()]
        self.model.signatureDefs = [*(self.model.signatureDefs or []), definition]

    def finish(self, inputs: Mapping[str, int], outputs: Mapping[str, int]) -> bytes:
        self.graph.inputs = list(inputs.values())
        self.graph.outputs = list(outputs.values())
        self.signature(inputs, outputs)
        return self.model.pack()


def outside(data: bytes, tensor: int) -> bytes:
    """Move a tensor's content behind the flatbuffer, as quantizers do with large files."""
    model = schema.ModelT.InitFromPackedBuf(data)
    buffer = model.buffers[model.subgraphs[0].tensors[tensor].buffer]
    content, buffer.data = bytes(buffer.data), None
    buffer.size = len(content)
    for _ in range(2):
        builder = flatbuffers.Builder(0)
        buffer.offset = buffer.offset or 2**20
        builder.Finish(model.Pack(builder), b"TFL3")
        packed = bytes(builder.Output())
        buffer.offset = len(packed)
    return packed + content


def features_graph(width: int = 4) -> Graph:
    """A graph whose tensor 1 is relu(tensor 0), both (1, width)."""
    graph, image = Graph.with_image((1, width))
    features = graph.tensor("features", (1, width))
    graph.operator(schema.BuiltinOperator.RELU, [image], [features])
    return graph


def tiny_features(width: int = 4) -> bytes:
    """A model: features = relu(image), both (1, width)."""
    return features_graph(width).finish({"image": 0}, {"features": 1})


def tiny_classifier(width: int = 4, classes: int = 3) -> bytes:
    """A model with the outputs ``features`` and ``scores``, the latter behind a dense layer."""
    graph = features_graph(width)
    scores = graph.tensor("scores", (1, classes))
    kernel = np.linspace(-1, 1, width * classes, dtype=np.float32).reshape(classes, width)
    weights = graph.tensor("kernel", (classes, width), kernel)
    bias = graph.tensor("bias", (classes,), np.arange(classes, dtype=np.float32))
    options = schema.FullyConnectedOptionsT()
    graph.operator(schema.BuiltinOperator.FULLY_CONNECTED, [1, weights, bias], [scores], options)
    return graph.finish({"image": 0}, {"features": 1, "scores": scores})


def tiny_detector() -> bytes:
    """A detector before post-processing: three places, four classes; logits and encodings are the image's 12 values."""
    graph, image = Graph.with_image((1, 2, 2, 3))
    encodings, logits, scores = (graph.tensor(name, (1, 3, 4)) for name in ("encodings", "logits", "scores"))
    shape = schema.ReshapeOptionsT(newShape=[1, 3, 4])
    graph.operator(schema.BuiltinOperator.RESHAPE, [image], [encodings], shape)
    graph.operator(schema.BuiltinOperator.RESHAPE, [image], [logits], shape)
    graph.operator(schema.BuiltinOperator.LOGISTIC, [logits], [scores])
    return graph.finish({"image": image}, {"encodings": encodings, "scores": scores})


def tiny_marker() -> bytes:
    """A network that marks centres: one place a pixel, three classes."""
    graph = Graph()
    image, marks = graph.tensor("image", (1, 2, 2, 3)), graph.tensor("centres", (1, 2, 2, 3))
    graph.operator(schema.BuiltinOperator.LOGISTIC, [image], [marks])
    return graph.finish({"image": image}, {CENTRES: marks})


def foreign_detector(data: bytes | None = None, order: Sequence[int] = (3, 0, 2, 1), keep: float = 0.5) -> bytes:
    """A detector as another converter writes it: no signature, names of its own, its outputs in another order."""
    anchors = np.array([[0.2, 0.2, 0.2, 0.2], [0.5, 0.5, 0.4, 0.2], [0.8, 0.7, 0.1, 0.3]], np.float32)
    model = unpack(Suppression(12, score=keep, overlap=1.0).append_to(data or tiny_detector(), anchors))
    graph = model.subgraphs[0]
    model.signatureDefs = []
    graph.outputs = [graph.outputs[place] for place in order]
    for number, tensor in enumerate(graph.operators[-1].outputs):
        graph.tensors[tensor].name = f"TFLite_Detection_PostProcess:{number}".encode()
    return model.pack()


def edited(data: bytes, edit: Callable[[Any], None]) -> bytes:
    """Return a model after an edit of its tables."""
    model = unpack(data)
    edit(model)
    return model.pack()


def with_constant(data: bytes, operator: int, place: int, change: Callable[[np.ndarray], None]) -> bytes:
    """Return a model with the constant at an operator's input changed."""
    model = unpack(data)
    graph = model.subgraphs[0]
    tensor = graph.tensors[graph.operators[operator].inputs[place]]
    buffer = model.buffers[tensor.buffer]
    values = np.frombuffer(bytes(bytearray(buffer.data)), "<f4").reshape(tensor.shape).copy()
    change(values)
    buffer.data = np.frombuffer(values.tobytes(), np.uint8)
    return model.pack()


def repeat_last_operator(model: Any) -> None:
    """Edit a detector so that it has its post-processing twice."""
    graph = model.subgraphs[0]
    graph.operators.append(graph.operators[-1])


def relu_on_scores(model: Any) -> None:
    """Edit a detector so that it does not end in its post-processing: RELU reads the scores."""
    graph = model.subgraphs[0]
    scores = graph.operators[-1].outputs[2]
    positive = model.add_tensor(graph, "positive", graph.tensors[scores].shape.tolist(), FLOAT32)
    graph.operators.append(model.make_operator(schema.BuiltinOperator.RELU, [scores], positive))
    graph.outputs = [positive if place == scores else place for place in graph.outputs]

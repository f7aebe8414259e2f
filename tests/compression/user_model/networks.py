"""Small float files that are no classifiers of one image, and samples of their inputs."""

from pathlib import Path

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from tests.measurement.small_models import OPERATORS, Builder
from tests.tflite.graphs import INT32


def segmentation(side: int = 16) -> bytes:
    """A map of four scores a pixel from an image of five channels."""
    made = Builder()
    image = made.made.tensor("image", (1, side, side, 5))
    scores = made.convolution(made.depthwise(made.convolution(image, 8, 3)), 4)
    return made.finish({"image": image}, {"mask": scores})


def two_inputs(seed: int = 0) -> bytes:
    made = Builder(seed)
    image, pose = made.input(16), made.made.tensor("pose", (1, 6))
    pooled, bent = made.mean(made.convolution(image, 8, 3)), made.dense(pose, 8)
    joint = made.operator(OPERATORS.CONCATENATION, [pooled, bent], (1, 16), schema.ConcatenationOptionsT(axis=1))
    return made.finish({"image": image, "pose": pose}, {"angle": made.dense(joint, 3), "place": made.dense(joint, 2)})


def tokens() -> bytes:
    made = Builder()
    words = made.made.tensor("tokens", (1, 12), dtype=INT32)
    table = made.weights(50, 16)
    vectors = made.operator(OPERATORS.GATHER, [table, words], (1, 12, 16), schema.GatherOptionsT(axis=0))
    axes = made.constant(np.array([1], np.int32), INT32)
    mean = made.operator(OPERATORS.MEAN, [vectors, axes], (1, 16), schema.ReducerOptionsT())
    return made.finish({"tokens": words}, {"scores": made.dense(mean, 4)})


def samples(path: Path, count: int = 24, **shapes: tuple[int, ...]) -> Path:
    draw = np.random.default_rng(0)
    np.savez(path, **{name: draw.normal(size=(count, *shape)).astype(np.float32) for name, shape in shapes.items()})
    return path


def branching() -> bytes:
    """Scores of a vector, by one of two layers in graphs of their own."""
    made = Builder()
    start = made.made.tensor("vector", (1, 16))
    bent = made.dense(start, 16)
    axes, least = made.constant(np.array([1], np.int32), INT32), made.constant(np.full(1, -10, np.float32))
    mean = made.operator(OPERATORS.MEAN, [bent, axes], (1,), schema.ReducerOptionsT())
    positive = made.made.tensor("positive", (1,), dtype=schema.TensorType.BOOL)
    made.made.operator(OPERATORS.GREATER, [mean, least], [positive], schema.GreaterOptionsT())
    options = schema.IfOptionsT(thenSubgraphIndex=1, elseSubgraphIndex=2)
    either = made.operator(OPERATORS.IF, [positive, bent], (1, 16), options)
    scores = made.dense(either, 8)
    main = made.made.graph
    for name in (b"then", b"else"):
        made.made.graph = graph = schema.SubGraphT(tensors=[], inputs=[], outputs=[], operators=[], name=name)
        made.made.model.subgraphs.append(graph)
        taken = made.made.tensor(f"{name.decode()} takes", (1, 16))
        graph.inputs, graph.outputs = [taken], [made.dense(taken, 16)]
    made.made.graph = main
    return made.finish({"vector": start}, {"scores": scores})

"""Small real ``.tflite`` files written straight from the schema: no TensorFlow, milliseconds to make."""

from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from tests.builders import write_file
from tests.tflite.graphs import INT32, Graph

OPERATORS = schema.BuiltinOperator


def saved(folder: Path, data: bytes, name: str = "model.tflite") -> Path:
    """Write a file and return its path."""
    return write_file(folder / name, data)


class Builder:
    """Adds layers with random weights to one graph; a layer takes and returns tensor indices."""

    def __init__(self, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.made = Graph()

    @classmethod
    def with_image(cls, side: int) -> "tuple[Builder, int]":
        """Begin a graph; return it with its input ``image`` of (1, side, side, 3)."""
        builder = cls()
        return builder, builder.input(side)

    def input(self, side: int) -> int:
        """Add the input ``image`` of (1, side, side, 3)."""
        return self.made.tensor("image", (1, side, side, 3))

    def shape(self, tensor: int) -> tuple[int, ...]:
        return tuple(self.made.graph.tensors[tensor].shape)

    def constant(self, values: np.ndarray, dtype: int = schema.TensorType.FLOAT32) -> int:
        """Add a constant; names are unique, as the quantizer wants them."""
        return self.made.tensor(f"constant{len(self.made.graph.tensors)}", values.shape, values, dtype)

    def weights(self, *shape: int) -> int:
        scale = 1 / np.sqrt(max(1, np.prod(shape[1:])))
        return self.constant((self.random.standard_normal(shape) * scale).astype(np.float32))

    def operator(self, code: int, inputs: list[int], shape: tuple[int, ...], options: Any = None) -> int:
        """Add an operator with one float32 output; return the output."""
        output = self.made.tensor(f"activation{len(self.made.graph.tensors)}", shape)
        self.made.operator(code, inputs, [output], options)
        return output

    def mean(self, data: int) -> int:
        """Add MEAN over height and width."""
        axes = self.constant(np.array([1, 2], np.int32), INT32)
        return self.operator(OPERATORS.MEAN, [data, axes], (1, self.shape(data)[-1]), schema.ReducerOptionsT())

    def finish(self, inputs: dict[str, int], outputs: dict[str, int]) -> bytes:
        return self.made.finish(inputs, outputs)

    def convolution(self, data: int, channels: int, kernel: int = 1, stride: int = 1) -> int:
        """Add CONV_2D with relu6 over a square tensor."""
        _, side, _, depth = self.shape(data)
        inputs = [data, self.weights(channels, kernel, kernel, depth), self.weights(channels)]
        options = schema.Conv2DOptionsT(strideW=stride, strideH=stride, fusedActivationFunction=3)
        return self.operator(OPERATORS.CONV_2D, inputs, (1, side // stride, side // stride, channels), options)

    def depthwise(self, data: int, kernel: int = 3) -> int:
        """Add DEPTHWISE_CONV_2D with relu6."""
        depth = self.shape(data)[-1]
        inputs = [data, self.weights(1, kernel, kernel, depth), self.weights(depth)]
        options = schema.DepthwiseConv2DOptionsT(strideW=1, strideH=1, depthMultiplier=1, fusedActivationFunction=3)
        return self.operator(OPERATORS.DEPTHWISE_CONV_2D, inputs, self.shape(data), options)

    def head(self, pooled: int, classes: int) -> int:
        """Add FULLY_CONNECTED and SOFTMAX."""
        return self.softmax(self.dense(pooled, classes))

    def dense(self, pooled: int, classes: int) -> int:
        """Add FULLY_CONNECTED."""
        inputs = [pooled, self.weights(classes, self.shape(pooled)[-1]), self.weights(classes)]
        return self.operator(OPERATORS.FULLY_CONNECTED, inputs, (1, classes), schema.FullyConnectedOptionsT())

    def softmax(self, logits: int, beta: float = 1.0) -> int:
        return self.operator(OPERATORS.SOFTMAX, [logits], self.shape(logits), schema.SoftmaxOptionsT(beta=beta))


def scaling(side: int, classes: int, *steps: tuple[int, float]) -> bytes:
    """Return a classifier whose graph first applies operators with a constant each, in order."""
    build, place = Builder.with_image(side)
    for operator, constant in steps:
        operand = build.constant(np.full(3, constant, np.float32))
        place = build.operator(operator, [place, operand], (1, side, side, 3))
    pooled = build.mean(build.convolution(place, 8, 3, 2))
    return build.finish({"image": 0}, {"output": build.head(pooled, classes)})


def classifier(side: int = 32, classes: int = 4, features: bool = False, open_shape: bool = False) -> bytes:
    """Return a float classifier: CONV_2D, DEPTHWISE_CONV_2D, CONV_2D, MEAN, FULLY_CONNECTED, SOFTMAX.

    ``features`` gives the pooled features out, too; ``open_shape`` leaves height and width of the input open.
    """
    builder, image = Builder.with_image(side)
    if open_shape:
        builder.made.graph.tensors[image].shapeSignature = [1, -1, -1, 3]
    pooled = builder.mean(builder.convolution(builder.depthwise(builder.convolution(image, 16, 3, 2)), 32))
    outputs = {"features": pooled} if features else {}
    return builder.finish({"image": image}, {**outputs, "probabilities": builder.head(pooled, classes)})


def swish_net(side: int = 64, channels: int = 32) -> bytes:
    """Return a float net most of whose work is HARD_SWISH once it is quantised."""
    builder, image = Builder.with_image(side)
    last = builder.convolution(image, channels)
    for _ in range(3):
        last = builder.operator(OPERATORS.HARD_SWISH, [last], builder.shape(last))
    return builder.finish({"image": image}, {"probabilities": builder.head(builder.mean(last), 4)})


def brightness(side: int = 8) -> bytes:
    """Return a classifier whose answer is known: softmax of 10 x (mean of red, mean of green, mean of blue)."""
    builder, image = Builder.with_image(side)
    return builder.finish({"image": image}, {"probabilities": builder.softmax(builder.mean(image), beta=10.0)})


def quantized(data: bytes, folder: Any, side: int) -> bytes:
    """Return the int8 form by ai-edge-quantizer, calibrated on random pictures."""
    from ai_edge_quantizer import quantizer, recipe

    source, target = folder / "float.tflite", folder / "int8.tflite"
    source.write_bytes(data)
    target.unlink(missing_ok=True)
    random = np.random.default_rng(1)
    images = [{"image": random.uniform(-1, 1, (1, side, side, 3)).astype(np.float32)} for _ in range(4)]
    work = quantizer.Quantizer(str(source))
    work.load_quantization_recipe(recipe.static_wi8_ai8())
    work.quantize(work.calibrate({"serving_default": images})).export_model(str(target))
    return bytes(target.read_bytes())


def dynamic_int8(data: bytes) -> bytes:
    """Return the form with 8-bit weights and float activations, by ai-edge-quantizer."""
    from ai_edge_quantizer import quantizer, recipe

    made = quantizer.Quantizer(data, recipe.dynamic_wi8_afp32())
    return bytes(made.quantize().quantized_model)


def weight_int8(data: bytes) -> bytes:
    """Return the form with 8-bit weights that a DEQUANTIZE operator widens, by ai-edge-quantizer."""
    from ai_edge_quantizer import quantizer, recipe

    made = quantizer.Quantizer(data, recipe.weight_only_wi8_afp32())
    return bytes(made.quantize().quantized_model)


def unknown_operator() -> bytes:
    """Return a net with a custom operator that no runtime knows."""
    builder, image = Builder.with_image(8)
    output = builder.operator(OPERATORS.CUSTOM, [image], (1, 8, 8, 3))
    builder.made.model.operatorCodes[-1].customCode = b"Nobody"
    return builder.finish({"image": image}, {"probabilities": output})


def open_output() -> bytes:
    """Return a net whose output has as many rows as the input has values that are not zero: known after a run only."""
    builder, image = Builder.with_image(8)
    output = builder.made.tensor("places", (1, 4), dtype=schema.TensorType.INT64)
    builder.made.operator(OPERATORS.WHERE, [image], [output], schema.WhereOptionsT())
    return builder.finish({"image": image}, {"places": output})


def crashing() -> bytes:
    """Return a net, whole as a file, on which LiteRT 2.3 dies: it divides by the number of parts of a SPLIT."""
    builder, image = Builder.with_image(8)
    axis = builder.constant(np.array(1, np.int32), INT32)
    output = builder.operator(OPERATORS.SPLIT, [axis, image], (1, 8, 8, 3), schema.SplitOptionsT(numSplits=0))
    return builder.finish({"image": image}, {"probabilities": output})


def two_levels(side: int) -> bytes:
    """Return a float classifier whose head reads two levels of the net: a dense layer a level, and their sum."""
    build, image = Builder.with_image(side)
    lower = build.convolution(image, 8, 3, 2)
    upper = build.convolution(lower, 16)
    logits = [build.dense(build.mean(level), 3) for level in (upper, lower)]
    total = build.operator(OPERATORS.ADD, logits, (1, 3), schema.AddOptionsT())
    return build.finish({"image": image}, {"probabilities": build.softmax(total)})


def of_a_newer_runtime(data: bytes) -> bytes:
    """Return a file that wants its first operator in a version that the installed runtime does not have."""
    from advisor.tflite import unpack

    model = unpack(data)
    model.operatorCodes[model.subgraphs[0].operators[0].opcodeIndex].version = 99
    return model.pack()

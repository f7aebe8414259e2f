"""Edit any float ``.tflite`` image classifier into the form that the other rooms need.

One signature, one input ``image`` float32 (1, S, S, 3), the output ``probabilities`` (1, C), and, where the file ends
in a linear classifier, ``features`` (1, F): what that classifier sees.
"""

from collections.abc import Mapping
from math import prod

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from numpy.typing import NDArray

from advisor.catalog._cards import Preprocessing
from advisor.core import UsageError
from advisor.tflite import (
    LITERT_CUSTOM,
    Model,
    Operator,
    Tensor,
    add_buffer,
    add_tensor,
    append_operator,
    content_of,
    custom_operators,
    new_operator,
    pack,
    quantize,
    read,
    sign,
    unpack,
)

INPUT = "image"
PROBABILITIES = "probabilities"
FEATURES = "features"
MAX_INPUT_SIZE = 2048

_STORED = frozenset({"int8", "uint8", "int16", "int4", "uint4", "int2"})
_PIXELS = ("float32", "int8", "uint8", "int16")
_GIVE_FLOAT = (
    "give the float32 (or float16) file that it was made from: rounded weights cannot be retrained or compressed again "
    "without losing more, so every form is made from float ones"
)
_PLAIN = "give one graph of builtin operators for one image; a detector may end in its post-processing"
# Operators between the classifier and the output that change no order of the scores.
_BEHIND = ("SOFTMAX", "RESHAPE", "SQUEEZE")
_BIASES = ("ADD", "SUB")


def shape_of(data: bytes, name: str, finished: bool = False) -> tuple[int, int]:
    """Check that the file is a float classifier of one image; return the side of its input in pixels, and its classes.

    A ``finished`` file may be quantized, too.

    Raises:
        UsageError: damaged, quantized, with custom operators, of another input or output; the reason is given.
    """
    model = read(data, name)
    size = side_of(data, name, finished)
    outputs = model.subgraphs[0].outputs
    last = _find_producer(model, outputs[0]) if outputs else None
    if last is not None and last.name == "LOGISTIC":
        raise UsageError(
            f"{name}: it ends in a sigmoid a class: a model of several labels an image, and one label is what is "
            "compared here",
            "give a classifier that ends in a softmax",
        )
    return size, _classes(model, name)


def side_of(data: bytes, name: str, finished: bool = False) -> int:
    """Return the side of a file's input in pixels, after checking that it is a float model of one image.

    A ``finished`` file may be quantized, too.
    """
    model = read(data, name)
    graphs = len(model.subgraphs)
    signatures = len(model.signatures)
    inputs = len(model.inputs)
    if graphs != 1 or signatures > 1:
        raise UsageError(
            f"{name}: it has {graphs} graphs and {signatures} signatures, one of each can be taken", _PLAIN
        )
    if inputs != 1:
        raise UsageError(f"{name}: it has {inputs} inputs, an image model has one", _PLAIN)
    custom = custom_operators(model, LITERT_CUSTOM)
    if custom:
        raise UsageError(f"{name}: it has operators that a plain runtime lacks: {', '.join(custom[:3])}", _PLAIN)
    odd = [tensor.dtype for tensor in (*model.inputs, *model.outputs) if tensor.dtype not in _PIXELS]
    if finished and odd:
        raise UsageError(f"{name}: it takes or gives {odd[0]}", f"an image classifier has {', '.join(_PIXELS)}")
    numbers = "" if finished else _describe_numbers(model)
    if numbers:
        raise UsageError(f"{name}: {numbers}", _GIVE_FLOAT)
    return _input_size(data, model, name)


def list_quantized(model: Model) -> list[Tensor]:
    """Return the rounded weights and activations of a file, which keeps its form if it has some."""
    return [tensor for tensor in model.tensors if tensor.quantization and tensor.dtype in _STORED]


def name_output(data: bytes, name: str, softmax: bool) -> bytes:
    """Return a file that :func:`shape_of` accepts with its batch fixed at one and the output ``probabilities`` alone.

    ``softmax`` puts a softmax behind the output: it holds logits.
    """
    value = read(data, name)
    model = unpack(data, name)
    graph = model.subgraphs[0]
    for tensor in graph.tensors:
        # The batch stays open in it; the shape itself says one.
        tensor.shapeSignature = None
    for operator in value.operators:
        bias = operator.inputs[2] if operator.inputs[2:] else -1
        if operator.name == "FULLY_CONNECTED" and bias >= 0:
            # The quantizer takes a bias of one axis only.
            graph.tensors[bias].shape = [prod(value.tensors[bias].shape)]
    shape = (1, _classes(value, name))
    output = _shape_tensor(model, graph, scores_tensor(value, name), shape)
    if softmax:
        code = schema.BuiltinOperator.SOFTMAX
        output_name = f"own/output_{len(graph.tensors)}"
        output = append_operator(model, graph, code, [output], output_name, shape, schema.SoftmaxOptionsT(beta=1.0))
    sign(model, graph, INPUT, {PROBABILITIES: output})
    return pack(model)


def with_features(data: bytes, name: str) -> tuple[bytes, bool]:
    """Return the file of :func:`name_output` with the second output ``features``, and whether it has one.

    The features are the input of the last linear layer: a fully connected one, or a 1x1 convolution of one position.
    """
    model = unpack(data, name)
    graph = model.subgraphs[0]
    probabilities = int(graph.outputs[0])
    classifier_input = _find_classifier_input(read(data, name), probabilities)
    if classifier_input is None:
        return data, False
    width = prod(int(side) for side in graph.tensors[classifier_input].shape)
    features = _shape_tensor(model, graph, classifier_input, (1, width))
    sign(model, graph, INPUT, {PROBABILITIES: probabilities, FEATURES: features})
    return pack(model), True


def with_two_classes(data: bytes, name: str) -> bytes:
    """Return a float file that ends in one sigmoid as one that ends in a softmax over two classes, else the file.

    A sigmoid of a logit z is the second probability of the softmax of (0, z). So the last linear layer gets a row of
    zeros before its only row, and still is the linear layer that is trained on images.
    """
    model = read(data, name)
    output = model.subgraphs[0].outputs[0] if len(model.outputs) == 1 else -1
    sigmoid = _find_producer(model, output)
    if sigmoid is None or sigmoid.name != "LOGISTIC" or model.tensors[output].elements != 1:
        return data
    linear = _find_producer(model, sigmoid.inputs[0])
    if linear is None or linear.name != "FULLY_CONNECTED" or not model.tensors[linear.inputs[1]].is_constant:
        return data
    edited = unpack(data, name)
    graph = edited.subgraphs[0]
    for constant in linear.inputs[1:]:
        # -1 stands for a bias that is missing.
        if constant >= 0:
            _put_zeros_first(edited, graph.tensors[constant])
    for scores in (sigmoid.inputs[0], output):
        graph.tensors[scores].shape = np.asarray((1, 2), np.int32)
        graph.tensors[scores].shapeSignature = None
    place = model.operators.index(sigmoid)
    softmax = schema.SoftmaxOptionsT(beta=1.0)
    graph.operators[place] = new_operator(edited, schema.BuiltinOperator.SOFTMAX, [sigmoid.inputs[0]], output, softmax)
    return pack(edited)


def _put_zeros_first(model: schema.ModelT, tensor: schema.TensorT) -> None:
    """Put a row of zeros before the only row of a float32 constant, or a zero before its only value."""
    content = np.asarray(content_of(model, tensor), np.uint8).tobytes()
    tensor.buffer = add_buffer(model, bytes(len(content)) + content)
    shape = [int(side) for side in tensor.shape]
    tensor.shape = np.asarray([2, *shape[1:]], np.int32)


def scores_tensor(model: Model, name: str) -> int:
    """Return the tensor of the scores: the output called ``probabilities``, else the only one."""
    signed = dict(model.signatures[0].outputs) if model.signatures else {}
    if PROBABILITIES in signed:
        return signed[PROBABILITIES]
    if len(model.outputs) != 1:
        raise UsageError(
            f"{name}: it has {len(model.outputs)} outputs, and none is called '{PROBABILITIES}'",
            "keep the scores alone, or name them so",
        )
    return model.subgraphs[0].outputs[0]


def _describe_numbers(model: Model) -> str:
    rounded = list_quantized(model)
    if rounded:
        return f"it is quantized ({len(rounded)} tensors, first '{rounded[0].name}')"
    if any(tensor.dtype == "float16" for tensor in model.tensors):
        return "it computes in float16"
    other_types = [tensor.dtype for tensor in (*model.inputs, *model.outputs) if tensor.dtype != "float32"]
    return f"it takes or gives {other_types[0]}, not float32" if other_types else ""


def _input_size(data: bytes, model: Model, name: str) -> int:
    graph = schema.Model.GetRootAs(data, 0).Subgraphs(0)
    signature = graph.Tensors(graph.Inputs(0)).ShapeSignatureAsNumpy()
    shape = model.inputs[0].shape
    stated = shape if isinstance(signature, int) else tuple(int(side) for side in signature)
    square = len(shape) == 4 and shape[3] == 3 and shape[1] == shape[2] and 16 <= shape[1] <= MAX_INPUT_SIZE
    if not square or any(side < 1 for side in stated[1:]):
        raise UsageError(
            f"{name}: its input {stated} is not one square RGB image of a fixed size",
            "convert it with an input such as (1, 224, 224, 3)",
        )
    return shape[1]


def _classes(model: Model, name: str) -> int:
    output = model.tensors[scores_tensor(model, name)]
    classes = output.shape[-1] if output.shape else 0
    if classes < 2 or prod(abs(side) for side in output.shape) != classes:
        raise UsageError(
            f"{name}: its output {output.shape} is not one row of scores", "an image classifier has one score a class"
        )
    return classes


def _find_producer(model: Model, tensor: int) -> Operator | None:
    return next((operator for operator in model.operators if tensor in operator.outputs), None)


def _find_classifier_input(model: Model, output: int) -> int | None:
    """Return the tensor that the last linear layer reads, looking back from ``output``."""
    operator = _find_producer(model, output)
    while operator is not None:
        adds_bias = operator.name in _BIASES and model.tensors[operator.inputs[1]].is_constant
        if operator.name not in _BEHIND and not adds_bias:
            break
        operator = _find_producer(model, operator.inputs[0])
    if operator is None or operator.name not in ("FULLY_CONNECTED", "CONV_2D"):
        return None
    source, kernel = (model.tensors[index] for index in operator.inputs[:2])
    # A convolution over one position is linear too: its kernel has as many values an output as it reads.
    linear = kernel.is_constant and bool(kernel.shape) and source.elements == prod(kernel.shape[1:])
    return int(operator.inputs[0]) if linear else None


def _shape_tensor(model: schema.ModelT, graph: schema.SubGraphT, tensor: int, shape: tuple[int, int]) -> int:
    """Return the tensor itself where it has ``shape``, else a view of it."""
    entry = graph.tensors[tensor]
    if tuple(int(side) for side in entry.shape) == shape:
        return tensor
    sides = np.asarray(shape, dtype="<i4")
    wanted = add_tensor(model, graph, "own/shape", (2,), schema.TensorType.INT32, sides.tobytes())
    options = schema.ReshapeOptionsT(newShape=list(shape))
    code = schema.BuiltinOperator.RESHAPE
    name = f"own/output_{len(graph.tensors)}"
    return append_operator(model, graph, code, [tensor, wanted], name, shape, options)


def load_photograph(preprocessing: Preprocessing, size: int, name: str = "chelsea") -> NDArray[np.float32]:
    """Return a photograph of ``skimage.data``, by default of a cat, as the input of a model: float32 (1, S, S, 3)."""
    from skimage import data, transform

    image = transform.resize(getattr(data, name)(), (size, size), order=1, preserve_range=True)
    scaled = (image - np.asarray(preprocessing.mean)) / np.asarray(preprocessing.std)
    result: NDArray[np.float32] = scaled[None].astype(np.float32)
    return result


def run(data: bytes, image: NDArray[np.float32]) -> Mapping[str, NDArray[np.float32]]:
    """Run a file of one signature over one image in LiteRT, in the type of its input; return its outputs by name."""
    from ai_edge_litert.interpreter import Interpreter

    runner = Interpreter(model_content=data).get_signature_runner()
    ((name, details),) = runner.get_input_details().items()
    outputs: Mapping[str, NDArray[np.float32]] = runner(**{name: quantize(image, details)})
    return outputs

"""Edit any float ``.tflite`` image classifier into the form that the other rooms need.

The form has one signature, one input ``image`` float32 (1, S, S, 3), the output ``probabilities``
(1, C), and, where the file ends in a linear classifier, ``features`` (1, F): the input of that
classifier. The import (`master.py`) and tasks that take users' files call it, in child processes,
as a file may crash the runtime.
"""

from collections.abc import Mapping
from math import prod

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from numpy.typing import NDArray

from advisor.catalog._cards import Preprocessing
from advisor.core import UsageError, message_of
from advisor.tflite import (
    LITERT_CUSTOM,
    Model,
    Operator,
    Tables,
    Tensor,
    dequantize,
    quantize,
    read,
    unpack,
)

INPUT = "image"
PROBABILITIES = "probabilities"
FEATURES = "features"
MAX_INPUT_SIZE = 2048

_STORED = frozenset({"int8", "uint8", "int16", "int4", "uint4", "int2"})
_PIXELS = ("float32", "int8", "uint8", "int16")
_GIVE_FLOAT = (
    "give the float32 (or float16) file that it was made from: rounded weights cannot be retrained"
    " or compressed again without losing more, so every form is made from float ones"
)
SCORES = "give an image classifier that ends in a softmax"
_CONVERTED_ANEW = "convert it again with builtin operators that LiteRT has"
_PLAIN = (
    "give one graph of builtin operators for one image; a detector may end in its post-processing"
)
# Operators between the classifier and the output that change no order of the scores.
_BEHIND = ("SOFTMAX", "RESHAPE", "SQUEEZE")
_BIASES = ("ADD", "SUB")
_BEHIND_SIGMOIDS = ("RESHAPE", "SQUEEZE", "QUANTIZE", "DEQUANTIZE", "CONCATENATION")


def shape_of(data: bytes, name: str, finished: bool = False) -> tuple[int, int]:
    """Check that the file is a float classifier of one image; return its side and its classes.

    The side is that of its input in pixels. A ``finished`` file may be quantized, too.

    Raises:
        UsageError: damaged, quantized, with custom operators, of another input or output; the
            reason is given.
    """
    model = read(data, name)
    size = side_of(data, name, finished)
    if ends_in_sigmoids(model):
        raise UsageError(
            f"{name}: it ends in a sigmoid a class: a model of several labels an image, and one"
            " label is what is compared here",
            SCORES,
        )
    return size, count_scores(model, name)


def ends_in_sigmoids(model: Model) -> bool:
    """Return whether the first output is sigmoids, at most joined, reshaped or converted."""
    outputs = model.subgraphs[0].outputs
    waiting = list(outputs[:1])
    # At most as many steps as operators: a damaged graph may have a cycle.
    for _ in model.operators:
        if not waiting:
            break
        maker = _find_producer(model, waiting.pop())
        if maker is None or maker.name not in (*_BEHIND_SIGMOIDS, "LOGISTIC"):
            return False
        if maker.name == "CONCATENATION":
            waiting += maker.inputs
        elif maker.name != "LOGISTIC":
            waiting.append(maker.inputs[0])
    return bool(outputs) and not waiting


def side_of(data: bytes, name: str, finished: bool = False) -> int:
    """Return the side of a file's input in pixels; check that it is a float model of one image.

    A ``finished`` file may be quantized, too.
    """
    model = read(data, name)
    graphs = len(model.subgraphs)
    signatures = len(model.signatures)
    inputs = len(model.inputs)
    if graphs != 1 or signatures > 1:
        raise UsageError(
            f"{name}: it has {graphs} graphs and {signatures} signatures, one of each can be"
            " taken",
            _PLAIN,
        )
    if inputs != 1:
        raise UsageError(f"{name}: it has {inputs} inputs, an image model has one", _PLAIN)
    custom = model.list_custom_operators(LITERT_CUSTOM)
    if custom:
        raise UsageError(
            f"{name}: it has operators that a plain runtime lacks: {', '.join(custom[:3])}", _PLAIN
        )
    odd = []
    for tensor in (*model.inputs, *model.outputs):
        if tensor.dtype not in _PIXELS:
            odd.append(tensor.dtype)
    if finished and odd:
        raise UsageError(
            f"{name}: it takes or gives {odd[0]}", f"an image classifier has {', '.join(_PIXELS)}"
        )
    numbers = "" if finished else _describe_numbers(model)
    if numbers:
        raise UsageError(f"{name}: {numbers}", _GIVE_FLOAT)
    return _read_input_side(data, model, name)


def list_quantized(model: Model) -> list[Tensor]:
    """Return the rounded weights and activations of a file; with some, it keeps its form."""
    stored = []
    for tensor in model.tensors:
        if tensor.quantization and tensor.dtype in _STORED:
            stored.append(tensor)
    return stored


def name_output(data: bytes, name: str, end: str = "", output_name: str = PROBABILITIES) -> bytes:
    """Return a file of one image with one row of scores, the output ``output_name``.

    ``end`` is the operator that is put behind the output, SOFTMAX or LOGISTIC, if
    that holds logits.
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
    shape = (1, count_scores(value, name, least=1))
    output = _reshape_tensor(model, graph, scores_tensor(value, name), shape)
    if end:
        code = getattr(schema.BuiltinOperator, end)
        options = None
        if end == "SOFTMAX":
            options = schema.SoftmaxOptionsT(beta=1.0)
        output = model.append_operator(
            graph, code, [output], f"own/output_{len(graph.tensors)}", shape, options
        )
    model.replace_signature(graph, INPUT, {output_name: output})
    return model.pack()


def with_features(data: bytes, name: str) -> tuple[bytes, bool]:
    """Return the file of :func:`name_output` with the output ``features``, and whether it has one.

    The features are the input of the last linear layer: a fully connected one, or a 1x1
    convolution of one position.
    """
    model = unpack(data, name)
    graph = model.subgraphs[0]
    probabilities = int(graph.outputs[0])
    classifier_input = _find_classifier_input(read(data, name), probabilities)
    if classifier_input is None:
        return data, False
    width = prod(map(int, graph.tensors[classifier_input].shape))
    features = _reshape_tensor(model, graph, classifier_input, (1, width))
    model.replace_signature(graph, INPUT, {PROBABILITIES: probabilities, FEATURES: features})
    return model.pack(), True


def with_bias(data: bytes, name: str) -> bytes:
    """Return a float file whose fully connected layers all have a bias, of zeros if missing."""
    model = read(data, name)
    edited = unpack(data, name)
    graph = edited.subgraphs[0]
    for place, operator in enumerate(model.operators):
        # -1 stands for a bias that is missing.
        if operator.name != "FULLY_CONNECTED" or (operator.inputs[2:] and operator.inputs[2] >= 0):
            continue
        rows = model.tensors[operator.inputs[1]].shape[0]
        content = bytes(4 * rows)
        bias = edited.add_tensor(
            graph, f"own/bias_{place}", (rows,), schema.TensorType.FLOAT32, content
        )
        graph.operators[place].inputs = [*operator.inputs[:2], bias]
    return edited.pack()


def with_two_classes(data: bytes, name: str) -> bytes:
    """Return a file that ends in one sigmoid as one that ends in a softmax over two classes.

    Another file stays as it is. A sigmoid of a logit z is the second probability of the softmax of
    (0, z). So the last linear layer gets a row of zeros before its only row, and still is the
    linear layer that is trained on images.
    """
    model = read(data, name)
    output = model.subgraphs[0].outputs[0] if len(model.outputs) == 1 else -1
    sigmoid = _find_producer(model, output)
    if sigmoid is None or sigmoid.name != "LOGISTIC" or model.tensors[output].elements != 1:
        return data
    linear = _find_producer(model, sigmoid.inputs[0])
    if linear is None or linear.name != "FULLY_CONNECTED":
        return data
    if not model.tensors[linear.inputs[1]].is_constant:
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
    graph.operators[place] = edited.make_operator(
        schema.BuiltinOperator.SOFTMAX, [sigmoid.inputs[0]], output, softmax
    )
    return edited.pack()


def _put_zeros_first(model: Tables, tensor: schema.TensorT) -> None:
    """Put zeros before the only row, or the only value, of a float32 constant."""
    content = np.asarray(model.read_content(tensor), np.uint8).tobytes()
    tensor.buffer = model.add_buffer(bytes(len(content)) + content)
    shape = list(map(int, tensor.shape))
    tensor.shape = np.asarray([2, *shape[1:]], np.int32)


def scores_tensor(model: Model, name: str) -> int:
    """Return the tensor of the scores: the output called ``probabilities``, else the only one."""
    signed = {}
    if model.signatures:
        signed = dict(model.signatures[0].outputs)
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
    other_types = []
    for tensor in (*model.inputs, *model.outputs):
        if tensor.dtype != "float32":
            other_types.append(tensor.dtype)
    return f"it takes or gives {other_types[0]}, not float32" if other_types else ""


def _read_input_side(data: bytes, model: Model, name: str) -> int:
    graph = schema.Model.GetRootAs(data, 0).Subgraphs(0)
    signature = graph.Tensors(graph.Inputs(0)).ShapeSignatureAsNumpy()
    shape = model.inputs[0].shape
    stated = shape
    if not isinstance(signature, int):
        stated = tuple(map(int, signature))
    is_rgb = len(shape) == 4 and shape[3] == 3
    square = is_rgb and shape[1] == shape[2] and 16 <= shape[1] <= MAX_INPUT_SIZE
    if not square or any(side < 1 for side in stated[1:]):
        raise UsageError(
            f"{name}: its input {stated} is not one square RGB image of a fixed size",
            "convert it with an input such as (1, 224, 224, 3)",
        )
    return shape[1]


def count_scores(model: Model, name: str, least: int = 2) -> int:
    """Return the number of scores; UsageError if the output is no row of ``least`` or more."""
    output = model.tensors[scores_tensor(model, name)]
    classes = output.shape[-1] if output.shape else 0
    if classes < least or prod(map(abs, output.shape)) != classes:
        raise UsageError(
            f"{name}: its output {output.shape} is not one row of scores",
            "an image classifier has one score a class",
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
    if not kernel.is_constant or not kernel.shape:
        return None
    # A convolution over one position is linear too: it reads as many values as its kernel has.
    if source.elements != prod(kernel.shape[1:]):
        return None
    return int(operator.inputs[0])


def _reshape_tensor(
    model: Tables, graph: schema.SubGraphT, tensor: int, shape: tuple[int, int]
) -> int:
    """Return the tensor itself where it has ``shape``, else a view of it."""
    entry = graph.tensors[tensor]
    if tuple(map(int, entry.shape)) == shape:
        return tensor
    sides = np.asarray(shape, dtype="<i4")
    wanted = model.add_tensor(graph, "own/shape", (2,), schema.TensorType.INT32, sides.tobytes())
    options = schema.ReshapeOptionsT(newShape=list(shape))
    code = schema.BuiltinOperator.RESHAPE
    name = f"own/output_{len(graph.tensors)}"
    return model.append_operator(graph, code, [tensor, wanted], name, shape, options)


def load_photograph(
    preprocessing: Preprocessing, size: int, name: str = "chelsea"
) -> NDArray[np.float32]:
    """Return a photograph of ``skimage.data`` as the input of a model, float32 (1, S, S, 3)."""
    from skimage import data, transform

    image = transform.resize(getattr(data, name)(), (size, size), order=1, preserve_range=True)
    scaled = (image - np.asarray(preprocessing.mean)) / np.asarray(preprocessing.std)
    result: NDArray[np.float32] = scaled[None].astype(np.float32)
    return result


def run(data: bytes, image: NDArray[np.float32]) -> Mapping[str, NDArray[np.float32]]:
    """Run a file of one signature over one image in LiteRT; return its outputs by name."""
    from ai_edge_litert.interpreter import Interpreter

    runner = Interpreter(model_content=data).get_signature_runner()
    ((name, details),) = runner.get_input_details().items()
    outputs: Mapping[str, NDArray[np.float32]] = runner(**{name: quantize(image, details)})
    return outputs


def sums_to_one(data: bytes, input_size: int, name: str) -> bool:
    """Return whether the answers are probabilities already; logits are not, whatever the image."""
    rng = np.random.default_rng(0)
    # The logits of one image could add up to one by chance.
    for image in rng.normal(size=(3, 1, input_size, input_size, 3)).astype(np.float32):
        row = scores_of(data, image, name)
        if row.min() < 0 or abs(float(row.sum()) - 1.0) > 1e-3:
            return False
    return True


def scores_of(data: bytes, image: NDArray[np.float32], name: str) -> NDArray[np.float32]:
    """Return one row of scores from a file that may have no signature."""
    from ai_edge_litert.interpreter import Interpreter

    try:
        runner = Interpreter(model_content=data)
        runner.allocate_tensors()
        (detail,) = runner.get_input_details()
        runner.set_tensor(detail["index"], quantize(image, detail))
        runner.invoke()
    except (ValueError, RuntimeError) as error:
        raise UsageError(
            f"{name}: LiteRT cannot run it: {message_of(error)}", _CONVERTED_ANEW
        ) from error
    tensor = scores_tensor(read(data, name), name)
    scores = next(output for output in runner.get_output_details() if output["index"] == tensor)
    row = dequantize(runner.get_tensor(tensor), scores).reshape(-1)
    if not np.isfinite(row).all():
        raise UsageError(f"{name}: its answers are not finite numbers", SCORES)
    return row

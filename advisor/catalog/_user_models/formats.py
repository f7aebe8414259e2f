"""List the formats of users' models: how each is checked and becomes a float ``.tflite``.

`master.py` calls :func:`as_tflite` in a child process. A new format is one :class:`Format` in
:func:`list_formats`. Its ``check`` must refuse code before any library opens the file, and a
format with an original is compared with it after the conversion (`comparison.py`). A card
that was added keeps its file, so only what is made of a ``.tflite`` file has a version: raise
``VERSION`` of `import_model.py`.
"""

from __future__ import annotations

import contextlib
import copy
import io
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.catalog._cards import Conversion
from advisor.catalog._user_models import keras_models, onnx_files, pt2
from advisor.catalog._user_models.comparison import Original, OriginalLayer, compare_conversion
from advisor.catalog._user_models.onnx_files import ONNX2TF_VERSION, ImageInput
from advisor.catalog._user_models.onnx_rewriting import prepare_graph
from advisor.catalog._user_models.torch_programs import TorchProgram, require_torch
from advisor.catalog._weights.readers import Array
from advisor.core import UsageError, message_of
from advisor.store import Packages
from advisor.tflite import read, simplify_file, without_transposes

if TYPE_CHECKING:
    from onnx import ModelProto

_CONVERTED = "convert it to .tflite yourself, and add that file"
PACKAGES = Packages(
    "onnx2tf",
    (
        (
            f"onnx2tf=={ONNX2TF_VERSION}"
            " --hash=sha256:98515924d59b22d530eb2e958fe660c5b2beef1863ef20b073ba385e78667be4"
        ),
        (
            "sng4onnx==2.0.1"
            " --hash=sha256:3bcbdaf79c8c4f107a340802f9562620ac5b3c83b3b8e8d08a553276d754168f"
        ),
    ),
    # It pins other versions of our packages, and Python 3.12, which this part does not need.
    ("--no-deps", "--ignore-requires-python"),
)

PICKLES = frozenset({".pt", ".pth", ".ckpt", ".pkl"})
"""Suffixes of PyTorch's other files, whose reading can run the code in them."""

_FROM_KERAS = "save it with model.save('name.keras')"

OTHER_FORMATS = {
    ".h5": ("Keras' older format", f"load it in Keras, and {_FROM_KERAS}"),
    ".hdf5": ("Keras' older format", f"load it in Keras, and {_FROM_KERAS}"),
    ".pb": (
        "the graph of a SavedModel, or of TensorFlow 1",
        "give the folder of the SavedModel, which has this file",
    ),
    ".safetensors": (
        "a file of weights without a network",
        f"build the network, load the weights, and {pt2.EXPORT}",
    ),
    ".mlmodel": ("a Core ML file", "give the model that it was converted from"),
    ".mlpackage": ("a Core ML package", "give the model that it was converted from"),
    ".engine": (
        "a TensorRT engine, which runs on one kind of GPU",
        "give the ONNX file that it was made from",
    ),
    ".caffemodel": ("a Caffe file", "convert it to ONNX"),
    ".torchscript": ("a TorchScript file", pt2.EXPORT),
}
"""The name of another tool's file by its extension, and what to give instead."""

_NCHW = np.array([0, 3, 1, 2], np.int32)


@dataclass(frozen=True)
class Format:
    """A format that users' models come in. Its functions run in a child process.

    Each takes the file and the side of its input, in pixels, where the file leaves it open.
    """

    what: str  #: the file in a few words, such as ``a .keras file``
    library: str  #: the library that reads it, for errors
    suffix: str  #: of its files; empty for a folder
    #: refuses a file that is damaged, would run code of its own, or reads other files, with a
    #: ``UsageError``; needs no package beside.
    check: Callable[[Path, int | None], object]
    convert: Callable[[Path, int | None], bytes]  #: returns a checked file as a ``.tflite``
    #: returns the model in its own runtime, None where the library that reads it also converts it.
    original: Callable[[Path, int | None], Original] | None = None
    #: packages of the converter that do not fit those of this environment; its child has them
    packages: Packages | None = None
    tensorflow: bool = False  #: whether its functions need TensorFlow

    def takes(self, file: Path) -> bool:
        """Return whether the file, which exists, is of this format by its name."""
        return file.is_file() and file.suffix == self.suffix if self.suffix else file.is_dir()


def _fix_graph(file: Path, size: int | None) -> tuple[ModelProto, ImageInput]:
    model = onnx_files.read_checked(file)
    return model, onnx_files.fix_input(model, size, file)


def _convert_onnx(file: Path, size: int | None) -> bytes:
    import onnx

    model, image = _fix_graph(file, size)
    model = prepare_graph(model, file)
    names_in_nhwc = None if image.channels_first else [image.name]
    depth = sys.getrecursionlimit()
    with tempfile.TemporaryDirectory() as folder:
        fixed = Path(folder) / "model.onnx"
        onnx.save(model, fixed)
        try:
            import onnx2tf

            onnx2tf.convert(
                input_onnx_file_path=str(fixed),
                output_folder_path=folder,
                not_use_onnxsim=True,
                keep_nwc_or_nhwc_or_ndhwc_input_names=names_in_nhwc,
                non_verbose=True,
            )
        finally:
            # onnx2tf lifts it, and deep nesting would then end the process.
            sys.setrecursionlimit(depth)
        return _with_transposes((Path(folder) / "model_float32.tflite").read_bytes(), model)


def _with_transposes(data: bytes, model: ModelProto) -> bytes:
    """Return a file of onnx2tf with the transposes to (N, C, H, W) that it left out.

    They are those of tensors that nothing makes. Their values in (N, H, W, C) are in
    ``NAME_nhwc_bridge``, or in ``NODE_input_nhwc`` of another node that reads them.
    """
    from ai_edge_litert import schema_py_generated as schema

    from advisor.tflite import unpack

    tables = unpack(data)
    (graph,) = tables.subgraphs
    tensors = {tensor.name.decode(): index for index, tensor in enumerate(graph.tensors)}
    maker_places: dict[int, int] = {}
    tensors_read = set[int]()
    for place, operator in enumerate(graph.operators):
        maker_places.update(dict.fromkeys(map(int, operator.outputs), place))
        tensors_read.update(map(int, operator.inputs))
    unmade = tensors_read - maker_places.keys() - set(map(int, graph.inputs))
    bridges = []
    for name, index in tensors.items():
        # What nothing makes and has no content either was left out.
        if index not in unmade or tables.buffers[graph.tensors[index].buffer].data is not None:
            continue
        readers = [node.name for node in model.graph.node if name in node.input]
        names_in_nhwc = [f"{name}_nhwc_bridge", *(f"{reader}_input_nhwc" for reader in readers)]
        sources = []
        for name_in_nhwc in names_in_nhwc:
            if tensors.get(name_in_nhwc) in maker_places:
                sources.append(tensors[name_in_nhwc])
        if sources:
            source = sources[0]
            int32 = schema.TensorType.INT32
            content = _NCHW.tobytes()
            order = tables.add_tensor(graph, f"{name}/order", _NCHW.shape, int32, content)
            code = tables.find_operator_code(schema.BuiltinOperator.TRANSPOSE, 2)
            bridge = schema.OperatorT(opcodeIndex=code, inputs=[source, order], outputs=[index])
            bridges.append((maker_places[source], bridge))
    # From the last to the first, so that the places of the others stay true.
    for place, bridge in sorted(bridges, key=lambda place_and_bridge: -place_and_bridge[0]):
        graph.operators.insert(place + 1, bridge)
    return tables.pack() if bridges else data


def _check_pt2(file: Path, size: int | None) -> None:
    side = pt2.read_archive(file).side
    keras_models.fix_side((1, side, side, 3), size, str(file))
    require_torch(file)


def _convert_pt2(file: Path, size: int | None) -> bytes:
    program = TorchProgram(file)
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "model.onnx"
        program.write_onnx(written)
        return _convert_onnx(written, size)


class OnnxOriginal:
    """A fixed graph in ONNX Runtime, as the user gave it."""

    converter = f"onnx2tf {ONNX2TF_VERSION}"

    def __init__(self, model: ModelProto, image: ImageInput) -> None:
        self._model = model
        self._image = image

    @property
    def runtime(self) -> str:
        """The runtime and its version."""
        import onnxruntime

        return f"onnxruntime {onnxruntime.__version__}"

    def scores(self, images: Array) -> Array:
        """Return the scores (N, C) of normalised images (N, S, S, 3)."""
        session = _open_session(self._model)
        rows = []
        for image in images:
            outputs = session.run(None, self._feed_image(image[None]))
            rows.append(outputs[0].reshape(-1))
        return np.stack(rows)

    def layers(self, image: Array) -> Sequence[OriginalLayer]:
        """Return every node with a float output for one image (1, S, S, 3)."""
        import onnx

        nodes = list(self._model.graph.node)
        layer_of_output: dict[str, str] = {}
        for node in nodes:
            layer_of_output.update(dict.fromkeys(node.output, node.name or node.output[0]))
        # A session gives the outputs that the graph states, so a copy states them all.
        open_model = copy.deepcopy(self._model)
        stated = {entry.name for entry in open_model.graph.output}
        for name in layer_of_output:
            # An optional output that a node leaves out has an empty name.
            if name and name not in stated:
                open_model.graph.output.append(onnx.ValueInfoProto(name=name))
        session = _open_session(open_model)
        outputs = [entry.name for entry in session.get_outputs()]
        values = dict(zip(outputs, session.run(outputs, self._feed_image(image)), strict=True))
        layers = []
        for node in nodes:
            value = values.get(node.output[0])
            # Shapes and indices are of whole numbers: no layer of the converted file has them.
            if isinstance(value, np.ndarray) and value.dtype == np.float32:
                sources = []
                for name in node.input:
                    if name in layer_of_output:
                        sources.append(layer_of_output[name])
                layer = layer_of_output[node.output[0]]
                layers.append(OriginalLayer(layer, node.op_type, tuple(sources), value))
        return layers

    def _feed_image(self, image: Array) -> dict[str, Array]:
        if self._image.channels_first:
            image = image.transpose(0, 3, 1, 2)
        return {self._image.name: image}


def _open_session(model: ModelProto) -> Any:
    """Return a session without rewriting of the graph: it is the reference."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


@cache
def list_formats() -> tuple[Format, ...]:
    """Return the formats of users' files, in the order in which a file is compared with them."""
    return (
        Format(
            "a .keras file",
            "Keras",
            ".keras",
            lambda file, _: keras_models.check_keras(file),
            keras_models.convert_keras,
            tensorflow=True,
        ),
        Format(
            "a SavedModel's folder",
            "TensorFlow",
            "",
            lambda file, _: keras_models.check_saved_model(file),
            keras_models.convert_saved_model,
            tensorflow=True,
        ),
        Format(
            "a .tflite file",
            "LiteRT",
            ".tflite",
            lambda file, _: read(file),
            lambda file, _: file.read_bytes(),
        ),
        Format(
            "an .onnx file",
            "onnx2tf",
            ".onnx",
            _fix_graph,
            _convert_onnx,
            lambda file, size: OnnxOriginal(*_fix_graph(file, size)),
            PACKAGES,
        ),
        Format(
            "a .pt2 file",
            "PyTorch",
            ".pt2",
            _check_pt2,
            _convert_pt2,
            lambda file, _: TorchProgram(file),
            PACKAGES,
        ),
    )


def format_of(file: Path) -> Format:
    """Return the format of a file or folder; UsageError if it is missing or of no format."""
    taken = ", ".join(known_format.what for known_format in list_formats())
    if not file.exists():
        raise UsageError(f"there is no file '{file}'", f"give one of: {taken}")
    for known_format in list_formats():
        if known_format.takes(file):
            return known_format
    suffixes = [suffix.lower() for suffix in file.suffixes]
    if PICKLES.intersection(suffixes):
        raise UsageError(
            f"'{file}' is a pickle, which runs code when it is read: it is not read", pt2.EXPORT
        )
    if file.suffix.lower() in OTHER_FORMATS:
        what, hint = OTHER_FORMATS[file.suffix.lower()]
        raise UsageError(f"'{file}' is {what}, and none of: {taken}", hint)
    raise UsageError(
        f"'{file}' is none of: {taken}", f"from Keras: {_FROM_KERAS}; from PyTorch: {pt2.EXPORT}"
    )


def as_tflite(file: Path, size: int | None) -> tuple[bytes, Conversion | None]:
    """Return a file of any format as a ``.tflite``, and its comparison with an original if any.

    ``size`` is the side of its input where the file leaves it open.
    """
    form = format_of(file)
    form.check(file, size)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            data = form.convert(file, size)
            original = form.original(file, size) if form.original else None
            # Keras and TensorFlow convert their models themselves; a .tflite is taken as it is.
            if original is None:
                return data, None
            data = simplify_file(without_transposes(data, str(file)))
            return data, compare_conversion(original, data, str(file))
    except UsageError:
        raise
    # A damaged or strange model can fail the library in any way.
    except Exception as error:
        raise UsageError(
            f"{file}: {form.library} cannot load or convert it: {message_of(error)}", _CONVERTED
        ) from error

"""Check untrusted ``.keras`` archives and SavedModels, then convert them.

`formats.py` calls a check before Keras or TensorFlow opens the file, so that no code in it runs:
custom layers, operators of files and Python are refused. The lists of operators decide what is
safe; add to ``_STATE`` only what touches nothing outside of the graph. A card that was added
keeps its file, so a change here needs no new version.
"""

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from advisor.core import UNREADABLE_ZIP, UsageError, message_of

CONFIG = "config.json"
GRAPH = "saved_model.pb"
SIGNATURE = "serving_default"
MAX_CONFIG_BYTES = 64 * 2**20
MAX_UNPACKED_BYTES = 4 * 2**30
MAX_GRAPH_BYTES = 2**30

_HOLDS = frozenset({CONFIG, "metadata.json", "model.weights.h5"})
# Layers that carry code, or load another file whose code they run.
_CODE = frozenset(
    {"Lambda", "TFSMLayer", "TorchModuleWrapper", "JaxLayer", "FlaxLayer", "__lambda__"}
)
_DAMAGED = "save the model again: model.save('NAME.keras')"
_SAVE_AGAIN = (
    "build the model of plain Keras layers, load its weights into that, and save it again"
)
_PLAIN = "it is not run: export the model without this operator"
# Operators that run Python, or touch files, though TensorFlow calls some of them stateless.
_REFUSED = frozenset(
    {
        "PyFunc",
        "PyFuncStateless",
        "EagerPyFunc",
        "ReadFile",
        "WriteFile",
        "MatchingFiles",
        "WholeFileReader",
        "WholeFileReaderV2",
        "TextLineReader",
        "TextLineReaderV2",
        "FixedLengthRecordReader",
        "TFRecordReader",
        "TFRecordReaderV2",
        "TextLineDataset",
        "TFRecordDataset",
        "SaveDataset",
        "LoadDataset",
        "PrintV2",
        "Print",
        "DebugIdentity",
        "DebugIdentityV2",
        "RemoteCall",
        "Rpc",
        "XlaHostCompute",
        "LoadAndRemapMatrix",
        "ImmutableConst",
        "InitializeTableFromTextFile",
        "InitializeTableFromTextFileV2",
    }
)
# Stateful operators of trained graphs: variables, calls, random numbers, and their checkpoint.
_STATE = frozenset(
    {
        "Assert",
        "Assign",
        "AssignAddVariableOp",
        "AssignSubVariableOp",
        "AssignVariableOp",
        "Bernoulli",
        "Case",
        "DisableCopyOnRead",
        "HashTable",
        "HashTableV2",
        "If",
        "InitializeTable",
        "InitializeTableV2",
        "IsVariableInitialized",
        "LookupTableExport",
        "LookupTableExportV2",
        "LookupTableFind",
        "LookupTableFindV2",
        "LookupTableImport",
        "LookupTableImportV2",
        "LookupTableSize",
        "LookupTableSizeV2",
        "MergeV2Checkpoints",
        "Multinomial",
        "MutableHashTable",
        "MutableHashTableV2",
        "Placeholder",
        "RandomStandardNormal",
        "RandomUniform",
        "RandomUniformInt",
        "ReadVariableOp",
        "Restore",
        "RestoreSlice",
        "RestoreV2",
        "Save",
        "SaveSlices",
        "SaveV2",
        "StatefulPartitionedCall",
        "TruncatedNormal",
        "VarHandleOp",
        "VarIsInitializedOp",
        "Variable",
        "VariableV2",
        "While",
    }
)


def fix_side(shape: tuple[int | None, ...], size: int | None, name: str) -> tuple[int, int, int]:
    """Return the (S, S, 3) of an input (batch, height, width, channels).

    ``size`` is S where the input leaves it open.
    """
    if len(shape) != 4 or shape[3] not in (3, None):
        raise UsageError(
            f"{name}: its input {shape} is not one RGB image",
            "its shape is (batch, height, width, 3)",
        )
    sides = {side for side in (*shape[1:3], size) if side is not None}
    if not sides:
        raise UsageError(
            f"{name}: its input {shape} leaves the size open",
            "give it with --input-size, such as 224",
        )
    if shape[1] and shape[2] and shape[1] != shape[2]:
        raise UsageError(
            f"{name}: its input of {shape[2]} x {shape[1]} pixels is no square, and images are"
            " given as squares",
            f"export the model for {max(sides)} x {max(sides)} pixels, or put a layer before it"
            " that resizes a square",
        )
    if len(sides) > 1:
        raise UsageError(
            f"{name}: its input {shape} and a size of {size or max(sides)} are not one square",
            "give its side with --input-size, or leave the option out",
        )
    (side,) = sides
    return side, side, 3


def objects_in(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every JSON object, however deep.

    The stack is a list, so that nesting cannot exhaust Python's own.
    """
    waiting = [value]
    while waiting:
        entry = waiting.pop()
        if isinstance(entry, dict):
            yield entry
            waiting += entry.values()
        elif isinstance(entry, list):
            waiting += entry


def convert_keras(file: Path, size: int | None) -> bytes:
    """Return a checked model as a ``.tflite``, its input fixed at one image.

    Keras loads it in ``safe_mode``.
    """
    import keras
    import tensorflow as tf

    model = keras.saving.load_model(file, compile=False, safe_mode=True)
    inputs = getattr(model, "inputs", None) or []
    if len(inputs) != 1:
        raise UsageError(
            f"{file}: it has {len(inputs)} inputs", "an image classifier has one input"
        )
    shape = fix_side(tuple(inputs[0].shape), size, str(file))
    image = keras.Input(shape, batch_size=1, name="image")
    whole = keras.Model(image, model(image))
    data: bytes = tf.lite.TFLiteConverter.from_keras_model(whole).convert()
    return data


def check_keras(file: Path) -> None:
    """Check the archive without Keras."""
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            for name in (member.filename for member in members):
                if name.rstrip("/") not in _HOLDS and not name.startswith("assets/"):
                    raise UsageError(
                        f"{file}: the archive holds '{name}', which no .keras file does", _DAMAGED
                    )
                if ".." in Path(name).parts:
                    raise UsageError(
                        f"{file}: the member path '{name}' leaves the archive", _DAMAGED
                    )
            if sum(member.file_size for member in members) > MAX_UNPACKED_BYTES:
                raise UsageError(
                    f"{file}: it unpacks to more than {MAX_UNPACKED_BYTES} bytes", _DAMAGED
                )
            for member in members:
                if member.filename == CONFIG and member.file_size > MAX_CONFIG_BYTES:
                    raise UsageError(
                        f"{file}: its {CONFIG} has more than {MAX_CONFIG_BYTES} bytes", _DAMAGED
                    )
            config = json.loads(archive.read(CONFIG))
    # KeyError: no such member. ValueError: a configuration that is no JSON.
    except (*UNREADABLE_ZIP, KeyError, ValueError) as error:
        raise UsageError(
            f"{file} is not a usable .keras file: {message_of(error)}", _DAMAGED
        ) from error
    for entry in objects_in(config):
        if "class_name" in entry:
            _check_object(file, entry)


def _check_object(file: Path, entry: dict[str, Any]) -> None:
    name = str(entry["class_name"])
    module = entry.get("module")
    config = entry.get("config")
    if name in _CODE:
        layer = str(config.get("name", "")) if isinstance(config, dict) else ""
        raise UsageError(
            f"{file}: the layer '{layer}' is a {name}, which carries code of its own: it is not"
            " run (Keras' safe_mode)",
            _SAVE_AGAIN,
        )
    registered = entry.get("registered_name")
    is_of_keras = module is not None and str(module).partition(".")[0] in ("keras", "builtins")
    if not is_of_keras and (registered or module is not None):
        raise UsageError(
            f"{file}: '{name}' comes from {module or registered}, not from Keras: its code is"
            " not run",
            _SAVE_AGAIN,
        )


def convert_saved_model(folder: Path, size: int | None) -> bytes:
    """Return a checked SavedModel's only signature as a ``.tflite`` of one image."""
    import tensorflow as tf

    loaded = tf.saved_model.load(str(folder))
    signatures = dict(loaded.signatures)
    if SIGNATURE not in signatures and len(signatures) != 1:
        names = ", ".join(sorted(signatures)) or "none"
        raise UsageError(
            f"{folder}: no signature is called '{SIGNATURE}' (there are: {names})",
            f"save it as '{SIGNATURE}'",
        )
    signature = signatures[SIGNATURE if SIGNATURE in signatures else next(iter(signatures))]
    _, inputs = signature.structured_input_signature
    if len(inputs) != 1:
        raise UsageError(
            f"{folder}: its signature has {len(inputs)} inputs",
            "an image classifier has one input",
        )
    ((name, spec),) = inputs.items()
    shape = tuple(spec.shape.as_list()) if spec.shape.rank is not None else ()
    fixed = tf.TensorSpec((1, *fix_side(shape, size, str(folder))), tf.float32, name="image")

    def call(image: Any) -> Any:
        return signature(**{name: image})

    concrete = tf.function(call).get_concrete_function(fixed)
    data: bytes = tf.lite.TFLiteConverter.from_concrete_functions([concrete], loaded).convert()
    return data


def check_saved_model(folder: Path) -> None:
    """Check the graph without running it."""
    graph = folder / GRAPH
    if not graph.is_file():
        raise UsageError(
            f"'{folder}' is not a SavedModel: it has no {GRAPH}",
            "give the folder that holds that file",
        )
    if graph.stat().st_size > MAX_GRAPH_BYTES:
        raise UsageError(
            f"{graph}: more than {MAX_GRAPH_BYTES} bytes", "keep the weights in variables/"
        )
    for path in folder.rglob("*"):
        if not path.resolve().is_relative_to(folder.resolve()):
            raise UsageError(
                f"{path}: a link out of the folder", "copy the file itself into the folder"
            )
    from tensorflow.python.framework import op_def_registry

    for operator in sorted(_list_operators(graph)):
        # TensorFlow calls operators of files and sockets stateful.
        known = op_def_registry.get(operator)
        is_suspicious = operator not in _STATE and (known is None or known.is_stateful)
        if operator in _REFUSED or is_suspicious:
            raise UsageError(
                f"{folder}: the graph has a {operator}, which runs code or touches files", _PLAIN
            )


def _list_operators(graph: Path) -> set[str]:
    """Return the operators of the graph and of its functions, without calls of functions."""
    from tensorflow.core.protobuf import saved_model_pb2
    from tensorflow.python.framework import op_def_registry

    model = saved_model_pb2.SavedModel()
    try:
        model.ParseFromString(graph.read_bytes())
    # The parser's own error type is not public.
    except Exception as error:
        raise UsageError(f"{graph}: damaged ({error})", "save the model again") from error
    operators: set[str] = set()
    for meta in model.meta_graphs:
        functions = meta.graph_def.library.function
        operators.update(node.op for node in meta.graph_def.node)
        for function in functions:
            operators.update(node.op for node in function.node_def)
        # A function of a graph is called by its name, as an operator is.
        # One with the name of an operator hides none.
        names = [function.signature.name for function in functions]
        operators.difference_update(name for name in names if op_def_registry.get(name) is None)
    return operators

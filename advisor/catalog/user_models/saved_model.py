"""Check an untrusted SavedModel before TensorFlow opens it, then convert it to a float ``.tflite``."""

from pathlib import Path
from typing import Any

from advisor.catalog.user_models.keras_archive import fixed_side
from advisor.core.errors import UsageError

GRAPH = "saved_model.pb"
MAX_GRAPH_BYTES = 2**30
SIGNATURE = "serving_default"
_PLAIN = "it is not run: export the model without this operator"
# Operators that run Python, or read and write files as they please, though TensorFlow calls some of them stateless.
_REFUSED = frozenset(
    {
        "PyFunc", "PyFuncStateless", "EagerPyFunc", "ReadFile", "WriteFile", "MatchingFiles", "WholeFileReader",
        "WholeFileReaderV2", "TextLineReader", "TextLineReaderV2", "FixedLengthRecordReader", "TFRecordReader",
        "TFRecordReaderV2", "TextLineDataset", "TFRecordDataset", "SaveDataset", "LoadDataset", "PrintV2", "Print",
        "DebugIdentity", "DebugIdentityV2", "RemoteCall", "Rpc", "XlaHostCompute", "LoadAndRemapMatrix",
        "ImmutableConst", "InitializeTableFromTextFile", "InitializeTableFromTextFileV2",
    }
)  # fmt: skip
# Stateful operators that a trained graph needs: variables, calls, random numbers, and its own checkpoint.
_STATE = frozenset(
    {
        "Assert", "Assign", "AssignAddVariableOp", "AssignSubVariableOp", "AssignVariableOp", "Bernoulli", "Case",
        "DisableCopyOnRead", "HashTable", "HashTableV2", "If", "InitializeTable", "InitializeTableV2",
        "IsVariableInitialized", "LookupTableExport", "LookupTableExportV2", "LookupTableFind", "LookupTableFindV2",
        "LookupTableImport", "LookupTableImportV2", "LookupTableSize", "LookupTableSizeV2", "MergeV2Checkpoints",
        "Multinomial", "MutableHashTable", "MutableHashTableV2", "Placeholder", "RandomStandardNormal",
        "RandomUniform", "RandomUniformInt", "ReadVariableOp", "Restore", "RestoreSlice", "RestoreV2", "Save",
        "SaveSlices", "SaveV2", "StatefulPartitionedCall", "TruncatedNormal", "VarHandleOp", "VarIsInitializedOp",
        "Variable", "VariableV2", "While",
    }
)  # fmt: skip


def converter(folder: Path, size: int | None) -> Any:
    """Return the TFLite converter of a checked model's only signature, its input fixed at one image.

    Raises:
        UsageError: it is not one image in and scores out.
    """
    import tensorflow as tf

    loaded = tf.saved_model.load(str(folder))
    concrete = _concrete(tf, _signature(loaded, folder), size, folder)
    return tf.lite.TFLiteConverter.from_concrete_functions([concrete], loaded)


def check(folder: Path) -> None:
    """Check the graph without running it.

    Raises:
        UsageError: no SavedModel, links that leave the folder, or an operator that runs code or touches files.
    """
    graph = folder / GRAPH
    if not graph.is_file():
        raise UsageError(f"'{folder}' is not a SavedModel: it has no {GRAPH}", "give the folder that holds that file")
    if graph.stat().st_size > MAX_GRAPH_BYTES:
        raise UsageError(f"{graph}: more than {MAX_GRAPH_BYTES} bytes", "keep the weights in variables/")
    for path in folder.rglob("*"):
        if not path.resolve().is_relative_to(folder.resolve()):
            raise UsageError(f"{path}: a link out of the folder", "copy the file itself into the folder")
    for operator in sorted(_operators(graph)):
        if operator in _REFUSED or (operator not in _STATE and _is_stateful(operator)):
            raise UsageError(f"{folder}: the graph has a {operator}, which runs code or touches files", _PLAIN)


def _is_stateful(operator: str) -> bool:
    """Return whether TensorFlow does not know the operator, or calls it stateful, as those of files and sockets."""
    from tensorflow.python.framework import op_def_registry

    definition = op_def_registry.get(operator)
    return definition is None or bool(definition.is_stateful)


def _operators(graph: Path) -> set[str]:
    """Return the operators of the graph and of its functions; a call of a function is no operator."""
    from tensorflow.core.protobuf import saved_model_pb2
    from tensorflow.python.framework import op_def_registry

    model = saved_model_pb2.SavedModel()
    try:
        model.ParseFromString(graph.read_bytes())
    except Exception as error:  # the parser's own error type is not public
        raise UsageError(f"{graph}: damaged ({error})", "save the model again") from error
    found: set[str] = set()
    for meta in model.meta_graphs:
        found |= {node.op for node in meta.graph_def.node}
        library = meta.graph_def.library.function
        found |= {node.op for function in library for node in function.node_def}
        names = {function.signature.name for function in library}
        found -= {name for name in names if op_def_registry.get(name) is None}
    return found


def _signature(loaded: Any, folder: Path) -> Any:
    signatures = dict(loaded.signatures)
    if SIGNATURE in signatures:
        return signatures[SIGNATURE]
    if len(signatures) != 1:
        names = ", ".join(sorted(signatures)) or "none"
        raise UsageError(
            f"{folder}: no signature is called '{SIGNATURE}' (there are: {names})", f"save it as '{SIGNATURE}'"
        )
    return next(iter(signatures.values()))


def _concrete(tf: Any, signature: Any, size: int | None, folder: Path) -> Any:
    _, inputs = signature.structured_input_signature
    if len(inputs) != 1:
        raise UsageError(f"{folder}: its signature has {len(inputs)} inputs", "an image classifier has one input")
    ((name, spec),) = inputs.items()
    shape = tuple(spec.shape.as_list()) if spec.shape.rank is not None else ()
    fixed = tf.TensorSpec((1, *fixed_side(shape, size, str(folder))), tf.float32, name="image")

    def call(image: Any) -> Any:
        return signature(**{name: image})

    return tf.function(call).get_concrete_function(fixed)

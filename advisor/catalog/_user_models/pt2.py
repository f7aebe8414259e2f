"""Read an untrusted ``.pt2``: check it without PyTorch, write it as ONNX with PyTorch,
and run it to verify the result.

``torch.export.load`` unpickles the sample inputs, and weights that the file says are pickled; it
compiles the guards, looks operators up by any name below ``torch``, and parses expressions of open
sizes as Python. So PyTorch reads a copy without these: only the graph of ATen operators and the
bytes of the weights.
"""

import importlib.util
import json
import logging
import re
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from advisor.catalog._user_models.classifier import MAX_INPUT_SIZE
from advisor.catalog._user_models.comparison import OriginalLayer
from advisor.catalog._user_models.keras_models import objects_in
from advisor.catalog._user_models.onnx_files import ONNX2TF_VERSION
from advisor.catalog._weights.readers import Array
from advisor.core import UNREADABLE_ZIP, UsageError, install_extra, message_of

MAX_GRAPH_BYTES = 64 * 2**20
MAX_UNPACKED_BYTES = 4 * 2**30

EXPORT = (
    "export the float32 model for one image: program = torch.export.export(model.eval(), "
    "(torch.zeros(1, 3, 224, 224),)); torch.export.save(program, 'NAME.pt2')"
)
_EVAL = f"call model.eval() first, and {EXPORT}"

_ONLY = "models/model.json"
_GRAPH = re.compile(r"models/([A-Za-z0-9_.-]+)\.json")
_TENSORS = re.compile(
    r"data/(weights/weight|constants/tensor)_\d+|data/(weights|constants)/[^/]+_config\.json"
)
_FACTS = re.compile(
    r"archive_format|archive_version|byteorder|version|\.format_version|\.storage_alignment|\.data/\w+"
)
_DROPPED = re.compile(r"data/sample_inputs/[^/]+\.pt|extra/.*")
_CODE: Mapping[str, str] = {
    "data/aotinductor/": "compiled code",
    "data/constants/": "a pickled Python object",
    "data/weights/": "a pickled Python object",
    "code/": "TorchScript code",
}
# An operator of PyTorch's library, with its overload; from_file reads a file.
_OPERATOR = re.compile(
    r"torch\.ops\.aten\.(?!from_file\.)[A-Za-z0-9_]+\.[A-Za-z0-9_]+|_operator\.getitem"
)
# torch._export.serde.schema.ScalarType
_FLOAT32 = 7
_NUMBERS = {
    6: "float16",
    8: "float64",
    13: "bfloat16",
    1: "uint8",
    2: "int8",
    3: "int16",
    4: "int32",
    5: "int64",
}
_BYTES = {3: 2, 4: 4, 5: 8, 6: 2, 7: 4, 8: 8, 13: 2}
_CALLS = ("as_graph", "as_operator", "as_custom_obj")
_LEAF: Mapping[str, Any] = {"type": None, "context": None, "children_spec": []}


@dataclass(frozen=True)
class Pt2:
    """A checked archive.

    ``root`` is the folder that holds everything, ``program`` the graph as PyTorch serializes it,
    ``kept`` the members that the copy keeps, ``side`` that of the square input in pixels, and
    ``torch`` the version that wrote it.
    """

    root: str
    program: dict[str, Any]
    kept: tuple[str, ...]
    side: int
    torch: str


def read_archive(file: Path) -> Pt2:
    """Read the archive's graph and check it, without PyTorch."""
    try:
        with zipfile.ZipFile(file) as archive:
            root, names = _names(file, archive.infolist())
            graphs = list(filter(_GRAPH.fullmatch, names))
            if graphs != [_ONLY]:
                raise UsageError(
                    f"{file}: it holds {', '.join(graphs) or 'no model'}, not {_ONLY} alone",
                    EXPORT,
                )
            if archive.getinfo(f"{root}/{_ONLY}").file_size > MAX_GRAPH_BYTES:
                raise UsageError(
                    f"{file}: its graph has more than {MAX_GRAPH_BYTES} bytes", EXPORT
                )
            program = json.loads(archive.read(f"{root}/{_ONLY}"))
            for name in names:
                if name.endswith("_config.json"):
                    folder = f"{root}/{name.rpartition('/')[0]}"
                    _check_tensors(
                        file, json.loads(archive.read(f"{root}/{name}")), archive, folder
                    )
        side = _check_program(file, program)
        written = str(program["torch_version"])
    except UsageError:
        raise
    except (*UNREADABLE_ZIP, KeyError, ValueError, TypeError, AttributeError, IndexError) as error:
        raise UsageError(
            f"{file} is not a usable .pt2 file: {message_of(error)}", EXPORT
        ) from error
    kept_names = tuple(name for name in names if not _DROPPED.fullmatch(name))
    return Pt2(root, program, kept_names, side, written)


def write_copy(file: Path, target: Path) -> Pt2:
    """Write the copy of an archive that PyTorch may read:
    without sample inputs, guards and descriptions of code.
    """
    archive_facts = read_archive(file)
    with zipfile.ZipFile(file) as archive, zipfile.ZipFile(target, "w") as copy:
        for name in archive_facts.kept:
            plain = (
                _plain(archive_facts.program)
                if name == _ONLY
                else archive.read(f"{archive_facts.root}/{name}")
            )
            copy.writestr(f"{archive_facts.root}/{name}", plain)
        copy.writestr(f"{archive_facts.root}/data/sample_inputs/model.pt", b"")
    return archive_facts


def _names(file: Path, members: list[zipfile.ZipInfo]) -> tuple[str, list[str]]:
    """Return the folder of the archive and the paths below it, each of a kind that is known."""
    if sum(member.file_size for member in members) > MAX_UNPACKED_BYTES:
        raise UsageError(f"{file}: it unpacks to more than {MAX_UNPACKED_BYTES} bytes", EXPORT)
    roots = {member.filename.partition("/")[0] for member in members}
    names = []
    for member in members:
        if not member.is_dir():
            names.append(member.filename.partition("/")[2])
    if "constants.pkl" in names or any(name.startswith("code/") for name in names):
        raise UsageError(
            f"{file} is a TorchScript archive, which carries code: it is not read", EXPORT
        )
    if len(roots) != 1 or "archive_format" not in names:
        raise UsageError(f"{file} is not an archive of torch.export.save", EXPORT)
    for name in names:
        # A list of what is allowed: a kind of member that nobody thought of is refused.
        if not any(pattern.fullmatch(name) for pattern in (_GRAPH, _TENSORS, _FACTS, _DROPPED)):
            what = next(
                (what for start, what in _CODE.items() if name.startswith(start)),
                "no tensor and no graph",
            )
            raise UsageError(
                f"{file}: the archive holds '{name}' ({what}): it is not read", EXPORT
            )
    return roots.pop(), names


def _check_tensors(
    file: Path, table: dict[str, Any], archive: zipfile.ZipFile, folder: str
) -> None:
    for name, entry in table["config"].items():
        if entry["use_pickle"]:
            raise UsageError(f"{file}: the tensor '{name}' is pickled: it is not read", EXPORT)
        described = entry["tensor_meta"]
        number = described["dtype"]
        device = described["device"]["type"]
        if device != "cpu":
            raise UsageError(
                f"{file}: '{name}' was exported on {device}",
                f"call model.cpu() first, and {EXPORT}",
            )
        if entry["is_param"] and number != _FLOAT32:
            raise UsageError(
                f"{file}: the weights '{name}' are {_NUMBERS.get(number, f'of type {number}')},"
                " not float32",
                f"call model.float() first, and {EXPORT}",
            )
        stored_bytes = archive.getinfo(f"{folder}/{entry['path_name']}").file_size
        if not 0 <= _count_values(described) * _BYTES.get(number, 1) <= stored_bytes:
            raise UsageError(
                f"{file}: the tensor '{name}' does not fit the {stored_bytes} bytes of its values",
                EXPORT,
            )


def _count_values(described: dict[str, Any]) -> int:
    """Return the number of stored values that a tensor reaches; -1 if no tensor is described
    so.
    """
    sizes = [int(size["as_int"]) for size in described["sizes"]]
    strides = [int(stride["as_int"]) for stride in described["strides"]]
    first = int(described["storage_offset"]["as_int"])
    if min([first, *sizes, *strides]) < 0 or len(sizes) != len(strides):
        return -1
    # Strides may reach far beyond the sizes, so the last value counts, not the number of values.
    reached = sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    if all(sizes):
        return first + reached + 1
    return 0


def _check_program(file: Path, program: dict[str, Any]) -> int:
    """Check the graph; return the side of its input in pixels."""
    module = program["graph_module"]
    graph = module["graph"]
    signature = module["signature"]
    for node in graph["nodes"]:
        _check_node(file, node)
    for entry in objects_in([graph["nodes"], signature]):
        for key in entry:
            if key in _CALLS:
                raise UsageError(f"{file}: the graph holds code of its own ({key})", EXPORT)
    if program["range_constraints"] or any("as_expr" in entry for entry in objects_in(graph)):
        raise UsageError(
            f"{file}: it leaves sizes open (dynamic_shapes)", f"leave dynamic_shapes out: {EXPORT}"
        )
    side = _input_side(file, signature["input_specs"], graph["tensor_values"])
    specs = signature["output_specs"]
    changed = []
    for spec in specs:
        if "user_output" not in spec:
            changed.append(next(iter(spec)))
    if changed:
        raise UsageError(f"{file}: it changes its own state ({changed[0]})", _EVAL)
    if len(specs) != 1 or "as_tensor" not in specs[0]["user_output"]["arg"]:
        raise UsageError(
            f"{file}: it has {len(specs)} outputs",
            "an image classifier has one output, the scores",
        )
    return side


def _check_node(file: Path, node: dict[str, Any]) -> None:
    target = str(node["target"])
    name = node.get("name") or node["target"]
    if not _OPERATOR.fullmatch(target):
        if "quantized" in target:
            raise UsageError(f"{file}: it is quantized ({target})", EXPORT)
        nested = target.startswith("torch.ops.higher_order.")
        raise UsageError(
            f"{file}: '{name}' calls {target}, which is no operator of PyTorch's ATen library",
            (
                "call program = program.run_decompositions({}) before torch.export.save;"
                f" {EXPORT}"
                if nested
                else EXPORT
            ),
        )
    if any(
        entry["name"] in ("train", "training") and entry["arg"].get("as_bool")
        for entry in node["inputs"]
    ):
        raise UsageError(
            f"{file}: it was exported in training mode ('{name}')",
            f"call model.eval() first, and {EXPORT}",
        )


def _input_side(file: Path, specs: list[dict[str, Any]], values: dict[str, Any]) -> int:
    given = []
    for spec in specs:
        if "user_input" in spec:
            given.append(spec["user_input"]["arg"])
    if len(given) != 1 or "as_tensor" not in given[0]:
        raise UsageError(
            f"{file}: it has {len(given)} inputs", "an image classifier has one input, a tensor"
        )
    tensor = values[given[0]["as_tensor"]["name"]]
    number = tensor["dtype"]
    shape = tuple(size["as_int"] for size in tensor["sizes"])
    if number != _FLOAT32:
        raise UsageError(
            f"{file}: it takes {_NUMBERS.get(number, f'type {number}')}, not float32", EXPORT
        )
    if (
        len(shape) != 4
        or shape[:2] != (1, 3)
        or shape[2] != shape[3]
        or not 16 <= shape[2] <= MAX_INPUT_SIZE
    ):
        raise UsageError(
            f"{file}: its input {shape} is not one square RGB image (1, 3, side, side)", EXPORT
        )
    return int(shape[2])


def _plain(program: dict[str, Any]) -> bytes:
    """Return the graph as bytes: one tensor in and one out,
    and nothing that names or holds Python code.

    The signature is that of a call ``program(image)`` that gives a tensor;
    its trees are those of torch.utils._pytree.
    """
    module = program["graph_module"]
    nodes = [{**node, "metadata": {}} for node in module["graph"]["nodes"]]
    arguments = {"type": "builtins.tuple", "context": "null", "children_spec": [_LEAF]}
    named = {"type": "builtins.dict", "context": "[]", "children_spec": []}
    call = {"type": "builtins.tuple", "context": "null", "children_spec": [arguments, named]}
    trees = {"in_spec": json.dumps([1, call]), "out_spec": json.dumps([1, _LEAF])}
    signature = {"inputs": [], "outputs": [], **trees, "forward_arg_names": ["image"]}
    plain = {
        **module,
        "graph": {**module["graph"], "nodes": nodes},
        "metadata": {},
        "treespec_namedtuple_fields": {},
        "module_call_graph": [{"fqn": "", "signature": signature}],
    }
    return json.dumps({**program, "graph_module": plain, "guards_code": []}).encode()


def require_torch(file: Path) -> None:
    """Check that PyTorch is there to read a file (``UsageError``: the extra ``torch`` is not
    installed).
    """
    missing = []
    for name in ("torch", "onnxscript"):
        if importlib.util.find_spec(name) is None:
            missing.append(name)
    if missing:
        raise UsageError(
            f"{file}: a .pt2 file needs {' and '.join(missing)}",
            f"{install_extra('torch')}; or write an ONNX file where PyTorch is: torch.onnx.export",
        )


class TorchProgram:
    """A user's ``.pt2`` in PyTorch; it reads the copy of :func:`.write_copy` only.

    Raises:
        UsageError: the archive is refused, or the extra ``torch`` is not installed.
    """

    def __init__(self, file: Path) -> None:
        require_torch(file)
        import torch

        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "model.pt2"
            archive_facts = write_copy(file, copy)
            self.side = archive_facts.side
            self._program = _load_archive(copy, file, archive_facts.torch)
        self.runtime = f"torch {torch.__version__}"
        self.converter = f"torch.onnx {torch.__version__}, onnx2tf {ONNX2TF_VERSION}"

    def write_onnx(self, target: Path) -> None:
        """Write the program as one ONNX file with the input ``image`` (1, 3, S, S)
        and the output ``scores``.
        """
        import torch

        image = torch.zeros(1, 3, self.side, self.side)
        quiet = {"dynamo": True, "external_data": False, "verbose": False}
        names = {"input_names": ["image"], "output_names": ["scores"]}
        torch.onnx.export(self._program, (image,), str(target), **quiet, **names)

    def scores(self, images: Array) -> Array:
        """Return the scores (N, C) of normalised images (N, S, S, 3)."""
        import torch

        module = self._program.module()
        with torch.no_grad():
            return np.stack([module(_tensor(image)).numpy().reshape(-1) for image in images])

    def layers(self, image: Array) -> Sequence[OriginalLayer]:
        """Return what every operator computes of one image (1, S, S, 3);
        named by its weights where it has some.
        """
        import torch

        recorded: list[OriginalLayer] = []
        names: dict[Any, str] = {}

        class Recorder(torch.fx.Interpreter):  # type: ignore[misc]
            def run_node(self, node: Any) -> Any:
                value = super().run_node(node)
                if node.op == "call_function" and torch.is_tensor(value):
                    names[node] = _name(node)
                    read = tuple(
                        names[input_node]
                        for input_node in node.all_input_nodes
                        if input_node in names
                    )
                    operator = str(node.target).removeprefix("aten.").partition(".")[0]
                    # A copy: later operators may write into the same memory.
                    recorded.append(
                        OriginalLayer(names[node], operator, read, value.numpy().copy())
                    )
                return value

        with torch.no_grad():
            Recorder(self._program.module()).run(_tensor(image[0]))
        return recorded


def _load_archive(copy: Path, file: Path, written: str) -> Any:
    """Load a checked archive; PyTorch writes the cause of a failure to its log only."""
    import torch

    causes: list[BaseException] = []

    class Causes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.exc_info and isinstance(record.exc_info[1], BaseException):
                causes.append(record.exc_info[1])

    log = logging.getLogger(torch.export.__name__)
    handler = Causes()
    log.addHandler(handler)
    try:
        return torch.export.load(str(copy))
    except Exception as error:
        reason = message_of(causes[0] if causes else error)
        raise UsageError(
            f"{file}: PyTorch {written} wrote it, and PyTorch {torch.__version__} cannot read it:"
            f" {reason}",
            EXPORT,
        ) from error
    finally:
        log.removeHandler(handler)


def _tensor(image: Array) -> Any:
    """Return an image (S, S, 3) as PyTorch's (1, 3, S, S)."""
    import torch

    return torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1)[None]))


def _name(node: Any) -> str:
    """Return the path of an operator's weights, such as ``features.3.squeeze``,
    else the name of the operator.
    """
    attributes = []
    for input_node in node.all_input_nodes:
        if input_node.op == "get_attr":
            attributes.append(str(input_node.target))
    module = ""
    if attributes:
        module = attributes[0].rpartition(".")[0]
    if module:
        return f"{module} ({node.name})"
    return str(node.name)

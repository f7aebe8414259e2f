"""Check an untrusted ``.pt2`` without PyTorch, and write the copy of it that PyTorch may read.

``torch.export.load`` unpickles the sample inputs, and weights that the file says are pickled; it compiles the guards,
looks operators up by any name below ``torch``, and parses expressions of open sizes as Python. The copy has none of
these: only the graph of ATen operators and the bytes of the weights.
"""

import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from advisor.catalog.user_models.classifier import MAX_INPUT_SIZE
from advisor.core.errors import UsageError, message_of
from advisor.store.files import UNREADABLE_ZIP

MAX_GRAPH_BYTES = 64 * 2**20
MAX_UNPACKED_BYTES = 4 * 2**30

EXPORT = (
    "export the float32 model for one image: program = torch.export.export(model.eval(), "
    "(torch.zeros(1, 3, 224, 224),)); torch.export.save(program, 'NAME.pt2')"
)
_EVAL = f"call model.eval() first, and {EXPORT}"

_ONLY = "models/model.json"
_GRAPH = re.compile(r"models/([A-Za-z0-9_.-]+)\.json")
_TENSORS = re.compile(r"data/(weights/weight|constants/tensor)_\d+|data/(weights|constants)/[^/]+_config\.json")
_FACTS = re.compile(r"archive_format|archive_version|byteorder|version|\.format_version|\.storage_alignment|\.data/\w+")
_DROPPED = re.compile(r"data/sample_inputs/[^/]+\.pt|extra/.*")
_CODE: Mapping[str, str] = {
    "data/aotinductor/": "compiled code",
    "data/constants/": "a pickled Python object",
    "data/weights/": "a pickled Python object",
    "code/": "TorchScript code",
}
# An operator of PyTorch's library, with its overload; from_file reads a file.
_OPERATOR = re.compile(r"torch\.ops\.aten\.(?!from_file\.)[A-Za-z0-9_]+\.[A-Za-z0-9_]+|_operator\.getitem")
# torch._export.serde.schema.ScalarType
_FLOAT32 = 7
_NUMBERS = {6: "float16", 8: "float64", 13: "bfloat16", 1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64"}
_BYTES = {3: 2, 4: 4, 5: 8, 6: 2, 7: 4, 8: 8, 13: 2}
_CALLS = ("as_graph", "as_operator", "as_custom_obj")
_LEAF: Mapping[str, Any] = {"type": None, "context": None, "children_spec": []}


@dataclass(frozen=True)
class Pt2:
    """A checked archive.

    Attributes:
        root: folder of the archive that holds everything.
        graph: path of the graph below it.
        program: the graph, as PyTorch serializes it.
        kept: members that the copy keeps.
        side: of the square input in pixels.
        torch: version of PyTorch that wrote it.
    """

    root: str
    graph: str
    program: dict[str, Any]
    kept: tuple[str, ...]
    side: int
    torch: str


def read(file: Path) -> Pt2:
    """Read the archive's graph and check it, without PyTorch.

    Raises:
        UsageError: not what ``torch.export.save`` writes, damaged, with code, pickled tensors or operators of another
            library, in training mode, not float32, with open sizes, or not one image in and one tensor out.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            root, names = _names(file, archive.infolist())
            graph = _only_graph(file, names)
            if archive.getinfo(f"{root}/{graph}").file_size > MAX_GRAPH_BYTES:
                raise UsageError(f"{file}: its graph has more than {MAX_GRAPH_BYTES} bytes", EXPORT)
            program = json.loads(archive.read(f"{root}/{graph}"))
            for name in names:
                if name.endswith("_config.json"):
                    folder = f"{root}/{name.rpartition('/')[0]}"
                    _check_tensors(file, json.loads(archive.read(f"{root}/{name}")), archive, folder)
        side = _check_program(file, program)
        written = str(program["torch_version"])
    except UsageError:
        raise
    except (*UNREADABLE_ZIP, KeyError, ValueError, TypeError, AttributeError, IndexError) as error:
        raise UsageError(f"{file} is not a usable .pt2 file: {message_of(error)}", EXPORT) from error
    kept = tuple(name for name in names if not _DROPPED.fullmatch(name))
    return Pt2(root, graph, program, kept, side, written)


def write_copy(file: Path, target: Path) -> Pt2:
    """Write the copy of an archive that PyTorch may read: without sample inputs, guards and descriptions of code.

    Raises:
        UsageError: see :func:`read`.
    """
    found = read(file)
    with zipfile.ZipFile(file) as archive, zipfile.ZipFile(target, "w") as copy:
        for name in found.kept:
            plain = _plain(found.program) if name == found.graph else archive.read(f"{found.root}/{name}")
            copy.writestr(f"{found.root}/{name}", plain)
        model = found.graph.removeprefix("models/").removesuffix(".json")
        copy.writestr(f"{found.root}/data/sample_inputs/{model}.pt", b"")
    return found


def _names(file: Path, members: list[zipfile.ZipInfo]) -> tuple[str, list[str]]:
    """Return the folder of the archive and the paths below it, each of a kind that is known."""
    if sum(member.file_size for member in members) > MAX_UNPACKED_BYTES:
        raise UsageError(f"{file}: it unpacks to more than {MAX_UNPACKED_BYTES} bytes", EXPORT)
    roots = {member.filename.partition("/")[0] for member in members}
    names = [member.filename.partition("/")[2] for member in members if not member.is_dir()]
    if "constants.pkl" in names or any(name.startswith("code/") for name in names):
        raise UsageError(f"{file} is a TorchScript archive, which carries code: it is not read", EXPORT)
    if len(roots) != 1 or "archive_format" not in names:
        raise UsageError(f"{file} is not an archive of torch.export.save", EXPORT)
    for name in names:
        if not any(pattern.fullmatch(name) for pattern in (_GRAPH, _TENSORS, _FACTS, _DROPPED)):
            what = next((what for start, what in _CODE.items() if name.startswith(start)), "no tensor and no graph")
            raise UsageError(f"{file}: the archive holds '{name}' ({what}): it is not read", EXPORT)
    return roots.pop(), names


def _only_graph(file: Path, names: list[str]) -> str:
    graphs = [name for name in names if _GRAPH.fullmatch(name)]
    if graphs != [_ONLY]:
        raise UsageError(f"{file}: it holds {', '.join(graphs) or 'no model'}, not {_ONLY} alone", EXPORT)
    return graphs[0]


def _check_tensors(file: Path, table: dict[str, Any], archive: zipfile.ZipFile, folder: str) -> None:
    for name, entry in table["config"].items():
        if entry["use_pickle"]:
            raise UsageError(f"{file}: the tensor '{name}' is pickled: it is not read", EXPORT)
        described = entry["tensor_meta"]
        number, device = described["dtype"], described["device"]["type"]
        if device != "cpu":
            raise UsageError(f"{file}: '{name}' was exported on {device}", f"call model.cpu() first, and {EXPORT}")
        if entry["is_param"] and number != _FLOAT32:
            raise UsageError(
                f"{file}: the weights '{name}' are {_NUMBERS.get(number, f'of type {number}')}, not float32",
                f"call model.float() first, and {EXPORT}",
            )
        here = archive.getinfo(f"{folder}/{entry['path_name']}").file_size
        if not 0 <= _values(described) * _BYTES.get(number, 1) <= here:
            raise UsageError(f"{file}: the tensor '{name}' does not fit the {here} bytes of its values", EXPORT)


def _values(described: dict[str, Any]) -> int:
    """Return the number of stored values that a tensor reaches; -1 if no tensor is described so."""
    sizes, strides = ([int(one["as_int"]) for one in described[key]] for key in ("sizes", "strides"))
    first = int(described["storage_offset"]["as_int"])
    if min([first, *sizes, *strides]) < 0 or len(sizes) != len(strides):
        return -1
    return (
        first + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True)) + 1 if all(sizes) else 0
    )


def _check_program(file: Path, program: dict[str, Any]) -> int:
    """Check the graph; return the side of its input in pixels."""
    module = program["graph_module"]
    graph, signature = module["graph"], module["signature"]
    for node in graph["nodes"]:
        _check_node(file, node)
    for key, _ in _entries([graph["nodes"], signature]):
        if key in _CALLS:
            raise UsageError(f"{file}: the graph holds code of its own ({key})", EXPORT)
    if program["range_constraints"] or any(key == "as_expr" for key, _ in _entries(graph)):
        raise UsageError(f"{file}: it leaves sizes open (dynamic_shapes)", f"leave dynamic_shapes out: {EXPORT}")
    side = _input_side(file, signature["input_specs"], graph["tensor_values"])
    _check_outputs(file, signature["output_specs"])
    return side


def _check_node(file: Path, node: dict[str, Any]) -> None:
    target, name = str(node["target"]), node.get("name") or node["target"]
    if not _OPERATOR.fullmatch(target):
        if "quantized" in target:
            raise UsageError(f"{file}: it is quantized ({target})", EXPORT)
        raise UsageError(f"{file}: '{name}' calls {target}, which is no operator of PyTorch's ATen library", EXPORT)
    training = any(entry["name"] in ("train", "training") and entry["arg"].get("as_bool") for entry in node["inputs"])
    if training:
        raise UsageError(
            f"{file}: it was exported in training mode ('{name}')", f"call model.eval() first, and {EXPORT}"
        )


def _input_side(file: Path, specs: list[dict[str, Any]], values: dict[str, Any]) -> int:
    given = [spec["user_input"]["arg"] for spec in specs if "user_input" in spec]
    if len(given) != 1 or "as_tensor" not in given[0]:
        raise UsageError(f"{file}: it has {len(given)} inputs", "an image classifier has one input, a tensor")
    tensor = values[given[0]["as_tensor"]["name"]]
    number, shape = tensor["dtype"], tuple(size["as_int"] for size in tensor["sizes"])
    if number != _FLOAT32:
        raise UsageError(f"{file}: it takes {_NUMBERS.get(number, f'type {number}')}, not float32", EXPORT)
    square = len(shape) == 4 and shape[:2] == (1, 3) and shape[2] == shape[3] and 16 <= shape[2] <= MAX_INPUT_SIZE
    if not square:
        raise UsageError(f"{file}: its input {shape} is not one square RGB image (1, 3, side, side)", EXPORT)
    return int(shape[2])


def _check_outputs(file: Path, specs: list[dict[str, Any]]) -> None:
    changed = [next(iter(spec)) for spec in specs if "user_output" not in spec]
    if changed:
        raise UsageError(f"{file}: it changes its own state ({changed[0]})", _EVAL)
    if len(specs) != 1 or "as_tensor" not in specs[0]["user_output"]["arg"]:
        raise UsageError(f"{file}: it has {len(specs)} outputs", "an image classifier has one output, the scores")


def _entries(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield every entry of every object, however deep: the stack is ours, so that nesting cannot exhaust Python's."""
    left = [value]
    while left:
        here = left.pop()
        if isinstance(here, dict):
            yield from here.items()
            left += here.values()
        elif isinstance(here, list):
            left += here


def _plain(program: dict[str, Any]) -> bytes:
    """Return the graph as bytes: one tensor in and one out, and nothing that names or holds Python code."""
    module = program["graph_module"]
    nodes = [{**node, "metadata": {}} for node in module["graph"]["nodes"]]
    plain = {
        **module,
        "graph": {**module["graph"], "nodes": nodes},
        "metadata": {},
        "treespec_namedtuple_fields": {},
        "module_call_graph": [{"fqn": "", "signature": _one_in_one_out()}],
    }
    return json.dumps({**program, "graph_module": plain, "guards_code": []}).encode()


def _one_in_one_out() -> dict[str, Any]:
    """Return the signature of a call ``program(image)`` that gives a tensor; trees as of torch.utils._pytree."""
    arguments = {"type": "builtins.tuple", "context": "null", "children_spec": [_LEAF]}
    named = {"type": "builtins.dict", "context": "[]", "children_spec": []}
    call = {"type": "builtins.tuple", "context": "null", "children_spec": [arguments, named]}
    trees = {"in_spec": json.dumps([1, call]), "out_spec": json.dumps([1, _LEAF])}
    return {"inputs": [], "outputs": [], **trees, "forward_arg_names": ["image"]}

"""Check an untrusted ``.pt2`` without PyTorch, and write the copy that PyTorch may read.

`formats.py` checks a user's file so before `torch_programs.py` opens the copy.
``torch.export.load`` unpickles the sample inputs, and weights that the file says are pickled; it
compiles the guards, looks operators up by any name below ``torch``, and parses expressions of open
sizes as Python. So the copy has none of these: only the graph of ATen operators and the bytes of
the weights. What is allowed is listed here; everything else is refused. A card that was added
keeps the file that was made of the copy, so a change here needs no new version.
"""

import json
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from advisor.catalog._user_models.classifier import MAX_INPUT_SIZE
from advisor.catalog._user_models.keras_models import objects_in
from advisor.core import UNREADABLE_ZIP, UsageError, message_of

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
            root, names = _list_members(file, archive.infolist())
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
    """Write the copy of an archive that PyTorch may read.

    It has no sample inputs, guards and descriptions of code.
    """
    archive_facts = read_archive(file)
    with zipfile.ZipFile(file) as archive, zipfile.ZipFile(target, "w") as copy:
        for name in archive_facts.kept:
            path = f"{archive_facts.root}/{name}"
            if name == _ONLY:
                copy.writestr(path, _strip_code(archive_facts.program))
            else:
                copy.writestr(path, archive.read(path))
        copy.writestr(f"{archive_facts.root}/data/sample_inputs/model.pt", b"")
    return archive_facts


def _list_members(file: Path, members: list[zipfile.ZipInfo]) -> tuple[str, list[str]]:
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
            what = "no tensor and no graph"
            for start, kind in _CODE.items():
                if name.startswith(start):
                    what = kind
                    break
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
    """Return the number of stored values that a tensor reaches; -1 for an impossible one."""
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
    side = _read_input_side(file, signature["input_specs"], graph["tensor_values"])
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
        hint = EXPORT
        if nested:
            decompose = "call program = program.run_decompositions({}) before torch.export.save"
            hint = f"{decompose}; {EXPORT}"
        raise UsageError(
            f"{file}: '{name}' calls {target}, which is no operator of PyTorch's ATen library",
            hint,
        )
    for entry in node["inputs"]:
        if entry["name"] in ("train", "training") and entry["arg"].get("as_bool"):
            raise UsageError(
                f"{file}: it was exported in training mode ('{name}')",
                f"call model.eval() first, and {EXPORT}",
            )


def _read_input_side(file: Path, specs: list[dict[str, Any]], values: dict[str, Any]) -> int:
    inputs = []
    for spec in specs:
        if "user_input" in spec:
            inputs.append(spec["user_input"]["arg"])
    if len(inputs) != 1 or "as_tensor" not in inputs[0]:
        raise UsageError(
            f"{file}: it has {len(inputs)} inputs", "an image classifier has one input, a tensor"
        )
    tensor = values[inputs[0]["as_tensor"]["name"]]
    number = tensor["dtype"]
    shape = tuple(size["as_int"] for size in tensor["sizes"])
    if number != _FLOAT32:
        raise UsageError(
            f"{file}: it takes {_NUMBERS.get(number, f'type {number}')}, not float32", EXPORT
        )
    is_rgb = len(shape) == 4 and shape[:2] == (1, 3)
    if not is_rgb or shape[2] != shape[3] or not 16 <= shape[2] <= MAX_INPUT_SIZE:
        raise UsageError(
            f"{file}: its input {shape} is not one square RGB image (1, 3, side, side)", EXPORT
        )
    return int(shape[2])


def _strip_code(program: dict[str, Any]) -> bytes:
    """Return the graph as bytes, with nothing in it that names or holds Python code.

    One tensor goes in and one comes out. The signature is that of a call ``program(image)`` that
    gives a tensor; its trees are those of torch.utils._pytree.
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

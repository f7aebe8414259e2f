"""Model and weights files with changed bytes, cut ends and other content, through each reader and `catalog add`."""

import json
import random
import zipfile
from collections.abc import Iterator, Sequence
from functools import partial

from advisor.catalog.graph_file import read_graph
from advisor.catalog.weights import readers
from advisor.store.files import shipped_folder
from advisor.tflite.metadata import read_metadata
from advisor.tflite.model import read
from tests.hostile.surfaces.ground import Case, Ground
from tests.measurement import small_models

EACH, ADDED = 120, 12
SUFFIXES = {
    ".tflite": "tflite", ".onnx": "onnx", ".pth": "torch", ".safetensors": "safetensors", ".pb": "graphdef",
    ".caffemodel": "caffemodel", ".h5": "keras_h5", ".json": "tfjs",
}  # fmt: skip
CONTENTS = (
    b"", b"\0" * 64, b"PK\x03\x04" + bytes(60), b"\x89HDF\r\n\x1a\n" + bytes(200), b"TFL3" * 50,
    b"\x80\x02c__builtin__\neval\n.", b"{" * 10_000,
)  # fmt: skip


def cases(ground: Ground) -> Iterator[Case]:
    """Yield damaged model files for each reader, and some of them for the command."""
    model = small_models.classifier()
    graph = next((shipped_folder("catalogs") / "graphs").glob("lcnet_050*")).read_bytes()
    for number in range(EACH):
        yield f"tflite {number}", partial(_tflite, ground, _changed(model, number))
        yield f"safetensors {number}", partial(_weights, ground, "safetensors", _changed(_safetensors(), number))
        yield f"graph file {number}", partial(_graph, ground, _changed(graph, number))
    for suffix, form in SUFFIXES.items():
        for number, content in enumerate(CONTENTS):
            yield f"{form} of content {number}", partial(_weights, ground, form, content)
            yield f"add {suffix} of content {number}", partial(_added, ground, f"a{suffix}", content)
    for number in range(ADDED):
        yield f"add a changed tflite {number}", partial(_added, ground, "a.tflite", _changed(model, 1000 + number))
    for name in ("../out", "/abs", "a\\..\\b", "x" * 300, "a\0b"):
        yield f"a zip with {name[:9]!r}", partial(_zipped, ground, name)


def _changed(content: bytes, number: int) -> bytes:
    draw, changed = random.Random(number), bytearray(content)
    for _ in range(draw.randint(1, 4)):
        changed[int(draw.random() ** 3 * len(changed))] = draw.randrange(256)
    return bytes(changed[: draw.randrange(1, len(changed))] if number % 5 == 0 else changed)


def _safetensors() -> bytes:
    header = json.dumps({"a.weight": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(16)


def _tflite(ground: Ground, content: bytes) -> Sequence[str]:
    return (*ground.call(read, content, "a.tflite"), *ground.call(read_metadata, content, "a.tflite"))


def _weights(ground: Ground, form: str, content: bytes) -> Sequence[str]:
    return ground.call(readers.read, form, ground.fresh({"a.bin": content}) / "a.bin")


def _graph(ground: Ground, content: bytes) -> Sequence[str]:
    return ground.call(read_graph, ground.fresh({"a.graph": content}) / "a.graph")


def _added(ground: Ground, name: str, content: bytes) -> Sequence[str]:
    options = ("--labels", "imagenet", "--mean", "127.5", "--std", "127.5")
    return ground.command("catalog", "add", name, *options, files={name: content}, refused=True)


def _zipped(ground: Ground, name: str) -> Sequence[str]:
    place = ground.fresh()
    with zipfile.ZipFile(place / "a.keras", "w") as archive:
        archive.writestr(name.replace("\0", "_"), b"x")
    return ground.command_in(place, "catalog", "add", "a.keras", refused=True)

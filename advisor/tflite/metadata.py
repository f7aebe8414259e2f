"""Read labels, normalization and licence from a `.tflite` file, where MediaPipe and Android Studio expect them.

A flatbuffer in the file describes its inputs and outputs (TensorFlow Lite metadata, ``M001``). Slots are those of the
public schema ``metadata_schema.fbs``, for the tables that an image classifier or an object detector needs.
"""

from __future__ import annotations

import io
import re
import zipfile
from dataclasses import dataclass, replace
from types import MappingProxyType

from flatbuffers.number_types import Float32Flags, Uint8Flags
from flatbuffers.table import Table

from advisor.store.files import UNREADABLE_ZIP
from advisor.tflite.model import guarded, read
from advisor.tflite.verify import Damage, Field, Schema, strings, vectors, verify_tables

IDENTIFIER = b"M001"
AXIS_LABELS, VALUE_LABELS, AXIS_CALIBRATION = 2, 3, 4
"""Kinds of an associated file: labels of a row of scores or of class numbers, and a line for each score of a row."""

NORMALIZATION, SCORE_CALIBRATION, SCORE_THRESHOLD = 1, 2, 3
"""Kinds of a process unit."""

_ENTRY = "TFLITE_METADATA"
_MAX_LABELS_BYTES = 16 * 2**20
"""Largest size of a labels file: enough for 50,000 labels of 300 characters."""

_SCHEMA: Schema = MappingProxyType(
    {
        "": (),
        "Model": (*strings(4, 6, 8, 12, 14, 18), Field(10, "tables", "Subgraph"), Field(16, "tables", "File")),
        "Subgraph": (*strings(4, 6), Field(8, "tables", "Tensor"), Field(10, "tables", "Output")),
        "Tensor": (*strings(4, 6), Field(12, "tables", "Unit"), Field(16, "tables", "File")),
        "Output": (*strings(4, 6), Field(12, "tables", "OutputUnit"), Field(16, "tables", "File")),
        "OutputUnit": (Field(6, "table"),),
        "Unit": (Field(6, "table", "Normalization"),),
        "Normalization": vectors(4, 4, 6),
        "File": strings(4),
    }
)
"""Fields that are read back. A unit may be of another kind than ``Normalization`` or, of an output, than a threshold;
:func:`read_metadata` checks it."""

_LINE_BREAKS = re.compile(r"[\x00\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")


@dataclass(frozen=True, slots=True)
class Metadata:
    """The description in a file.

    Attributes:
        name: the model's name.
        labels: one label a class, in the order of the output. They are stored one a line, so that
            :func:`.metadata_writer.write_metadata` replaces every run of line breaks (and NUL) in a label by one space.
        mean: subtracted from the input's values (0..255, RGB): one number or one a channel; empty where not stated.
        std: what the difference is divided by, as ``mean``.
        description: what the model is for.
        author: who made it.
        licence: its licence.
        version: the model's version.
        threshold: score from which on clients show a box or a class; None leaves it to them. MediaPipe reads it where
            its user gives none; its ObjectDetector for Python (1.2.2) always gives one.
        by_class: score from which on clients show each class of a classifier, in the order of the labels; empty for
            none. It needs a ``threshold`` that is not above any of them.
    """

    name: str
    labels: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    description: str = ""
    author: str = ""
    licence: str = ""
    version: str = ""
    threshold: float | None = None
    by_class: tuple[float, ...] = ()


def one_line(label: str) -> str:
    """Return ``label`` as it is stored: every run of line breaks (and NUL) replaced by one space."""
    return _LINE_BREAKS.sub(" ", label)


def read_metadata(data: bytes, name: str = "the model") -> Metadata | None:
    """Return the description of the first input and of the labels; None if there is none.

    Raises:
        UsageError: the file or its metadata is damaged.
    """
    content = read(data, name).metadata.get(_ENTRY)
    if content is None:
        return None
    metadata, labels_file, scores_file = guarded(f"{name} (its metadata)", lambda: _decoded(content))
    return replace(
        metadata,
        labels=guarded(f"{name} (its labels)", lambda: _lines(data, labels_file)),
        by_class=guarded(f"{name} (its thresholds)", lambda: _least_scores(data, scores_file)),
    )


def _decoded(content: bytes) -> tuple[Metadata, str, str]:
    """Return the description without what its files hold, and the names of the files of labels and of scores.

    A name is empty if there is no such file.

    Raises:
        Damage: it is not a whole description.
    """
    verify_tables(content, IDENTIFIER, _SCHEMA)
    root = _View(content, int.from_bytes(content[:4], "little"))
    graph = next(iter(root.children(10)), None)
    image = next(iter(graph.children(8)), None) if graph else None
    mean, std = _normalization(image)
    outputs = graph.children(10) if graph else []
    files = [file for output in outputs for file in output.children(16)]
    units = [unit for output in outputs for unit in output.children(12) if unit.kind(4) == SCORE_THRESHOLD]
    limits = [options.number(4) for unit in units if (options := unit.child(6)) is not None]
    labels_file = next((file.text(4) for file in files if file.kind(8) in {AXIS_LABELS, VALUE_LABELS}), "")
    scores_file = next((file.text(4) for file in files if file.kind(8) == AXIS_CALIBRATION), "")
    metadata = Metadata(
        name=root.text(4),
        labels=(),
        mean=mean,
        std=std,
        description=root.text(6),
        author=root.text(12),
        licence=root.text(14),
        version=root.text(8),
        threshold=limits[0] if limits else None,
    )
    return metadata, labels_file, scores_file


class _View(Table):  # type: ignore[misc]
    """A table of a verified flatbuffer, read by slot."""

    def text(self, slot: int) -> str:
        offset = self.Offset(slot)
        return self.String(offset + self.Pos).decode("utf-8", "replace") if offset else ""

    def kind(self, slot: int) -> int:
        return int(self.GetSlot(slot, 0, Uint8Flags))

    def number(self, slot: int) -> float:
        return float(self.GetSlot(slot, 0.0, Float32Flags))

    def child(self, slot: int) -> _View | None:
        offset = self.Offset(slot)
        return _View(self.Bytes, self.Indirect(offset + self.Pos)) if offset else None

    def children(self, slot: int) -> list[_View]:
        offset = self.Offset(slot)
        start, count = (self.Vector(offset), self.VectorLen(offset)) if offset else (0, 0)
        return [_View(self.Bytes, self.Indirect(start + 4 * index)) for index in range(count)]

    def numbers(self, slot: int) -> tuple[float, ...]:
        offset = self.Offset(slot)
        return tuple(map(float, self.GetVectorAsNumpy(Float32Flags, offset))) if offset else ()


def _normalization(image: _View | None) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and deviation of an input, empty where not stated."""
    for unit in image.children(12) if image else []:
        options = unit.child(6)
        if unit.kind(4) == NORMALIZATION and options is not None:
            mean, std = options.numbers(4), options.numbers(6)
            if len(mean) != len(std):
                raise Damage(f"it normalizes with {len(mean)} means and {len(std)} deviations")
            return mean, std
    return (), ()


def _least_scores(data: bytes, name: str) -> tuple[float, ...]:
    """Return the last number of each line: the score from which on a class is shown."""
    try:
        return tuple(float(line.rpartition(",")[2]) for line in _lines(data, name))
    except ValueError:
        raise Damage(f"the file {name!r} does not hold numbers") from None


def _lines(data: bytes, name: str) -> tuple[str, ...]:
    if not name:
        return ()
    lines = _associated_file(data, name).decode("utf-8", "replace").split("\n")
    return tuple(line.removesuffix("\r") for line in (lines[:-1] if lines[-1] == "" else lines))


def _associated_file(data: bytes, name: str) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive, archive.open(name) as file:
            content = file.read(_MAX_LABELS_BYTES + 1)
    except KeyError:
        raise Damage(f"the file {name!r} that it names is not in it") from None
    except UNREADABLE_ZIP as error:
        raise Damage(f"the archive behind the model cannot be read ({error})") from None
    if len(content) > _MAX_LABELS_BYTES:
        raise Damage(f"the file {name!r} has more than {_MAX_LABELS_BYTES} bytes")
    return content

"""Read and write the flatbuffer that describes a model's inputs and outputs (TensorFlow Lite metadata, ``M001``).

Slots are those of the public schema ``metadata_schema.fbs``, for the tables that an image classifier needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from advisor.tflite.verify import Damage, Field, Schema, strings, vectors, verify_tables

IDENTIFIER = b"M001"
MIN_PARSER_VERSION = "1.0.0"
"""The oldest parser that reads every field written here; the first one does."""

_AXIS_LABELS = 2
_FEATURE_PROPERTIES = 1
_IMAGE_PROPERTIES = 2
_RGB = 1
_NORMALIZATION = 1

_SCHEMA: Schema = MappingProxyType(
    {
        "": (),
        "Model": (*strings(4, 6, 8, 12, 14, 18), Field(10, "tables", "Subgraph"), Field(16, "tables", "File")),
        "Subgraph": (*strings(4, 6), Field(8, "tables", "Tensor"), Field(10, "tables", "Tensor")),
        "Tensor": (*strings(4, 6), Field(12, "tables", "Unit"), Field(16, "tables", "File")),
        "Unit": (Field(6, "table", "Normalization"),),
        "Normalization": vectors(4, 4, 6),
        "File": strings(4),
    }
)
"""What is read back. A unit of another kind is read as if it were a normalization only as far as its place goes."""


@dataclass(frozen=True, slots=True)
class Description:
    """The content of the tables.

    Attributes:
        name: the model's name.
        description: what it is for.
        version: the model's version.
        author: who made it.
        licence: its licence.
        mean: normalization of the input: (value - mean) / std, one number or one a channel; empty where not stated.
        std: as ``mean``.
        labels_file: name of the output's file of labels, empty if there is none.
    """

    name: str
    description: str
    version: str
    author: str
    licence: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    labels_file: str


def encode(description: Description) -> bytes:
    """Return the flatbuffer of ``description``, for a model of one image input and one output of scores."""
    import flatbuffers

    writer = _Writer(flatbuffers.Builder(1024))
    graph = writer.table(
        10,
        {2: writer.tables([_input(writer, description)]), 3: writer.tables([_output(writer, description)])},
    )
    texts = {
        0: description.name,
        1: description.description,
        2: description.version,
        4: description.author,
        5: description.licence,
        7: MIN_PARSER_VERSION,
    }
    fields = {slot: writer.text(text) for slot, text in texts.items() if text}
    writer.builder.Finish(writer.table(8, {**fields, 3: writer.tables([graph])}), file_identifier=IDENTIFIER)
    return bytes(writer.builder.Output())


class _Writer:
    """Tables, vectors and texts in a ``flatbuffers.Builder``, children before their parents."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder

    def text(self, text: str) -> int:
        return int(self.builder.CreateString(text.encode("utf-8", "replace")))

    def numbers(self, numbers: Sequence[float]) -> int:
        import numpy as np

        return int(self.builder.CreateNumpyVector(np.asarray(numbers, dtype="<f4")))

    def tables(self, offsets: Sequence[int]) -> int:
        self.builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self.builder.PrependUOffsetTRelative(offset)
        return int(self.builder.EndVector())

    def table(self, fields: int, offsets: Mapping[int, int], kinds: Mapping[int, int] | None = None) -> int:
        """Write a table of ``fields`` fields: ``offsets`` to children and one-byte ``kinds``, by field number."""
        self.builder.StartObject(fields)
        for number, offset in offsets.items():
            self.builder.PrependUOffsetTRelativeSlot(number, offset, 0)
        for number, kind in (kinds or {}).items():
            self.builder.PrependUint8Slot(number, kind, 0)
        return int(self.builder.EndObject())


def _input(writer: _Writer, description: Description) -> int:
    image = writer.table(2, {}, {0: _RGB})
    content = writer.table(3, {1: image}, {0: _IMAGE_PROPERTIES})
    options = writer.table(2, {0: writer.numbers(description.mean), 1: writer.numbers(description.std)})
    unit = writer.table(2, {1: options}, {0: _NORMALIZATION})
    return writer.table(7, {0: writer.text("image"), 3: content, 4: writer.tables([unit])})


def _output(writer: _Writer, description: Description) -> int:
    content = writer.table(3, {1: writer.table(0, {})}, {0: _FEATURE_PROPERTIES})
    file = writer.table(5, {0: writer.text(description.labels_file)}, {2: _AXIS_LABELS})
    return writer.table(7, {0: writer.text("probabilities"), 3: content, 6: writer.tables([file])})


def decode(content: bytes) -> Description:
    """Return the description of the first input and the first output.

    Raises:
        Damage: it is not a whole description.
    """
    verify_tables(content, IDENTIFIER, _SCHEMA, "Model")
    root = _root(content)
    graph = next(iter(root.children(10)), None)
    entry = next(iter(graph.children(8)), None) if graph else None
    output = next(iter(graph.children(10)), None) if graph else None
    mean, std = _normalization(entry)
    return Description(
        name=root.text(4),
        description=root.text(6),
        version=root.text(8),
        author=root.text(12),
        licence=root.text(14),
        mean=mean,
        std=std,
        labels_file=_labels_file(output),
    )


class _View:
    """A table of a verified flatbuffer."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def text(self, slot: int) -> str:
        offset = self._table.Offset(slot)
        return self._table.String(offset + self._table.Pos).decode("utf-8", "replace") if offset else ""

    def kind(self, slot: int) -> int:
        offset = self._table.Offset(slot)
        return int(self._table.Bytes[offset + self._table.Pos]) if offset else 0

    def child(self, slot: int) -> _View | None:
        offset = self._table.Offset(slot)
        return self._at(self._table.Indirect(offset + self._table.Pos)) if offset else None

    def children(self, slot: int) -> list[_View]:
        offset = self._table.Offset(slot)
        if not offset:
            return []
        start, count = self._table.Vector(offset), self._table.VectorLen(offset)
        return [self._at(self._table.Indirect(start + 4 * index)) for index in range(count)]

    def numbers(self, slot: int) -> tuple[float, ...]:
        from flatbuffers.number_types import Float32Flags

        offset = self._table.Offset(slot)
        if not offset:
            return ()
        return tuple(float(number) for number in self._table.GetVectorAsNumpy(Float32Flags, offset))

    def _at(self, position: int) -> _View:
        from flatbuffers.table import Table

        return _View(Table(self._table.Bytes, position))


def _root(content: bytes) -> _View:
    from flatbuffers.table import Table

    return _View(Table(content, int.from_bytes(content[:4], "little")))


def _normalization(entry: _View | None) -> tuple[tuple[float, ...], tuple[float, ...]]:
    for unit in entry.children(12) if entry else []:
        options = unit.child(6)
        if unit.kind(4) == _NORMALIZATION and options is not None:
            mean, std = options.numbers(4), options.numbers(6)
            if len(mean) != len(std):
                raise Damage(f"it normalizes with {len(mean)} means and {len(std)} deviations")
            return mean, std
    return (), ()


def _labels_file(output: _View | None) -> str:
    files = output.children(16) if output else []
    return next((file.text(4) for file in files if file.kind(8) == _AXIS_LABELS), "")

"""Read and write labels, normalization and licence in a `.tflite` file, as MediaPipe and Android Studio expect.

A flatbuffer in the file describes its inputs and outputs (TensorFlow Lite metadata, ``M001``). Slots are those of the
public schema ``metadata_schema.fbs``, for the tables that an image classifier or an object detector needs.
"""

from __future__ import annotations

import io
import math
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import flatbuffers
import numpy as np
from flatbuffers.number_types import Float32Flags, Uint8Flags
from flatbuffers.table import Table

from advisor.core.errors import StageError
from advisor.store.files import UNREADABLE_ZIP
from advisor.tflite.model import Model, guarded, read
from advisor.tflite.verify import Damage, Field, Schema, strings, vectors, verify_tables

LABELS_FILE = "labels.txt"

_ENTRY = "TFLITE_METADATA"
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The date of every associated file: the oldest of the zip format, so that equal models give equal bytes."""

_MAX_LABELS_BYTES = 16 * 2**20
"""Largest size of a labels file: enough for 50,000 labels of 300 characters."""

_IDENTIFIER = b"M001"
_MIN_PARSER_VERSION = "1.0.0"
"""The oldest parser that reads every field written here; the first one does."""

_AXIS_LABELS, _VALUE_LABELS = 2, 3
_FEATURE_PROPERTIES, _IMAGE_PROPERTIES, _BOX_PROPERTIES = 1, 2, 3
_BOUNDARIES = 1
_LEFT_TOP_RIGHT_BOTTOM = (1, 0, 3, 2)
"""Places of a box's sides in an output of top, left, bottom and right."""

DETECTOR_OUTPUTS = ("location", "category", "score", "number of detections")
"""Names by which MediaPipe knows the outputs of a detector."""

_RGB = 1
_NORMALIZATION, _SCORE_THRESHOLD = 1, 3

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
        labels: one label a class, in the order of the output. They are stored one a line, so that ``write_metadata``
            replaces every run of line breaks (and NUL) in a label by one space.
        mean: subtracted from the input's values (0..255, RGB): one number or one a channel; empty where not stated.
        std: what the difference is divided by, as ``mean``.
        description: what the model is for.
        author: who made it.
        licence: its licence.
        version: the model's version.
        threshold: of a detector, the score from which on clients show a box; None leaves it to them. MediaPipe's
            ObjectDetector reads it where its user gives none; the one for Python (1.2.2) always gives one.
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


def one_line(label: str) -> str:
    """Return ``label`` as it is stored: every run of line breaks (and NUL) replaced by one space."""
    return _LINE_BREAKS.sub(" ", label)


def write_metadata(data: bytes, metadata: Metadata) -> bytes:
    """Return the model with ``metadata`` in place of any that it has; the same arguments give the same bytes.

    Normalization is written as one number where the channels agree, else as one a channel. MediaPipe (1.2.2) refuses
    the latter, and inputs that are neither float32 nor uint8: ``interface`` has the edits that make such a model fit.

    Raises:
        UsageError: the file is damaged.
        StageError: the model is not one image in, and one row of scores or the four outputs of a detector out; the
            number of labels is not that of its classes; or the normalization is not usable.
    """
    from advisor.tflite.rewrite import DESCRIBING_METADATA, add_metadata, drop_unused_buffers, pack, unpack

    description = read(data)
    detects = len(description.outputs) == len(DETECTOR_OUTPUTS)
    _check(description, metadata, detects)
    model = unpack(data)
    add_metadata(model, DESCRIBING_METADATA, _encoded(metadata, detects))
    drop_unused_buffers(model)
    return _with_file(pack(model), LABELS_FILE, "".join(f"{one_line(label)}\n" for label in metadata.labels))


def _check(model: Model, metadata: Metadata, detects: bool) -> None:
    if len(model.inputs) != 1 or (len(model.outputs) != 1 and not detects) or len(model.inputs[0].shape) != 4:
        raise StageError("labels need a model of one image input and one output, or the four outputs of a detector")
    classes = model.outputs[0].shape[-1] if model.outputs[0].shape else 0
    if classes != len(metadata.labels) and not detects:
        raise StageError(f"{len(metadata.labels)} labels do not fit a model of {classes} classes")
    if len(metadata.mean) != len(metadata.std) or len(metadata.mean) not in {1, model.inputs[0].shape[-1]}:
        raise StageError(f"a normalization by {metadata.mean} and {metadata.std} does not fit the model's input")
    if not all(math.isfinite(mean) for mean in metadata.mean) or not all(0 < std < math.inf for std in metadata.std):
        raise StageError(f"a normalization by {metadata.mean} and {metadata.std} is not finite and positive")


def _encoded(metadata: Metadata, detects: bool) -> bytes:
    """Return the flatbuffer of ``metadata``, for a model of one image input and of scores or detections."""
    writer = _Writer(1024)
    inputs = writer.tables([_input(writer, metadata)])
    outputs = {3: writer.tables(_detections(writer, metadata.threshold) if detects else [_scores(writer)])}
    if detects:
        names = writer.tables([writer.text(name) for name in DETECTOR_OUTPUTS[:3]])
        outputs[7] = writer.tables([writer.table(2, {0: writer.text("detection_result"), 1: names})])
    graph = writer.table(10, {2: inputs, **outputs})
    texts = {
        0: metadata.name,
        1: metadata.description,
        2: metadata.version,
        4: metadata.author,
        5: metadata.licence,
        7: _MIN_PARSER_VERSION,
    }
    fields = {slot: writer.text(text) for slot, text in texts.items() if text}
    writer.Finish(writer.table(8, {**fields, 3: writer.tables([graph])}), file_identifier=_IDENTIFIER)
    return bytes(writer.Output())


class _Writer(flatbuffers.Builder):  # type: ignore[misc]
    """Writes texts, vectors and tables, children before their parents."""

    def text(self, text: str) -> int:
        return int(self.CreateString(text.encode("utf-8", "replace")))

    def numbers(self, numbers: Sequence[float]) -> int:
        return int(self.CreateNumpyVector(np.asarray(numbers, dtype="<f4")))

    def tables(self, offsets: Sequence[int]) -> int:
        """Write a vector of tables or texts."""
        self.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self.PrependUOffsetTRelative(offset)
        return int(self.EndVector())

    def table(self, fields: int, offsets: Mapping[int, int], kinds: Mapping[int, int] = MappingProxyType({})) -> int:
        """Write a table of ``fields`` fields: ``offsets`` to children and one-byte ``kinds``, by field number."""
        self.StartObject(fields)
        for number, offset in offsets.items():
            self.PrependUOffsetTRelativeSlot(number, offset, 0)
        for number, kind in kinds.items():
            self.PrependUint8Slot(number, kind, 0)
        return int(self.EndObject())


def _input(writer: _Writer, metadata: Metadata) -> int:
    uniform = len(set(metadata.mean)) == 1 and len(set(metadata.std)) == 1
    mean, std = (metadata.mean[:1], metadata.std[:1]) if uniform else (metadata.mean, metadata.std)
    image = writer.table(2, {}, {0: _RGB})
    content = writer.table(3, {1: image}, {0: _IMAGE_PROPERTIES})
    options = writer.table(2, {0: writer.numbers(mean), 1: writer.numbers(std)})
    unit = writer.table(2, {1: options}, {0: _NORMALIZATION})
    return writer.table(7, {0: writer.text("image"), 3: content, 4: writer.tables([unit])})


def _scores(writer: _Writer) -> int:
    return writer.table(
        7, {0: writer.text("probabilities"), 3: _feature(writer), 6: _labels_file(writer, _AXIS_LABELS)}
    )


def _detections(writer: _Writer, threshold: float | None) -> list[int]:
    """Write the four outputs of a detector."""
    units = {} if threshold is None else {4: writer.tables([_threshold(writer, threshold)])}
    order = int(writer.CreateNumpyVector(np.asarray(_LEFT_TOP_RIGHT_BOTTOM, dtype="<u4")))
    boxes = writer.table(3, {1: writer.table(3, {0: order}, {1: _BOUNDARIES})}, {0: _BOX_PROPERTIES})
    location, category, score, count = DETECTOR_OUTPUTS
    labels = {6: _labels_file(writer, _VALUE_LABELS)}
    return [
        writer.table(7, {0: writer.text(location), 3: boxes}),
        writer.table(7, {0: writer.text(category), 3: _feature(writer), **labels}),
        writer.table(7, {0: writer.text(score), 3: _feature(writer), **units}),
        writer.table(7, {0: writer.text(count), 3: _feature(writer)}),
    ]


def _threshold(writer: _Writer, threshold: float) -> int:
    writer.StartObject(1)
    writer.PrependFloat32Slot(0, threshold, 0.0)
    return writer.table(2, {1: int(writer.EndObject())}, {0: _SCORE_THRESHOLD})


def _feature(writer: _Writer) -> int:
    return writer.table(3, {1: writer.table(0, {})}, {0: _FEATURE_PROPERTIES})


def _labels_file(writer: _Writer, kind: int) -> int:
    return writer.tables([writer.table(5, {0: writer.text(LABELS_FILE)}, {2: kind})])


def _with_file(model: bytes, name: str, text: str) -> bytes:
    """Append a zip archive with one stored file, which is the format of associated files."""
    stream = io.BytesIO()
    stream.write(model)
    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.create_system = 3
    entry.external_attr = 0o644 << 16
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(entry, text.encode("utf-8", "replace"))
    return stream.getvalue()


def read_metadata(data: bytes, name: str = "the model") -> Metadata | None:
    """Return the description of the first input and of the labels; None if there is none.

    Raises:
        UsageError: the file or its metadata is damaged.
    """
    content = read(data, name).metadata.get(_ENTRY)
    if content is None:
        return None
    metadata, labels_file = guarded(f"{name} (its metadata)", lambda: _decoded(content))
    return replace(metadata, labels=guarded(f"{name} (its labels)", lambda: _labels(data, labels_file)))


def _decoded(content: bytes) -> tuple[Metadata, str]:
    """Return the description, still without labels, and the name of the output's file of labels (empty for none).

    Raises:
        Damage: it is not a whole description.
    """
    verify_tables(content, _IDENTIFIER, _SCHEMA, "Model")
    root = _View(content, int.from_bytes(content[:4], "little"))
    graph = next(iter(root.children(10)), None)
    image = next(iter(graph.children(8)), None) if graph else None
    mean, std = _normalization(image)
    outputs = graph.children(10) if graph else []
    files = [file for output in outputs for file in output.children(16)]
    units = [unit for output in outputs for unit in output.children(12) if unit.kind(4) == _SCORE_THRESHOLD]
    limits = [options.number(4) for unit in units if (options := unit.child(6)) is not None]
    labels_file = next((file.text(4) for file in files if file.kind(8) in {_AXIS_LABELS, _VALUE_LABELS}), "")
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
    return metadata, labels_file


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
        if unit.kind(4) == _NORMALIZATION and options is not None:
            mean, std = options.numbers(4), options.numbers(6)
            if len(mean) != len(std):
                raise Damage(f"it normalizes with {len(mean)} means and {len(std)} deviations")
            return mean, std
    return (), ()


def _labels(data: bytes, name: str) -> tuple[str, ...]:
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

"""Read and write a file's labels, normalization and licence.

They stand where MediaPipe and Android Studio expect them: a flatbuffer in the file describes its
inputs and outputs (TensorFlow Lite metadata, ``M001``), and a zip archive behind the model has the
lists of labels. Slots and field numbers are those of the public schema ``metadata_schema.fbs``,
for the tables that a classifier or an object detector needs. All that a search ships is described
so; equal arguments must give equal bytes, as files are known by their hash.
"""

from __future__ import annotations

import io
import math
import re
import zipfile
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import flatbuffers
import numpy as np
from flatbuffers.number_types import Float32Flags, Uint8Flags
from flatbuffers.table import Table

from advisor.core import UNREADABLE_ZIP, StageError
from advisor.tflite._model import Model, guard_reader, open_model, read
from advisor.tflite._schema_fields import Field, Schema, strings, vector_fields
from advisor.tflite._tables import Tables
from advisor.tflite._verify import Damage, verify_tables

_IDENTIFIER = b"M001"
_AXIS_LABELS = 2
_VALUE_LABELS = 3
_AXIS_CALIBRATION = 4
"""Kinds of an associated file: labels of scores, labels of class numbers, a line a score."""

_NORMALIZATION = 1
_SCORE_CALIBRATION = 2
_SCORE_THRESHOLD = 3
"""Kinds of a process unit."""

_ENTRY = "TFLITE_METADATA"
_MAX_LABELS_BYTES = 16 * 2**20
"""Largest size of a labels file: enough for 50,000 labels of 300 characters."""

_SCHEMA: Schema = MappingProxyType(
    {
        "": (),
        "Model": (
            *strings(4, 6, 8, 12, 14, 18),
            Field(10, "tables", "Subgraph"),
            Field(16, "tables", "File"),
        ),
        "Subgraph": (*strings(4, 6), Field(8, "tables", "Tensor"), Field(10, "tables", "Output")),
        "Tensor": (*strings(4, 6), Field(12, "tables", "Unit"), Field(16, "tables", "File")),
        "Output": (*strings(4, 6), Field(12, "tables", "OutputUnit"), Field(16, "tables", "File")),
        "OutputUnit": (Field(6, "table"),),
        "Unit": (Field(6, "table", "Normalization"),),
        "Normalization": vector_fields(4, 4, 6),
        "File": strings(4),
    }
)
"""Fields that are read back. A unit may be of another kind than ``Normalization`` or, of an
output, than a threshold; :meth:`Metadata.read` checks it.
"""

_LINE_BREAKS = re.compile(r"[\x00\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
_LABELS_FILE = "labels.txt"
_SCORES_FILE = "scores.txt"

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The date of every associated file: the oldest of the zip format, so that bytes are equal."""

_MIN_PARSER_VERSION = "1.0.0"
"""The oldest parser that reads every field written here; the first one does."""

_FEATURE_PROPERTIES = 1
_IMAGE_PROPERTIES = 2
_BOX_PROPERTIES = 3
_BOUNDARIES = 1
_RGB = 1
_INVERSE_LOGISTIC = 2
_LEFT_TOP_RIGHT_BOTTOM = (1, 0, 3, 2)
"""Places of a box's sides in an output of top, left, bottom and right."""

_DETECTOR_OUTPUTS = ("location", "category", "score", "number of detections")
"""Names by which MediaPipe knows the outputs of a detector."""

_UNCHANGED = "1,1,0"
"""Scale, slope and offset of MediaPipe's sigmoid of a score's log odds: they give the score
itself. The fourth number of a line is the score below which a class gets the default score of
zero, so that the threshold leaves it out.
"""


@dataclass(frozen=True, slots=True)
class Metadata:
    """The description in a file.

    Attributes:
        name: the model's name.
        labels: one label a class, in the order of the output; stored as :func:`one_line` gives
            them.
        mean: subtracted from the input's values (0..255, RGB): one number or one a channel; empty
            where not stated.
        std: what the difference is divided by, as ``mean``.
        description: what the model is for.
        threshold: score from which on clients show a box or a class; None leaves it to them.
            MediaPipe reads it where its user gives none; its ObjectDetector for Python (1.2.2)
            always gives one.
        by_class: score from which on clients show each class of a classifier, in the order of the
            labels; empty for none. It needs a ``threshold`` that is not above any of them.
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

    @staticmethod
    def read(data: bytes, name: str = "the model") -> Metadata | None:
        """Return the description of the first input and of the labels; None if there is none.

        Raises:
            UsageError: the file or its metadata is damaged.
        """
        return Metadata.read_description(read(data, name), data, name)

    @staticmethod
    def read_description(model: Model, data: bytes, name: str) -> Metadata | None:
        """Return the description in ``data``, whose value is ``model``; see :meth:`read`."""
        content = model.metadata.get(_ENTRY)
        if content is None:
            return None
        with guard_reader(f"{name} (its metadata)"):
            metadata, labels_file, scores_file = _decode_metadata(content)
        with guard_reader(f"{name} (its labels)"):
            labels = _read_lines(data, labels_file)
        with guard_reader(f"{name} (its thresholds)"):
            return replace(metadata, labels=labels, by_class=_read_least_scores(data, scores_file))

    def write_into(self, data: bytes) -> bytes:
        """Return the model with this metadata in place of any description that it has.

        The same arguments give the same bytes. Normalization is written as one number where the
        channels agree, else as one a channel. MediaPipe (1.2.2) refuses the latter, and inputs
        that are neither float32 nor uint8; ``quantization`` has edits that make such a model fit.

        Raises:
            UsageError: the file is damaged.
            StageError: the model is not one image in, and one row of scores or the four outputs of
                a detector out; the number of labels is not that of its classes; or the
                normalization is not usable.
        """
        return self.write_tables(*open_model(data))

    def write_tables(self, tables: Tables, model: Model) -> bytes:
        """Return the file of the tables with this metadata; see :meth:`Metadata.write_into`.

        ``model`` is the value of the tables.
        """
        from advisor.tflite._tables import DESCRIBING_METADATA

        # A detector has four outputs, a classifier one.
        detects = len(model.outputs) == len(_DETECTOR_OUTPUTS)
        _require_fit(model, self, detects)
        description = _encode_metadata(self, detects)
        tables.make_editable().add_metadata(DESCRIBING_METADATA, description)
        tables.drop_unused_buffers()
        stream = io.BytesIO()
        stream.write(tables.pack())
        _append_files(stream, self)
        return stream.getvalue()


def one_line(label: str) -> str:
    """Return ``label`` as it is stored, with a space for each run of line breaks (and NUL)."""
    return _LINE_BREAKS.sub(" ", label)


def _decode_metadata(content: bytes) -> tuple[Metadata, str, str]:
    """Return the description, and the names of the files of labels and of scores, or "".

    It lacks the contents of these files.
    """
    # The bytes come from a file of somebody else: every offset is checked before it is followed.
    verify_tables(content, _IDENTIFIER, _SCHEMA)
    root = _View(content, int.from_bytes(content[:4], "little"))
    # Slots of the schema. A model: 10 graphs. A graph: 8 inputs, 10 outputs. A tensor: 12 process
    # units, 16 files. A process unit: 4 its kind, 6 its options. A file: 4 its name, 8 its kind.
    graph = next(iter(root.children(10)), None)
    image = None
    if graph:
        image = next(iter(graph.children(8)), None)
    mean, std = _read_normalization(image)
    files = list[_View]()
    thresholds = list[float]()
    for output in graph.children(10) if graph else []:
        files += output.children(16)
        for unit in output.children(12):
            options = unit.child(6)
            if unit.kind(4) == _SCORE_THRESHOLD and options is not None:
                thresholds.append(float(options.GetSlot(4, 0.0, Float32Flags)))
    labels_file = _first_file_name(files, {_AXIS_LABELS, _VALUE_LABELS})
    scores_file = _first_file_name(files, {_AXIS_CALIBRATION})
    metadata = Metadata(
        name=root.text(4),
        labels=(),
        mean=mean,
        std=std,
        description=root.text(6),
        author=root.text(12),
        licence=root.text(14),
        version=root.text(8),
        threshold=thresholds[0] if thresholds else None,
    )
    return metadata, labels_file, scores_file


class _View(Table):  # type: ignore[misc]
    """A table of a verified flatbuffer, read by slot."""

    def text(self, slot: int) -> str:
        offset = self.Offset(slot)
        return self.String(offset + self.Pos).decode("utf-8", "replace") if offset else ""

    def kind(self, slot: int) -> int:
        return int(self.GetSlot(slot, 0, Uint8Flags))

    def child(self, slot: int) -> _View | None:
        offset = self.Offset(slot)
        if offset:
            return _View(self.Bytes, self.Indirect(offset + self.Pos))
        return None

    def children(self, slot: int) -> list[_View]:
        offset = self.Offset(slot)
        if not offset:
            return []
        start = self.Vector(offset)
        # A vector of tables holds an offset of four bytes to each.
        return [
            _View(self.Bytes, self.Indirect(start + 4 * index))
            for index in range(self.VectorLen(offset))
        ]

    def numbers(self, slot: int) -> tuple[float, ...]:
        offset = self.Offset(slot)
        if offset:
            return tuple(map(float, self.GetVectorAsNumpy(Float32Flags, offset)))
        return ()


def _first_file_name(files: Iterable[_View], kinds: Container[int]) -> str:
    for file in files:
        if file.kind(8) in kinds:
            return file.text(4)
    return ""


def _read_normalization(image: _View | None) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and deviation of an input, empty where not stated."""
    for unit in image.children(12) if image else []:
        options = unit.child(6)
        if unit.kind(4) == _NORMALIZATION and options is not None:
            mean = options.numbers(4)
            std = options.numbers(6)
            if len(mean) != len(std):
                raise Damage(f"it normalizes with {len(mean)} means and {len(std)} deviations")
            return mean, std
    return (), ()


def _read_least_scores(data: bytes, name: str) -> tuple[float, ...]:
    """Return the last number of each line: the score from which on a class is shown."""
    try:
        return tuple(float(line.rpartition(",")[2]) for line in _read_lines(data, name))
    except ValueError:
        raise Damage(f"the file {name!r} does not hold numbers") from None


def _read_lines(data: bytes, name: str) -> tuple[str, ...]:
    """Return the lines of an associated file; none for an empty name."""
    if not name:
        return ()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive, archive.open(name) as file:
            # One byte more than is allowed shows that there is more, without unpacking all of it.
            content = file.read(_MAX_LABELS_BYTES + 1)
    except KeyError:
        raise Damage(f"the file {name!r} that it names is not in it") from None
    except UNREADABLE_ZIP as error:
        raise Damage(f"the archive behind the model cannot be read ({error})") from None
    if len(content) > _MAX_LABELS_BYTES:
        raise Damage(f"the file {name!r} has more than {_MAX_LABELS_BYTES} bytes")
    lines = content.decode("utf-8", "replace").split("\n")
    # A line break ends the last line, and begins no further label.
    if lines[-1] == "":
        lines = lines[:-1]
    return tuple(line.removesuffix("\r") for line in lines)


def _append_files(stream: io.BytesIO, metadata: Metadata) -> None:
    """Append the zip archive of the labels, and of the scores of each class if there are any."""
    files = {_LABELS_FILE: "".join(f"{one_line(label)}\n" for label in metadata.labels)}
    if metadata.by_class:
        files[_SCORES_FILE] = "\n".join(f"{_UNCHANGED},{score:.6f}" for score in metadata.by_class)
    # The format of associated files.
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, text in files.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            # As of Unix, whatever machine writes it: equal models give equal bytes.
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, text.encode("utf-8", "replace"))


def _require_fit(model: Model, metadata: Metadata, detects: bool) -> None:
    takes_image = len(model.inputs) == 1 and len(model.inputs[0].shape) == 4
    outputs_fit = detects or len(model.outputs) == 1
    if not takes_image or not outputs_fit:
        raise StageError(
            "labels need a model of one image input and one output, or the four outputs of a"
            " detector"
        )
    shape = model.outputs[0].shape
    classes = shape[-1] if shape else 0
    labels = len(metadata.labels)
    if classes != labels and not detects:
        raise StageError(f"{labels} labels do not fit a model of {classes} classes")
    normalization = f"a normalization by {metadata.mean} and {metadata.std}"
    # One value for all channels, or one for each.
    channels = len(metadata.mean)
    if channels != len(metadata.std) or channels not in {1, model.inputs[0].shape[-1]}:
        raise StageError(f"{normalization} does not fit the model's input")
    are_finite = all(map(math.isfinite, metadata.mean))
    are_positive = all(0 < std < math.inf for std in metadata.std)
    if not are_finite or not are_positive:
        raise StageError(f"{normalization} is not finite and positive")


class _Writer(flatbuffers.Builder):  # type: ignore[misc]
    """Writes texts, vectors and tables, children before their parents.

    Each method returns the offset of what it has written.
    """

    def write_text(self, text: str) -> int:
        return int(self.CreateString(text.encode("utf-8", "replace")))

    def write_numbers(self, numbers: Sequence[float], dtype: str = "<f4") -> int:
        return int(self.CreateNumpyVector(np.asarray(numbers, dtype=dtype)))

    def write_tables(self, offsets: Sequence[int]) -> int:
        """Write a vector of tables or texts."""
        self.StartVector(4, len(offsets), 4)
        # A flatbuffer is built from its end.
        for offset in reversed(offsets):
            self.PrependUOffsetTRelative(offset)
        return int(self.EndVector())

    def write_table(
        self,
        fields: int,
        offsets: Mapping[int, int],
        kinds: Mapping[int, int] = MappingProxyType({}),
    ) -> int:
        """Write a table of ``fields`` fields: ``offsets`` to children and one-byte ``kinds``.

        Both are by the number of the field.
        """
        self.StartObject(fields)
        for number, offset in offsets.items():
            self.PrependUOffsetTRelativeSlot(number, offset, 0)
        for number, kind in kinds.items():
            self.PrependUint8Slot(number, kind, 0)
        return int(self.EndObject())

    def write_feature(self) -> int:
        return self.write_table(3, {1: self.write_table(0, {})}, {0: _FEATURE_PROPERTIES})

    def write_files(self, kinds: Mapping[str, int]) -> int:
        """Write the entries of associated files by their names."""
        return self.write_tables(
            [
                self.write_table(5, {0: self.write_text(name)}, {2: kind})
                for name, kind in kinds.items()
            ]
        )

    def write_units(self, threshold: float | None, by_class: bool = False) -> dict[int, int]:
        """Write the process units of scores; return them by their field."""
        if threshold is None:
            return {}
        self.StartObject(1)
        self.PrependFloat32Slot(0, threshold, 0.0)
        options = int(self.EndObject())
        units = [self.write_table(2, {1: options}, {0: _SCORE_THRESHOLD})]
        if by_class:
            options = self.write_table(2, {}, {0: _INVERSE_LOGISTIC})
            units.append(self.write_table(2, {1: options}, {0: _SCORE_CALIBRATION}))
        return {4: self.write_tables(units)}


def _encode_metadata(metadata: Metadata, detects: bool) -> bytes:
    """Return the flatbuffer of ``metadata`` for a model of one image input.

    Its outputs are detections, or scores if ``detects`` is False.
    """
    writer = _Writer(1024)
    inputs = writer.write_tables([_write_input(writer, metadata)])
    if detects:
        outputs = {3: writer.write_tables(_write_detections(writer, metadata.threshold))}
        # The group says that entry n of locations, categories and scores is one object.
        names = writer.write_tables(list(map(writer.write_text, _DETECTOR_OUTPUTS[:3])))
        outputs[7] = writer.write_tables(
            [writer.write_table(2, {0: writer.write_text("detection_result"), 1: names})]
        )
    else:
        outputs = {3: writer.write_tables([_write_scores(writer, metadata)])}
    graph = writer.write_table(10, {2: inputs, **outputs})
    # In the order of the fields; the empty ones are the graphs, which follow,
    # and the associated files.
    texts = (
        metadata.name,
        metadata.description,
        metadata.version,
        "",
        metadata.author,
        metadata.licence,
        "",
    )
    slots = {}
    for slot, text in enumerate((*texts, _MIN_PARSER_VERSION)):
        if text:
            slots[slot] = writer.write_text(text)
    slots[3] = writer.write_tables([graph])
    writer.Finish(writer.write_table(8, slots), file_identifier=_IDENTIFIER)
    return bytes(writer.Output())


def _write_input(writer: _Writer, metadata: Metadata) -> int:
    uniform = len(set(metadata.mean)) == 1 and len(set(metadata.std)) == 1
    mean = metadata.mean[:1] if uniform else metadata.mean
    std = metadata.std[:1] if uniform else metadata.std
    content = writer.write_table(
        3, {1: writer.write_table(2, {}, {0: _RGB})}, {0: _IMAGE_PROPERTIES}
    )
    options = writer.write_table(2, {0: writer.write_numbers(mean), 1: writer.write_numbers(std)})
    unit = writer.write_table(2, {1: options}, {0: _NORMALIZATION})
    return writer.write_table(
        7, {0: writer.write_text("image"), 3: content, 4: writer.write_tables([unit])}
    )


def _write_scores(writer: _Writer, metadata: Metadata) -> int:
    by_class = bool(metadata.by_class)
    feature = writer.write_feature()
    units = writer.write_units(metadata.threshold, by_class)
    kinds = {_LABELS_FILE: _AXIS_LABELS}
    if by_class:
        kinds[_SCORES_FILE] = _AXIS_CALIBRATION
    files = writer.write_files(kinds)
    return writer.write_table(
        7, {0: writer.write_text("probabilities"), 3: feature, 6: files, **units}
    )


def _write_detections(writer: _Writer, threshold: float | None) -> list[int]:
    units = writer.write_units(threshold)
    order = writer.write_numbers(_LEFT_TOP_RIGHT_BOTTOM, "<u4")
    properties = writer.write_table(3, {0: order}, {1: _BOUNDARIES})
    boxes = writer.write_table(3, {1: properties}, {0: _BOX_PROPERTIES})
    location, category, score, count = _DETECTOR_OUTPUTS
    labels = {6: writer.write_files({_LABELS_FILE: _VALUE_LABELS})}
    return [
        writer.write_table(7, {0: writer.write_text(location), 3: boxes}),
        writer.write_table(
            7, {0: writer.write_text(category), 3: writer.write_feature(), **labels}
        ),
        writer.write_table(7, {0: writer.write_text(score), 3: writer.write_feature(), **units}),
        writer.write_table(7, {0: writer.write_text(count), 3: writer.write_feature()}),
    ]

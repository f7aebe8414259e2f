"""Write labels, normalization and licence into a `.tflite` file, as MediaPipe and Android Studio expect.

The flatbuffer is the one that :mod:`advisor.tflite.metadata` reads; field numbers are those of ``metadata_schema.fbs``.
"""

import io
import math
import zipfile
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import flatbuffers
import numpy as np

from advisor.core.errors import StageError
from advisor.tflite.metadata import (
    AXIS_CALIBRATION,
    AXIS_LABELS,
    IDENTIFIER,
    NORMALIZATION,
    SCORE_CALIBRATION,
    SCORE_THRESHOLD,
    VALUE_LABELS,
    Metadata,
    one_line,
)
from advisor.tflite.model import Model, read

LABELS_FILE, SCORES_FILE = "labels.txt", "scores.txt"

_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The date of every associated file: the oldest of the zip format, so that equal models give equal bytes."""

_MIN_PARSER_VERSION = "1.0.0"
"""The oldest parser that reads every field written here; the first one does."""

_FEATURE_PROPERTIES, _IMAGE_PROPERTIES, _BOX_PROPERTIES = 1, 2, 3
_BOUNDARIES = 1
_LEFT_TOP_RIGHT_BOTTOM = (1, 0, 3, 2)
"""Places of a box's sides in an output of top, left, bottom and right."""

DETECTOR_OUTPUTS = ("location", "category", "score", "number of detections")
"""Names by which MediaPipe knows the outputs of a detector."""

_RGB = 1

_INVERSE_LOGISTIC = 2
_UNCHANGED = "1,1,0"
"""Scale, slope and offset of MediaPipe's sigmoid of a score's log odds: they give the score itself. The fourth number
of a line is the score below which a class gets the default score of zero, so that the threshold leaves it out."""


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
    files = {LABELS_FILE: "".join(f"{one_line(label)}\n" for label in metadata.labels)}
    if metadata.by_class:
        files[SCORES_FILE] = "\n".join(f"{_UNCHANGED},{score:.6f}" for score in metadata.by_class)
    return _with_files(pack(model), files)


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
    outputs = {3: writer.tables(_detections(writer, metadata.threshold) if detects else [_scores(writer, metadata)])}
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
    writer.Finish(writer.table(8, {**fields, 3: writer.tables([graph])}), file_identifier=IDENTIFIER)
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
    unit = writer.table(2, {1: options}, {0: NORMALIZATION})
    return writer.table(7, {0: writer.text("image"), 3: content, 4: writer.tables([unit])})


def _scores(writer: _Writer, metadata: Metadata) -> int:
    feature, named = _feature(writer), {LABELS_FILE: AXIS_LABELS}
    if metadata.by_class:
        named[SCORES_FILE] = AXIS_CALIBRATION
    units, files = _units(writer, metadata.threshold, bool(metadata.by_class)), _files(writer, named)
    return writer.table(7, {0: writer.text("probabilities"), 3: feature, 6: files, **units})


def _detections(writer: _Writer, threshold: float | None) -> list[int]:
    """Write the four outputs of a detector."""
    units = _units(writer, threshold)
    order = int(writer.CreateNumpyVector(np.asarray(_LEFT_TOP_RIGHT_BOTTOM, dtype="<u4")))
    boxes = writer.table(3, {1: writer.table(3, {0: order}, {1: _BOUNDARIES})}, {0: _BOX_PROPERTIES})
    location, category, score, count = DETECTOR_OUTPUTS
    labels = {6: _files(writer, {LABELS_FILE: VALUE_LABELS})}
    return [
        writer.table(7, {0: writer.text(location), 3: boxes}),
        writer.table(7, {0: writer.text(category), 3: _feature(writer), **labels}),
        writer.table(7, {0: writer.text(score), 3: _feature(writer), **units}),
        writer.table(7, {0: writer.text(count), 3: _feature(writer)}),
    ]


def _units(writer: _Writer, threshold: float | None, by_class: bool = False) -> dict[int, int]:
    """Write the process units of scores; return them by their field."""
    if threshold is None:
        return {}
    writer.StartObject(1)
    writer.PrependFloat32Slot(0, threshold, 0.0)
    units = [writer.table(2, {1: int(writer.EndObject())}, {0: SCORE_THRESHOLD})]
    if by_class:
        calibration = writer.table(2, {}, {0: _INVERSE_LOGISTIC})
        units.append(writer.table(2, {1: calibration}, {0: SCORE_CALIBRATION}))
    return {4: writer.tables(units)}


def _feature(writer: _Writer) -> int:
    return writer.table(3, {1: writer.table(0, {})}, {0: _FEATURE_PROPERTIES})


def _files(writer: _Writer, kinds: Mapping[str, int]) -> int:
    """Write the entries of associated files by their names."""
    return writer.tables([writer.table(5, {0: writer.text(name)}, {2: kind}) for name, kind in kinds.items()])


def _with_files(model: bytes, texts: Mapping[str, str]) -> bytes:
    """Append a zip archive with stored files, which is the format of associated files."""
    stream = io.BytesIO()
    stream.write(model)
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, text in texts.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, text.encode("utf-8", "replace"))
    return stream.getvalue()

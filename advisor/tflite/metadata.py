"""Read and write labels, normalization and licence in a `.tflite` file, as MediaPipe and Android Studio expect."""

from __future__ import annotations

import io
import math
import re
import zipfile
import zlib
from dataclasses import dataclass

from advisor.core.errors import StageError
from advisor.tflite.model import Model, guarded, read
from advisor.tflite.verify import Damage

LABELS_FILE = "labels.txt"

_ENTRY = "TFLITE_METADATA"
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The date of every associated file: the oldest of the zip format, so that equal models give equal bytes."""

_MAX_LABELS_BYTES = 16 * 2**20
"""Largest size of a labels file: enough for 50,000 labels of 300 characters."""

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
    """

    name: str
    labels: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    description: str = ""
    author: str = ""
    licence: str = ""
    version: str = ""


def one_line(label: str) -> str:
    """Return ``label`` as it is stored: every run of line breaks (and NUL) replaced by one space."""
    return _LINE_BREAKS.sub(" ", label)


def write_metadata(data: bytes, metadata: Metadata) -> bytes:
    """Return the model with ``metadata`` in place of any that it has; the same arguments give the same bytes.

    Normalization is written as one number where the channels agree, else as one a channel. MediaPipe (1.2.2) refuses
    the latter, and inputs that are neither float32 nor uint8: ``interface`` has the edits that make such a model fit.

    Raises:
        UsageError: the file is damaged.
        StageError: the model is not one image in and one row of scores out, the number of labels is not that of its
            classes, or the normalization is not usable.
    """
    from advisor.tflite.metadata_tables import Description, encode
    from advisor.tflite.rewrite import DESCRIBING_METADATA, add_metadata, drop_unused_buffers, pack, unpack

    _check(read(data), metadata)
    mean, std = _shortest(metadata.mean, metadata.std)
    description = Description(
        name=metadata.name,
        description=metadata.description,
        version=metadata.version,
        author=metadata.author,
        licence=metadata.licence,
        mean=mean,
        std=std,
        labels_file=LABELS_FILE,
    )
    model = unpack(data)
    add_metadata(model, DESCRIBING_METADATA, encode(description))
    drop_unused_buffers(model)
    return _with_file(pack(model), LABELS_FILE, "".join(f"{one_line(label)}\n" for label in metadata.labels))


def _check(model: Model, metadata: Metadata) -> None:
    if len(model.inputs) != 1 or len(model.outputs) != 1 or len(model.inputs[0].shape) != 4:
        raise StageError("labels need a model of one image input and one output")
    classes = model.outputs[0].shape[-1] if model.outputs[0].shape else 0
    if classes != len(metadata.labels):
        raise StageError(f"{len(metadata.labels)} labels do not fit a model of {classes} classes")
    if len(metadata.mean) != len(metadata.std) or len(metadata.mean) not in {1, model.inputs[0].shape[-1]}:
        raise StageError(f"a normalization by {metadata.mean} and {metadata.std} does not fit the model's input")
    if not all(math.isfinite(mean) for mean in metadata.mean) or not all(0 < std < math.inf for std in metadata.std):
        raise StageError(f"a normalization by {metadata.mean} and {metadata.std} is not finite and positive")


def _shortest(mean: tuple[float, ...], std: tuple[float, ...]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    uniform = len(set(mean)) == 1 and len(set(std)) == 1
    return (mean[:1], std[:1]) if uniform else (mean, std)


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
    """Return the description of the first input and output; None if there is none.

    Raises:
        UsageError: the file or its metadata is damaged.
    """
    from advisor.tflite.metadata_tables import decode

    content = next((entry.content for entry in read(data, name).metadata if entry.name == _ENTRY), None)
    if content is None:
        return None
    said = guarded(f"{name} (its metadata)", lambda: decode(content))
    return Metadata(
        name=said.name,
        labels=guarded(f"{name} (its labels)", lambda: _labels(data, said.labels_file)),
        mean=said.mean,
        std=said.std,
        description=said.description,
        author=said.author,
        licence=said.licence,
        version=said.version,
    )


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
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        raise Damage(f"the archive behind the model cannot be read ({error})") from None
    if len(content) > _MAX_LABELS_BYTES:
        raise Damage(f"the file {name!r} has more than {_MAX_LABELS_BYTES} bytes")
    return content

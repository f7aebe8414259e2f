"""The formats of users' models: how each is checked and becomes a float ``.tflite``, and what it came from.

A format is one small class and one line in :data:`FORMATS`.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from advisor.catalog.user_models import keras_archive, saved_model
from advisor.catalog.weights.arrays import Array
from advisor.core.errors import UsageError, message_of
from advisor.store.packages import Packages
from advisor.tflite.model import read

_CONVERTED = "convert it to .tflite yourself, and add that file"


@dataclass(frozen=True)
class Layer:
    """A layer of the original model, and what it computes of one image.

    Attributes:
        name: of the layer.
        operator: of the original's format, such as ``Conv``.
        inputs: names of the layers that it reads.
        values: of its output, in the original's order of dimensions.
    """

    name: str
    operator: str
    inputs: tuple[str, ...]
    values: Array


class Original(Protocol):
    """A user's model in the runtime that it was made for."""

    @property
    def runtime(self) -> str:
        """The runtime and its version, such as ``onnxruntime 1.31.1``."""

    def scores(self, images: Array) -> Array:
        """Return the scores (N, C) of normalised images (N, S, S, 3)."""

    def layers(self, image: Array) -> Sequence[Layer]:
        """Return every layer for one image (1, S, S, 3), each after those that it reads."""


class Format(Protocol):
    """A format that users' models come in; all but :meth:`takes` runs in a child process."""

    @property
    def what(self) -> str:
        """The file in a few words, such as ``a .keras file``."""

    @property
    def library(self) -> str:
        """The library that reads it, for errors."""

    @property
    def packages(self) -> Packages | None:
        """Packages that the converter needs and that do not fit those of this environment; its child has them."""

    def takes(self, file: Path) -> bool:
        """Return whether the file, which exists, is of this format by its name."""

    def check(self, file: Path) -> None:
        """Refuse a file that is damaged, would run code of its own, or reads other files.

        Raises:
            UsageError: with the reason.
        """

    def convert(self, file: Path, size: int | None) -> bytes:
        """Return a checked file as a ``.tflite``; ``size`` is the side of its input where it leaves it open."""

    def original(self, file: Path, size: int | None) -> Original | None:
        """Return the model in its own runtime, None where the library that reads it also converts it."""


class _Tflite:
    what, library, packages = "a .tflite file", "LiteRT", None

    def takes(self, file: Path) -> bool:
        return file.is_file() and file.suffix == ".tflite"

    def check(self, file: Path) -> None:
        read(file)

    def convert(self, file: Path, size: int | None) -> bytes:
        return file.read_bytes()

    def original(self, file: Path, size: int | None) -> Original | None:
        return None


class _Keras:
    what, library, packages = "a .keras file", "Keras", None

    def takes(self, file: Path) -> bool:
        return file.is_file() and file.suffix == ".keras"

    def check(self, file: Path) -> None:
        keras_archive.check(file)

    def convert(self, file: Path, size: int | None) -> bytes:
        return _converted(keras_archive.converter(file, size))

    def original(self, file: Path, size: int | None) -> Original | None:
        return None


class _SavedModel:
    what, library, packages = "a SavedModel's folder", "TensorFlow", None

    def takes(self, file: Path) -> bool:
        return file.is_dir()

    def check(self, file: Path) -> None:
        saved_model.check(file)

    def convert(self, file: Path, size: int | None) -> bytes:
        return _converted(saved_model.converter(file, size))

    def original(self, file: Path, size: int | None) -> Original | None:
        return None


FORMATS: tuple[Format, ...] = (_Keras(), _SavedModel(), _Tflite())


def format_of(file: Path) -> Format:
    """Return the format of a file or folder.

    Raises:
        UsageError: it is missing, or of none of the formats.
    """
    taken = ", ".join(one.what for one in FORMATS)
    if not file.exists():
        raise UsageError(f"there is no file '{file}'", f"give one of: {taken}")
    for one in FORMATS:
        if one.takes(file):
            return one
    raise UsageError(f"'{file}' is none of: {taken}", "save it from Keras with model.save('name.keras')")


def as_tflite(file: Path, size: int | None) -> bytes:
    """Return a file of any format as a ``.tflite``; ``size`` is the side of its input where it leaves it open.

    Raises:
        UsageError: it is refused, or cannot be converted.
    """
    form = format_of(file)
    form.check(file)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return form.convert(file, size)
    except UsageError:
        raise
    except Exception as error:  # a damaged or strange model can fail the library in any way
        raise UsageError(
            f"{file}: {form.library} cannot load or convert it: {message_of(error)}", _CONVERTED
        ) from error


def _converted(converter: Any) -> bytes:
    data: bytes = converter.convert()
    return data

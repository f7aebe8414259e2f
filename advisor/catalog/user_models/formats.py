"""The formats of users' models: how each is checked and becomes a float ``.tflite``, and what it came from.

A format is one small class and one line in :data:`FORMATS`.
"""

import contextlib
import io
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from advisor.catalog.cards import Conversion
from advisor.catalog.user_models import keras_archive, pt2_archive, saved_model
from advisor.catalog.user_models.comparison import Original, compared
from advisor.catalog.user_models.onnx_files import checks, graph
from advisor.catalog.user_models.onnx_files.graph import PACKAGES, OnnxOriginal, converted
from advisor.catalog.user_models.pt2 import TorchProgram, require_torch
from advisor.core.errors import UsageError, message_of
from advisor.store.cache import Packages
from advisor.tflite.layout import simplified, without_transposes
from advisor.tflite.model import read

_CONVERTED = "convert it to .tflite yourself, and add that file"


class Format(ABC):
    """A format that users' models come in; all but :meth:`takes` runs in a child process.

    Attributes:
        what: the file in a few words, such as ``a .keras file``.
        library: the library that reads it, for errors.
        suffix: of its files.
        packages: packages that the converter needs and that do not fit those of this environment; its child has them.
    """

    what: str
    library: str
    suffix = ""
    packages: Packages | None = None

    def takes(self, file: Path) -> bool:
        """Return whether the file, which exists, is of this format by its name."""
        return file.is_file() and file.suffix == self.suffix

    @abstractmethod
    def check(self, file: Path, size: int | None) -> None:
        """Refuse a file that is damaged, would run code of its own, or reads other files; it needs no package beside.

        ``size`` is the side of its input where it leaves it open.

        Raises:
            UsageError: with the reason.
        """

    @abstractmethod
    def convert(self, file: Path, size: int | None) -> bytes:
        """Return a checked file as a ``.tflite``; ``size`` is the side of its input where it leaves it open."""

    def original(self, file: Path, size: int | None) -> Original | None:
        """Return the model in its own runtime, None where the library that reads it also converts it."""
        return None


class _Tflite(Format):
    what, library, suffix = "a .tflite file", "LiteRT", ".tflite"

    def check(self, file: Path, size: int | None) -> None:
        read(file)

    def convert(self, file: Path, size: int | None) -> bytes:
        return file.read_bytes()


class _Keras(Format):
    what, library, suffix = "a .keras file", "Keras", ".keras"

    def check(self, file: Path, size: int | None) -> None:
        keras_archive.check(file)

    def convert(self, file: Path, size: int | None) -> bytes:
        return _converted(keras_archive.converter(file, size))


class _SavedModel(Format):
    what, library = "a SavedModel's folder", "TensorFlow"

    def takes(self, file: Path) -> bool:
        return file.is_dir()

    def check(self, file: Path, size: int | None) -> None:
        saved_model.check(file)

    def convert(self, file: Path, size: int | None) -> bytes:
        return _converted(saved_model.converter(file, size))


class _Onnx(Format):
    what, library, suffix, packages = "an .onnx file", "onnx2tf", ".onnx", PACKAGES

    def check(self, file: Path, size: int | None) -> None:
        graph.fixed(checks.checked(file), size, file)

    def convert(self, file: Path, size: int | None) -> bytes:
        model = checks.checked(file)
        image = graph.fixed(model, size, file)
        return converted(graph.prepared(model, file), image)

    def original(self, file: Path, size: int | None) -> Original | None:
        model = checks.checked(file)
        return OnnxOriginal(model, graph.fixed(model, size, file))


class _Pt2(Format):
    what, library, suffix, packages = "a .pt2 file", "PyTorch", ".pt2", PACKAGES

    def check(self, file: Path, size: int | None) -> None:
        side = pt2_archive.read(file).side
        keras_archive.fixed_side((1, side, side, 3), size, str(file))
        require_torch(file)

    def convert(self, file: Path, size: int | None) -> bytes:
        program = TorchProgram(file)
        with tempfile.TemporaryDirectory() as folder:
            written = Path(folder) / "model.onnx"
            program.write_onnx(written)
            return _Onnx().convert(written, size)

    def original(self, file: Path, size: int | None) -> Original | None:
        return TorchProgram(file)


FORMATS: tuple[Format, ...] = (_Keras(), _SavedModel(), _Tflite(), _Onnx(), _Pt2())
PICKLES = (".pt", ".pth", ".ckpt", ".pkl")
"""Suffixes of PyTorch's other files, whose reading can run the code in them."""


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
    if file.suffix in PICKLES:
        raise UsageError(f"'{file}' is a pickle, which runs code when it is read: it is not read", pt2_archive.EXPORT)
    raise UsageError(f"'{file}' is none of: {taken}", "save it from Keras with model.save('name.keras')")


def as_tflite(file: Path, size: int | None) -> tuple[bytes, Conversion | None]:
    """Return a file of any format as a ``.tflite``, and how it compares with its original if it has one.

    Args:
        file: the file or folder.
        size: side of its input where it leaves it open.

    Raises:
        UsageError: it is refused, cannot be converted, or computes something else after the conversion.
    """
    form = format_of(file)
    form.check(file, size)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            data, original = form.convert(file, size), form.original(file, size)
            if original is None:
                return data, None
            data = simplified(without_transposes(data, str(file)))
            return data, compared(original, data, str(file))
    except UsageError:
        raise
    except Exception as error:  # a damaged or strange model can fail the library in any way
        raise UsageError(
            f"{file}: {form.library} cannot load or convert it: {message_of(error)}", _CONVERTED
        ) from error


def _converted(converter: Any) -> bytes:
    data: bytes = converter.convert()
    return data

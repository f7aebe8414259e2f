"""Read a `.tflite` file as a frozen value."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from advisor.core.errors import UsageError
from advisor.tflite.values import Model, Operator, Subgraph, Tensor
from advisor.tflite.verify import MAX_FILE_BYTES, Damage

__all__ = ["Model", "Operator", "Subgraph", "Tensor", "guarded", "read"]

_T = TypeVar("_T")


def read(source: bytes | Path, name: str = "") -> Model:
    """Read a `.tflite` file, or its bytes, after checking that it is not damaged.

    Args:
        source: the file or its bytes.
        name: what to call bytes in an error; a file is called by its path.

    Raises:
        UsageError: the file is absent, damaged, truncated or not a `.tflite` file.
    """
    from advisor.tflite.reader import parse

    called = name or (str(source) if isinstance(source, Path) else "the model")
    data = _content(source) if isinstance(source, Path) else source
    return guarded(called, lambda: parse(data)[1])


def guarded(name: str, build: Callable[[], _T]) -> _T:
    """Return ``build()``; errors of a reader become a UsageError that names the file."""
    try:
        return build()
    except Damage as damage:
        raise _refusal(name, str(damage)) from None
    except (struct.error, LookupError, ValueError, TypeError, OverflowError, AttributeError) as error:
        raise _refusal(name, f"a part of it cannot be read ({error})") from error


def _refusal(name: str, reason: str) -> UsageError:
    return UsageError(f"{name} is not a usable .tflite file: {reason}", "Fetch or convert the file again.")


def _content(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise UsageError(f"cannot read {path}: it is not a file", "Give the path of a .tflite file.")
        if path.stat().st_size > MAX_FILE_BYTES:
            raise _refusal(str(path), f"it has more than {MAX_FILE_BYTES} bytes")
        return path.read_bytes()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UsageError(f"cannot read {path}: {reason}", "Check the path of the .tflite file.") from None

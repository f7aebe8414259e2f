"""Read the wire format of protocol buffers, with every length checked."""

from __future__ import annotations

import struct
from collections.abc import Iterator

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT = 10


def fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield the (field number, value) pairs of ``message``: varints as integers, everything else as its bytes.

    Raises:
        ValueError: a field that reaches past the message, or a wire type that does not exist.
    """
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, wire_type = key >> 3, key & 7
        if wire_type == _VARINT:
            value, at = _varint(message, at)
            yield number, value
            continue
        size, at = _size(message, at, wire_type)
        if at + size > len(message):
            raise ValueError(f"field {number} reaches past the end of its message")
        yield number, message[at : at + size]
        at += size


def varints(packed: memoryview) -> list[int]:
    """Return the integers of a packed repeated field."""
    values, at = [], 0
    while at < len(packed):
        value, at = _varint(packed, at)
        values.append(value)
    return values


def text(value: int | memoryview) -> str:
    """Return a string field.

    Raises:
        ValueError: not a string.
    """
    if isinstance(value, int):
        raise ValueError("a number where a string belongs")
    return bytes(value).decode()


def part(value: int | memoryview) -> memoryview:
    """Return a nested message or packed field.

    Raises:
        ValueError: a number.
    """
    if isinstance(value, int):
        raise ValueError("a number where a message belongs")
    return value


def signed(value: int) -> int:
    """Return an int64 from its two's complement in 64 bits."""
    return int(struct.unpack("<q", struct.pack("<Q", value))[0])


def _size(message: memoryview, at: int, wire_type: int) -> tuple[int, int]:
    if wire_type == _LENGTH:
        return _varint(message, at)
    if wire_type in (_FIXED64, _FIXED32):
        return (8 if wire_type == _FIXED64 else 4), at
    raise ValueError(f"wire type {wire_type} does not exist")


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for place in range(_LONGEST_VARINT):
        if at + place >= len(message):
            raise ValueError("a number is cut off")
        byte = message[at + place]
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value & (2**64 - 1), at + place + 1
    raise ValueError("a number is too long")

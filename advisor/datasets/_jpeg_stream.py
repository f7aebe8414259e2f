"""Tell whether the compressed pixels of a JPEG are broken,
where libjpeg decodes on and only warns.

A decoder fills the rest of such an image with grey or with wrong colours. What follows the
compressed pixels tells it: only some markers may, and those that count its parts come in turn
(ITU-T T.81, annex B). An intact JPEG must never count as broken, because a data set refuses
broken images.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_END = 0xD9
_SCAN = 0xDA
_RESTART_INTERVAL = 0xDD
_FIRST_RESTART = 0xD0
_RESTARTS = 8
_BETWEEN_SCANS = frozenset({0xC4, _SCAN, 0xDB, 0xDC, _RESTART_INTERVAL, 0xFE, *range(0xE0, 0xF0)})
# Markers without a length.
_ALONE = frozenset({0x01, 0xD8, *range(_FIRST_RESTART, _FIRST_RESTART + _RESTARTS)})
_IN_PIXELS = re.compile(rb"\xff[^\x00\xff]")  # FF 00 is a byte of the pixels
_PROGRESSIVE = 0xC2
_FRAMES = frozenset({0xC0, 0xC1, _PROGRESSIVE})


@dataclass(frozen=True)
class JpegStream:
    """The compressed pixels of a JPEG."""

    begin: int  # Where they begin; the length of the file if there are none
    end: int  # Where the end marker is; the length of the file if there is none
    is_broken: bool  # They hold a marker that cannot be there, or lack one that must
    is_progressive: bool = False  # They come in several scans


def read_stream(data: bytes) -> JpegStream:
    """Find the compressed pixels of a JPEG; a file that ends within them is not broken."""
    place = 2
    first = len(data)
    interval = 0
    blocks = 0
    is_progressive = False
    while True:
        marker, begin, end = _find_segment(data, place)
        if marker is None or marker == _END:
            stream_end = len(data) if marker is None else begin - 2
            return JpegStream(first, stream_end, False, is_progressive)
        is_behind_scan = first < len(data)
        # Behind each segment is the next marker.
        # Where none is, two bytes of the pixels only looked like a marker.
        if is_behind_scan and marker != _SCAN and data[end : end + 1] != b"\xff":
            return JpegStream(first, begin, True, is_progressive)
        place = end
        if marker in _FRAMES:
            is_progressive = marker == _PROGRESSIVE
            blocks = _count_blocks(data[begin:end])
        elif marker == _RESTART_INTERVAL:
            interval = int.from_bytes(data[begin : begin + 2])
        elif marker == _SCAN:
            first = min(first, end)
            *restarts, (last, place) = _list_markers_in_pixels(data, end)
            if last is None:
                return JpegStream(first, len(data), False, is_progressive)
            numbers = []
            for restart, _ in restarts:
                if restart is not None:
                    numbers.append(restart - _FIRST_RESTART)
            # They count parts of the image from 0 to 7 and again from 0,
            # so a gap tells that blocks are missing.
            in_turn = numbers == [number % _RESTARTS for number in range(len(numbers))]
            # A scan of a progressive image has other blocks than those that its frame counts.
            is_countable = bool(interval and blocks) and not is_progressive
            expected = (blocks - 1) // interval if is_countable else 0
            is_known = last == _END or last in _BETWEEN_SCANS
            has_unannounced = bool(numbers) and not interval
            if not is_known or not in_turn or has_unannounced or len(numbers) < expected:
                return JpegStream(first, place, True, is_progressive)


def _find_segment(data: bytes, place: int) -> tuple[int | None, int, int]:
    """Return the next marker, and where its content begins and ends; None where there is none."""
    # FF 00 is a byte of the pixels, and FF before another FF fills.
    while place + 1 < len(data):
        if data[place] == 0xFF and data[place + 1] not in (0x00, 0xFF):
            break
        place += 1
    if place + 1 >= len(data):
        return None, place, place
    marker = data[place + 1]
    if marker in _ALONE or marker == _END:
        return marker, place + 2, place + 2
    length = int.from_bytes(data[place + 2 : place + 4])
    return marker, place + 4, place + 2 + max(length, 2)


def _list_markers_in_pixels(data: bytes, place: int) -> Iterator[tuple[int | None, int]]:
    """Yield the restart markers in compressed pixels with their places, then the marker behind.

    That one is None if there is none.
    """
    for match in _IN_PIXELS.finditer(data, place):
        marker = match[0][1]
        begin = match.start()
        # Several FF are one. To look for them in the expression takes 20 times as long,
        # as it stops at each FF 00.
        while begin > place and data[begin - 1] == 0xFF:
            begin -= 1
        yield marker, begin
        if not _FIRST_RESTART <= marker < _FIRST_RESTART + _RESTARTS:
            return
    yield None, len(data)


def _count_blocks(frame: bytes) -> int:
    """Return the number of blocks (MCU) of a baseline image by its frame header; 0 if unknown."""
    if len(frame) < 6 or len(frame) < 6 + 3 * frame[5]:
        return 0
    height = int.from_bytes(frame[1:3])
    width = int.from_bytes(frame[3:5])
    factors = []
    for component in range(frame[5]):
        factors.append(frame[7 + 3 * component])
    across = 1
    down = 1
    # A single component has blocks of 8 x 8 pixels, whatever its factors are.
    if len(factors) > 1:
        across = max(factor >> 4 for factor in factors)
        down = max(factor & 15 for factor in factors)
    if not (across and down and height):
        return 0
    # Both are rounded up: the blocks at the edges reach over the image.
    columns = -(-width // (8 * across))
    rows = -(-height // (8 * down))
    return columns * rows

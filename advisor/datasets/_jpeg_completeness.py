"""Tell whether all pixels of a JPEG are there, by decoding it with other bytes at its end.

libjpeg fills what is missing with grey and only warns. ``_image_decoding.py`` completes a file
that lacks its end marker alone; the survey refuses one whose pixels are broken or missing.
``_jpeg_stream.py`` looks at the markers, this module at the pixels.
"""

from __future__ import annotations

from io import BytesIO

import numpy as np

from advisor.datasets._image_files import BROKEN, MAX_PIXELS, TRUNCATED, open_image
from advisor.datasets._jpeg_stream import read_stream

END_MARKER = b"\xff\xd9"  # The last two bytes of a JPEG
FOREIGN_BITS = b"\x35\xa9\x5c" * 100  # What no pixel is made of, if all are there
ZEROS = 64  # Bytes of zeros in compressed pixels that are looked at
_SMALLEST_DRAFT = 8  # Pixels of a JPEG for each one at its smallest scale


def complete_jpeg(data: bytes) -> bytes:
    """Return a JPEG with an end marker; OSError "image file is truncated" if pixels are missing.

    A decoder takes what follows the last pixel for nothing. So two different tails give equal
    images if and only if no pixel is missing.
    """
    whole = data.removesuffix(END_MARKER).removesuffix(END_MARKER[:1])
    images = []
    for tail in (b"", FOREIGN_BITS):
        with open_image(BytesIO(whole + tail + END_MARKER), reduced=True) as image:
            width, height = image.size
            if width * height > MAX_PIXELS:
                image.draft(None, (width // _SMALLEST_DRAFT, height // _SMALLEST_DRAFT))
            try:
                image.load()
            except OSError:  # Pillow says in its own words what it met where pixels should be
                raise OSError(TRUNCATED) from None
            images.append(np.asarray(image))
    if not np.array_equal(images[0], images[1]):
        raise OSError(TRUNCATED)
    return whole + END_MARKER


def refuse_broken_jpeg(data: bytes, is_flat_below: bool) -> None:
    """Refuse a JPEG that a decoder accepted, but whose pixels are broken or missing: OSError.

    ``is_flat_below`` says that its lowest rows have one colour. A decoder that finds no more
    pixels returns such rows.
    """
    stream = read_stream(data)
    if stream.is_broken:
        raise OSError(BROKEN)
    if is_flat_below:
        complete_jpeg(data)
    # A card or a download leaves zeros.
    # An image that is flat may have them too, but its last bytes count.
    has_zeros = (
        not stream.is_progressive and data.find(bytes(ZEROS), stream.begin, stream.end) >= 0
    )
    if has_zeros and not _is_end_decoded(data[: stream.end]):
        raise OSError(BROKEN)


def _is_end_decoded(whole: bytes) -> bool:
    """Return whether other bytes at the end of the compressed pixels give another image."""
    images = []
    for tail in (whole[-ZEROS:], FOREIGN_BITS):
        with open_image(BytesIO(whole[:-ZEROS] + tail + END_MARKER), reduced=True) as image:
            image.load()
            images.append(np.asarray(image))
    return not np.array_equal(images[0], images[1])

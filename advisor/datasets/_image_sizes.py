"""Measure the size of single images of a user, and refuse what cannot be decoded.

Pages, ``advisor predict`` and ``advisor update`` measure photographs, and reports the images that
they overlay.
"""

from io import BytesIO
from pathlib import Path

from advisor.core import StageError, UsageError
from advisor.datasets._boxes.reading import Frame
from advisor.datasets._image_files import (
    READ_ERRORS,
    describe_read_error,
    open_image,
    read_bytes,
    read_orientation,
)
from advisor.datasets._images import load

CHECKED_SIDE = 64
"""Pixels of a side at which a photograph is decoded to see whether it is whole."""


def read_upright_size(path: Path) -> tuple[int, int]:
    """Return width and height of an upright image in pixels, from its header alone."""
    with open_image(path) as image:
        return Frame(image.size, read_orientation(image)).upright


def measure_photograph(path: Path) -> tuple[int, int]:
    """Return width and height of an upright photograph; UsageError if it cannot be decoded."""
    try:
        with open_image(BytesIO(read_bytes(path)[0]), reduced=True) as image:
            size = Frame(image.size, read_orientation(image)).upright
            # After the size was read: a draft changes the size that Pillow states,
            # and decodes a large JPEG faster.
            image.draft(None, (CHECKED_SIDE, CHECKED_SIDE))
            try:
                image.load()
            except OSError as error:
                _require_all_pixels(path, error)
            return size
    except FileNotFoundError:
        raise UsageError(
            f"there is no photograph '{path}'", "give the path of a JPEG or PNG file"
        ) from None
    except READ_ERRORS as error:
        raise UsageError(
            f"the photograph cannot be used: {describe_read_error(error)}",
            "give a JPEG or PNG file",
        ) from None


def _require_all_pixels(path: Path, error: OSError) -> None:
    """Raise the error of decoding a photograph, unless it lacks its end marker alone."""
    try:
        # The reader of a search completes a JPEG that lacks its end marker alone,
        # so such a photograph has an answer.
        load(path, CHECKED_SIDE)
    except StageError:
        raise error from None

"""Image files with damaged bytes, sizes that no memory holds, wrong names and cut ends."""

import io
import random
import struct
import zlib
from collections.abc import Iterator, Sequence
from functools import partial

from PIL import Image

from advisor.datasets.images import load
from tests.hostile.surfaces.ground import Case, Ground

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
EACH = 70  # Damages of each format


def cases(ground: Ground) -> Iterator[Case]:
    """Yield each format with changed bytes, mostly in its header; then bombs and other files under its name."""
    for form in FORMATS:
        content = _image(form)
        for number in range(EACH):
            yield f"{form} {number}", partial(_loaded, ground, form.lower(), _damaged(content, number))
        for other in FORMATS:
            yield f"{other} as {form}", partial(_loaded, ground, form.lower(), _image(other))
    for name, content in _odd().items():
        yield name, partial(_loaded, ground, name.partition(" ")[0], content)


def _image(form: str) -> bytes:
    held, draw = io.BytesIO(), random.Random(0)
    picture = Image.frombytes("RGB", (48, 32), draw.randbytes(48 * 32 * 3))
    picture.save(held, form)
    return held.getvalue()


def _damaged(content: bytes, number: int) -> bytes:
    draw, changed = random.Random(number), bytearray(content)
    for _ in range(draw.randint(1, 6)):
        changed[int(draw.random() ** 3 * len(changed))] = draw.choice((0, 255, 127, 128, draw.randrange(256)))
    return bytes(changed[: draw.randrange(len(changed))] if number % 4 == 0 else changed)


def _odd() -> dict[str, bytes]:
    def png(width: int, height: int) -> bytes:
        header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
        parts = ((b"IHDR", header), (b"IDAT", zlib.compress(bytes(100_000))), (b"IEND", b""))
        chunks = (struct.pack(">I", len(c)) + k + c + struct.pack(">I", zlib.crc32(k + c)) for k, c in parts)
        return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)

    return {
        "png bomb": png(2**31 - 1, 2**31 - 1), "png wide": png(2**24, 1), "png of no side": png(0, 0),
        "png large": png(60_000, 60_000), "jpg of text": b"not an image", "jpg empty": b"", "gif header": b"GIF89a",
        "svg script": b"<svg><script>1</script></svg>", "heic header": b"\0\0\0\x18ftypheic" + bytes(64),
        "webp header": b"RIFF\xff\xff\xff\xffWEBPVP8 ",
        "tiff loop": b"II*\0\x08\0\0\0\x01\0" + bytes(10) + b"\x08\0\0\0",
    }  # fmt: skip


def _loaded(ground: Ground, suffix: str, content: bytes) -> Sequence[str]:
    name = f"a.{suffix}"
    return ground.call(load, ground.fresh({name: content}) / name, 32)

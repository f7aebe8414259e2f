"""Archives with images that are damaged, lie, or lead out: each is read in part, or refused with a hint."""

import io
import os
import random
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from advisor.datasets import Survey, list_files
from advisor.isolation import IN_CHILD
from benchmarks.hostile_surfaces.damages import BROKEN
from benchmarks.hostile_surfaces.ground import Case, Ground
from tests.datasets.folders import image

BYTES = 110  # Archives of each kind with some bytes changed, or cut
NAMES = ("../x.jpg", "/etc/x.jpg", "cat/../../x.jpg", "cat\\..\\..\\x.jpg", "cat/\0.jpg", "", "a" * 5000 + "/1.jpg")
PIPES = ("a.zip", "b.tar", "c.parquet", "d.arrow", "e.tfrecord", "cat/f.jpg", "labels.csv", "metadata.jsonl")
LABELS = (*BROKEN, "a\nb", "\x85", "a" * 1001, "\ud800")
Files = Sequence[tuple[str, bytes]]


def jpeg(number: int) -> bytes:
    stored = io.BytesIO()
    image(number).save(stored, "JPEG")
    return stored.getvalue()


def in_folders() -> Files:
    """Return twelve images of two classes with their names."""
    return [(f"{('cat', 'dog')[number % 2]}/{number}.jpg", jpeg(number)) for number in range(12)]


def zipped(files: Files) -> bytes:
    stored = io.BytesIO()
    with zipfile.ZipFile(stored, "w") as file:
        for name, data in files:
            file.writestr(zipfile.ZipInfo(name), data)
    return stored.getvalue()


def tarred(files: Files) -> bytes:
    stored = io.BytesIO()
    with tarfile.open(fileobj=stored, mode="w") as file:
        for name, data in files:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            file.addfile(info, io.BytesIO(data))
    return stored.getvalue()


def labelled(labels: Mapping[int, bytes], extension: str = "cls") -> Files:
    files = list[tuple[str, bytes]]()
    for number in range(12):
        label = labels.get(number, b"cat" if number % 2 else b"dog")
        files += [(f"{number:04d}.jpg", jpeg(number)), (f"{number:04d}.{extension}", label)]
    return files


def records(labels: Sequence[int]) -> bytes:
    from tests.datasets.test_records import example, framed

    return b"".join(framed(example({"image": jpeg(number), "label": label})) for number, label in enumerate(labels))


KINDS: Mapping[str, Callable[[], bytes]] = {
    "a.zip": lambda: zipped(in_folders()),
    "a.tar": lambda: tarred(in_folders()),
    "b.tar": lambda: tarred(labelled({})),
    "a.tfrecord": lambda: records([0, 1] * 6),
}


def cases(ground: Ground) -> Iterator[Case]:
    """Yield archives of each kind with changed bytes, and those with names, labels and files that nobody means."""
    ground.set_variables({IN_CHILD: None})
    for name, make in KINDS.items():
        whole = make()
        for number in range(BYTES):
            yield f"{name}, bytes {number}", partial(_read, ground, {name: changed(whole, number)})
    for number, name in enumerate(NAMES):
        for kind, pack in (("zip", zipped), ("tar", tarred)):
            files = [*in_folders(), (name, jpeg(77))] if kind == "tar" or "\0" not in name else in_folders()
            yield f"{kind}, name {number}", partial(_read, ground, {f"a.{kind}": pack(files)})
    for kind, pack in (("zip", zipped), ("tar", tarred)):
        twice = [*in_folders(), *in_folders()[:3]]
        yield f"{kind}, names twice", partial(_read, ground, {f"a.{kind}": pack(twice)}, 9)
    for number, label in enumerate(LABELS):
        data = label.encode("utf-8", "surrogatepass")
        for extension in ("cls", "txt", "json"):
            content = b'{"label": "' + data + b'"}' if extension == "json" else data
            shard = tarred(labelled({0: content, 5: content}, extension))
            yield f"label {number} in .{extension}", partial(_read, ground, {"a.tar": shard})
    for name in PIPES:
        yield f"pipe {name}", partial(_read_beside_pipe, ground, name)


def changed(content: bytes, number: int) -> bytes:
    """Return a content with some bytes changed, lengths that lie, or its end cut off, drawn by a number."""
    draw, data = random.Random(number), bytearray(content)
    if number % 5 == 0:
        return bytes(data[: draw.randrange(len(data))])
    first, last = ((0, 600), (len(data) - 900, len(data)), (0, len(data)))[number % 3]
    for _ in range(draw.choice((1, 4, 30))):
        data[draw.randrange(max(0, first), min(last, len(data)))] = draw.randrange(256)
    if number % 7 == 0:
        place = draw.randrange(max(0, first), min(last, len(data)) - 4)
        data[place : place + 4] = struct.pack("<I", draw.choice((0, 2**31 - 1, 2**32 - 1)))
    return bytes(data)


def _read(ground: Ground, files: Mapping[str, bytes], images: int | None = None) -> Sequence[str]:
    place = ground.fresh(files)
    return ground.call_here(survey_set, place / next(iter(files)), images)


def _read_beside_pipe(ground: Ground, name: str) -> Sequence[str]:
    place = ground.fresh(dict(in_folders()))
    os.mkfifo(place / name)
    return ground.call_here(survey_set, place, 12)


def survey_set(path: Path, images: int | None = None) -> None:
    """Read a set: every entry is an image or has a reason; with ``images``, so many are used."""
    listing = list_files(path)
    dataset = Survey.read(listing).dataset
    assert len(dataset.images) + len(dataset.rejected) == len(listing.entries) + len(listing.rejected)
    assert all(row.reason for row in dataset.rejected)
    assert images in (None, len(dataset.images)), len(dataset.images)

"""Sets with boxes made for tests, in each format: real image files, small."""

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from PIL import Image

from tests.datasets.folders import image

SIZE = (64, 48)
Object = tuple[str, float, float, float, float]  # Label, left, top, right, bottom


@dataclass(frozen=True)
class Photo:
    """One image of a set: its name without extension, its boxes, its part and its stated size."""

    name: str
    objects: tuple[Object, ...] = ()
    part: str = ""
    size: tuple[int, int] = SIZE


def photos(count: int, *labels: str) -> list[Photo]:
    """Return images with one box of each label, which moves from image to image."""
    return [
        Photo(
            f"{n:03d}", tuple((label, 2 + n % 9 + 20 * k, 5, 18 + n % 9 + 20 * k, 30) for k, label in enumerate(labels))
        )
        for n in range(count)
    ]


def save(path: Path, seed: int = 0, size: tuple[int, int] = SIZE, orientation: int = 1) -> Path:
    """Write an image whose EXIF data say how it is stored."""
    path.parent.mkdir(parents=True, exist_ok=True)
    exif = Image.Exif()
    if orientation != 1:
        exif[0x0112] = orientation
    image(seed, size).save(path, exif=exif)
    return path


def _save_all(folder: Callable[[Photo], Path], made: Sequence[Photo]) -> None:
    for seed, photo in enumerate(made):
        save(folder(photo) / f"{photo.name}.jpg", seed, photo.size)


def xml(photo: Photo, more: str = "") -> str:
    """Return the annotation of an image as Pascal VOC."""
    objects = "".join(
        f"<object><name>{escape(label)}</name><bndbox>\n<xmin>{left}</xmin><ymin>{top}</ymin>"
        f"<xmax>{right}</xmax><ymax>{bottom}</ymax></bndbox></object>\n"
        for label, left, top, right, bottom in photo.objects
    )
    width, height = photo.size
    size = f"<size><width>{width}</width><height>{height}</height><depth>3</depth></size>"
    return f"<annotation>\n<filename>{photo.name}.jpg</filename>\n{size}\n{objects}{more}</annotation>\n"


def write_voc(root: Path, made: Sequence[Photo]) -> Path:
    """Write ``Annotations``, ``JPEGImages`` and, for images with parts, ``ImageSets/Main``."""
    _save_all(lambda _: root / "JPEGImages", made)
    for photo in made:
        write(root / "Annotations" / f"{photo.name}.xml", xml(photo))
    for part in sorted({photo.part for photo in made} - {""}):
        names = [photo.name for photo in made if photo.part == part]
        write(root / "ImageSets" / "Main" / f"{part}.txt", "\n".join(names) + "\n")
    return root


def coco(made: Sequence[Photo]) -> dict[str, list[dict[str, object]]]:
    """Return the content of a COCO file."""
    labels = sorted({label for photo in made for label, *_ in photo.objects})
    boxes = [(n, box) for n, photo in enumerate(made) for box in photo.objects]
    return {
        "images": [
            {"id": n, "file_name": f"{photo.name}.jpg", "width": photo.size[0], "height": photo.size[1]}
            for n, photo in enumerate(made)
        ],
        "categories": [{"id": 7 + n, "name": label} for n, label in enumerate(labels)],
        "annotations": [
            {"id": n, "image_id": image_id, "category_id": 7 + labels.index(label), "bbox": [a, b, c - a, d - b]}
            for n, (image_id, (label, a, b, c, d)) in enumerate(boxes)
        ],
    }


def write_coco(root: Path, made: Sequence[Photo]) -> Path:
    """Write ``annotations/instances_PART.json`` and the images in a folder for each part."""
    _save_all(lambda photo: root / (photo.part or "images"), made)
    for part in sorted({photo.part for photo in made}):
        name = f"instances_{part}.json" if part else "instances.json"
        write(root / "annotations" / name, json.dumps(coco([photo for photo in made if photo.part == part])))
    return root


def write_yolo(root: Path, made: Sequence[Photo]) -> Path:
    """Write ``images``, ``labels`` and ``data.yaml``, with a folder for each part."""
    _save_all(lambda photo: root / "images" / photo.part, made)
    labels = sorted({label for photo in made for label, *_ in photo.objects})
    for photo in made:
        width, height = photo.size
        rows = [
            f"{labels.index(label)} {(a + c) / 2 / width} {(b + d) / 2 / height} {(c - a) / width} {(d - b) / height}"
            for label, a, b, c, d in photo.objects
        ]
        write(root / "labels" / photo.part / f"{photo.name}.txt", "\n".join(rows) + "\n")
    write(root / "data.yaml", "names:\n" + "".join(f"  {n}: {json.dumps(label)}\n" for n, label in enumerate(labels)))
    return root


def write_table(root: Path, made: Sequence[Photo]) -> Path:
    """Write ``set.csv`` and the images beside it."""
    _save_all(lambda _: root, made)
    with (root / "set.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("path", "label", "xmin", "ymin", "xmax", "ymax", "split"))
        for photo in made:
            for one in photo.objects or (("", "", "", "", ""),):
                writer.writerow((f"{photo.name}.jpg", *one, photo.part))
    return root / "set.csv"


def write_without_dogs(root: Path) -> Path:
    """Write a table of three parts, of which only the part for training has dogs."""
    parts = ("train",) * 20 + ("val",) * 6 + ("test",) * 6
    made = [
        Photo(photo.name, photo.objects if part == "train" else photo.objects[:1], part)
        for photo, part in zip(photos(32, "cat", "dog"), parts, strict=True)
    ]
    return write_table(root, made)


WRITERS: Mapping[str, Callable[[Path, Sequence[Photo]], Path]] = {
    "voc": write_voc, "coco": write_coco, "yolo": write_yolo, "table": write_table,
}  # fmt: skip


def write(path: Path, text: str, encoding: str = "utf-8") -> Path:
    """Write a text file and its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding=encoding)
    return path

"""Boxes of images inside files are those of the same images in a folder."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from advisor.core import UsageError
from advisor.datasets import BoxSurvey, list_files, write_boxes
from advisor.datasets._boxes.inside import list_inside
from tests.builders import must_fail
from tests.datasets.boxes.writers import Photo, photos, write_coco
from tests.datasets.folders import refusal, tarred
from tests.datasets.test_records import example, written
from tests.datasets.test_sources import zipped
from tests.tables import with_cases

pa = pytest.importorskip("pyarrow", reason="pyarrow is an extra")
pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is an extra")

CLASSES = ("cat", "dog")
MADE = [*photos(5, "cat", "dog"), Photo("empty")]
Edges = Callable[[Sequence[float]], list[float]]
Data = Sequence[tuple[Photo, bytes]]


def coco_edges(box: Sequence[float]) -> list[float]:
    left, top, right, bottom = box
    return [left, top, right - left, bottom - top]


def objects(photo: Photo, edges: Edges = coco_edges) -> list[dict[str, Any]]:
    return [{"bbox": edges(box), "category": CLASSES.index(label)} for label, *box in photo.objects]


def table(path: Path, data: Data, edges: Edges = coco_edges, lists: bool = True) -> Path:
    """Write what ``datasets`` does: objects as lists of each field, or as a list of objects, and the size."""
    label = {"names": list(CLASSES), "_type": "ClassLabel"}
    fields = {
        "bbox": {"feature": {"dtype": "float32", "_type": "Value"}, "length": 4, "_type": "List"},
        "category": label,
    }
    features = {"image": {"_type": "Image"}, "objects": {"feature": fields, "_type": "Sequence"} if lists else [fields]}
    one = pa.struct([("bbox", pa.list_(pa.float64())), ("category", pa.int64())])
    several = pa.struct([("bbox", pa.list_(pa.list_(pa.float64()))), ("category", pa.list_(pa.int64()))])
    rows = [objects(photo, edges) for photo, _ in data]
    written_as = [{key: [each[key] for each in row] for key in ("bbox", "category")} for row in rows] if lists else rows
    columns = {
        "image": pa.array([{"bytes": image, "path": None} for _, image in data]),
        "width": pa.array([photo.size[0] for photo, _ in data]),
        "height": pa.array([photo.size[1] for photo, _ in data]),
        "objects": pa.array(written_as, several if lists else pa.list_(one)),
    }
    found = pa.table(columns).replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    pq.write_table(found, path)
    return path


def shard(path: Path, data: Data) -> Path:
    named = [[{"bbox": coco_edges(box), "category": label} for label, *box in photo.objects] for photo, _ in data]
    said = [json.dumps({"objects": rows}).encode() for rows in named]
    files = [
        (f"{n:06d}.{extension}", content)
        for n, ((_, image), rows) in enumerate(zip(data, said, strict=True))
        for extension, content in (("jpg", image), ("json", rows))
    ]
    return tarred(path, files)


def records(path: Path, data: Data) -> Path:
    pytest.importorskip("google_crc32c", reason="google-crc32c is an extra")
    path.with_name("objects-label.labels.txt").write_text("cat\ndog\n")

    def of(photo: Photo, image: bytes) -> bytes:
        width, height = photo.size
        corners = [
            (top / height, left / width, bottom / height, right / width)
            for _, left, top, right, bottom in photo.objects
        ]
        shares = [edge for box in corners for edge in box]
        return example(
            {
                "image": image,
                "objects/bbox": shares,
                "objects/label": [CLASSES.index(each[0]) for each in photo.objects],
            }
        )

    return written(path, [of(*each) for each in data])


WRITERS: dict[str, Callable[[Path, Data], Path]] = {
    "lists.parquet": table,
    "objects.parquet": lambda path, data: table(path, data, lists=False),
    "corners.parquet": lambda path, data: table(path, data, list),
    "a.tar": shard,
    "a-train.tfrecord-00000-of-00001": records,
}


@pytest.fixture
def folder(tmp_path: Path) -> tuple[BoxSurvey, Data]:
    """A set in a folder as it is read, and its images."""
    root = write_coco(tmp_path / "coco", MADE)
    data = [(photo, next(root.rglob(f"{photo.name}.jpg")).read_bytes()) for photo in MADE]
    return BoxSurvey.read_images(root), data


@pytest.mark.parametrize("name", WRITERS)
def test_boxes_in_a_file_are_those_of_a_folder(tmp_path: Path, folder: tuple[BoxSurvey, Data], name: str) -> None:
    plain, data = folder
    read = BoxSurvey.read_images(WRITERS[name](tmp_path / name, data))
    assert read.images.dataset.fingerprint == plain.images.dataset.fingerprint
    assert read.classes == CLASSES
    assert read.faults == ()
    assert read.count == 10


def test_a_folder_of_hugging_face_names_the_parts(tmp_path: Path, folder: tuple[BoxSurvey, Data]) -> None:
    (tmp_path / "data").mkdir()
    table(tmp_path / "data" / "train-00000-of-00001.parquet", folder[1][:4])
    table(tmp_path / "data" / "test-00000-of-00001.parquet", folder[1][4:])
    (tmp_path / "data" / "dataset_info.json").write_text('{"features": {}}')  # is no COCO file
    images = BoxSurvey.read_images(tmp_path / "data").images.dataset.images
    assert [image.part for image in images] == ["holdout"] * 2 + ["train"] * 4


def test_a_cleaned_table_names_images_inside_the_file(tmp_path: Path, folder: tuple[BoxSurvey, Data]) -> None:
    read = BoxSurvey.read_images(table(tmp_path / "a.parquet", folder[1]))
    write_boxes(tmp_path / "cleaned.csv", read, ())
    assert BoxSurvey.read_images(tmp_path / "cleaned.csv").images.dataset.fingerprint == read.images.dataset.fingerprint


def test_what_is_no_box_or_class_is_left_out_with_its_reason(tmp_path: Path, folder: tuple[BoxSurvey, Data]) -> None:
    wrong = [([1, 2, 3], 0), ([1, 2, 30, 30], 7), ([1, 2, None, 30], 1), ([5, 5, 20, 20], 1)]
    rows = [[{"bbox": edges, "category": label} for edges, label in wrong], objects(folder[1][0][0])]
    path = table(tmp_path / "a.parquet", folder[1][:2], lists=False)
    found = pq.read_table(path)
    pq.write_table(found.set_column(3, "objects", pa.array(rows, found.schema.field("objects").type)), path)
    read = BoxSurvey.read_images(path)
    assert [(fault.place, fault.reason) for fault in read.faults] == [
        ("object 1 of '0000000'", "an edge is missing or not a number"),
        ("object 2 of '0000000'", "no label"),
        ("object 3 of '0000000'", "an edge is missing or not a number"),
    ]
    assert read.count == 3


def test_a_sample_without_objects_is_left_out(tmp_path: Path, folder: tuple[BoxSurvey, Data]) -> None:
    image = folder[1][0][1]
    files = [("1.json", b'{"objects": [{"bbox": [2, 2, 20, 20], "category": "cat"}]}')]
    files += [("3.json", b"[1"), ("4.json", b'{"objects": "cat"}')]
    files += [(f"{number}.jpg", image) for number in range(1, 5)]
    read = BoxSurvey.read_images(tarred(tmp_path / "a.tar", sorted(files)))
    assert [(row.path.name, row.reason) for row in read.images.dataset.rejected] == [
        (name, "no JSON file with its objects (objects or annotations)") for name in ("2.jpg", "3.jpg", "4.jpg")
    ]


@with_cases
def test_a_file_without_boxes_is_refused(tmp_path: Path, folder: tuple[BoxSurvey, Data], name: str, said: str) -> None:
    image, path = folder[1][0][1], tmp_path / name
    if name == "a.parquet":
        pq.write_table(pa.table({"image": [image], "label": ["cat"]}), path)
    elif name == "a.zip":
        zipped(path, [("cat", image)])
    else:
        pytest.importorskip("google_crc32c", reason="google-crc32c is an extra")
        written(path, [example({"image": image, "label": 1})])
    assert said in refusal(BoxSurvey.read_images, path).message


def test_without_stated_sizes_edges_are_those_of_coco(tmp_path: Path, folder: tuple[BoxSurvey, Data]) -> None:
    path = table(tmp_path / "a.parquet", folder[1])
    pq.write_table(pq.read_table(path).drop_columns(["width", "height"]), path)
    assert BoxSurvey.read_images(path).images.dataset.fingerprint == folder[0].images.dataset.fingerprint
    must_fail(UsageError, "has no column 'label'", list_files, path)
    assert len(list_inside(path).entries) == len(MADE)

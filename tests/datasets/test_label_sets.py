"""Images with any number of labels: how tables of them are read, and how they are divided."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from advisor.core import AmbiguousInput, UsageError
from advisor.datasets import LabelSetSurvey, deal_out
from advisor.engine import resolve
from advisor.tasks.classification._images import read as read_classes
from tests.builders import must_fail
from tests.makers.label_sets import COUNT, RNG, labels_of, mark_labels, write_images, write_table
from tests.tables import with_cases


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_images(tmp_path_factory.mktemp("images"))


def read_rows(images: Path, rows: Callable[[int], str], header: str = "path,labels") -> LabelSetSurvey:
    return LabelSetSurvey.read_images(write_table(images, rows, header))


@with_cases
def test_tables_of_any_kind_say_the_same(images: Path, header: str, separator: str, end: str) -> None:
    def write_row(number: int) -> str:
        labels = labels_of(number)
        if separator:
            cell = separator.format(number=number).join(labels)
            return end.replace("@", cell) if "@" in end else end + cell + end
        marks = {"marks": mark_labels(number), "minus": mark_labels(number, no="-1")}
        return marks.get(end) or '"' + str(labels).replace("'", '""') + '"'

    read = LabelSetSurvey.read_images(write_table(images, write_row, header))
    assert read.classes == ("b", "g", "r")
    expected = [[int(name in labels_of(number)) for name in "bgr"] for number in range(COUNT)]
    assert read.truth.tolist() == expected


def test_an_image_in_several_class_folders_has_several_labels(images: Path, tmp_path: Path) -> None:
    for number in range(1, COUNT):
        for place, name in enumerate(labels_of(number)):
            (tmp_path / name).mkdir(exist_ok=True)
            # Links and copies say the same.
            put = os.symlink if number % 2 else shutil.copy
            put(images / f"{number:02}.png", tmp_path / name / f"{place}-{number}.png")
    read = LabelSetSurvey.read_images(tmp_path)
    assert read.counts == {"b": 28, "g": 30, "r": 30}
    assert len(read.truth) == sum(bool(labels_of(number)) for number in range(COUNT))
    question = resolve({"data": str(tmp_path)}).question
    asked = must_fail(AmbiguousInput, "29 of 52 images are in several classes", read_classes, question, print)
    assert [reading.shown.partition(" ")[0] for reading in asked.readings] == ["--task", "--data"]


@pytest.mark.parametrize("numbers", [True, False])
def test_tables_of_hugging_face_have_lists_of_labels(images: Path, tmp_path: Path, numbers: bool) -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is an extra")
    pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is an extra")
    rows = [["rgb".index(name) if numbers else name for name in labels_of(number)] for number in range(COUNT)]
    paths = [images / f"{number:02}.png" for number in range(COUNT)]
    labels = {"feature": {"names": list("rgb"), "_type": "ClassLabel"}, "_type": "Sequence"}
    facts = {"huggingface": json.dumps({"info": {"features": {"labels": labels}}})}
    inside = pa.table({"image": [{"bytes": path.read_bytes()} for path in paths], "labels": rows})
    for part, half in (("train", inside[:40]), ("test", inside[40:])):
        pq.write_table(half.replace_schema_metadata(facts), tmp_path / f"{part}-00000-of-00001.parquet")
    read = LabelSetSurvey.read_images(tmp_path)
    assert read.counts == {"b": 28, "g": 30, "r": 30}
    assert [len(part) for part in (read.divide_images(0).split.holdout, read.truth)] == [20, 60]
    pq.write_table(pa.table({"path": list(map(str, paths)), "labels": rows}), tmp_path / "x.pq")
    counts = LabelSetSurvey.read_images(tmp_path / "x.pq").counts.values()
    assert list(counts) == ([30, 30, 28] if numbers else [28, 30, 30])
    bits = [[number >> bit & 1 for bit in range(3)] for number in range(COUNT)]
    pq.write_table(pa.table({"image": inside["image"], "labels": bits}), tmp_path / "y.parquet")
    assert LabelSetSurvey.read_images(tmp_path / "y.parquet").counts == {"0": 30, "1": 30, "2": 28}


@with_cases
def test_tables_that_say_too_little_are_refused(
    images: Path, header: str, row: str, fifth: str | None, message: str, hint: str
) -> None:
    def write_row(number: int) -> str:
        many = "|".join(str(number * 20 + label) for label in range(20))
        return (row if fifth is None or number != 5 else fifth).format(number=number, odd=number % 2, many=many)

    refused = must_fail(UsageError, message, LabelSetSurvey.read_images, write_table(images, write_row, header))
    assert refused.hint.startswith(hint)


def test_unknown_labels_contradictions_and_many_labels_are_read(images: Path) -> None:
    read = read_rows(images, lambda n: "," if n < 9 else f"{n % 2},{n % 3 % 2}", "path,r,g")
    assert read.truth.shape == (51, 2)
    assert {row.reason for row in read.images.dataset.rejected} == {"none of its labels is known"}
    for cells, last in (("a|b\n00.png,b|c", 3), ("a\n00.png,", 3), ("a\n00.png,a\n00.png,a|b", 4)):
        read = read_rows(images, lambda n, first=cells: first if n == 0 else "a" if n % 2 else "b|c")
        assert f"rows 2 and {last} of 'tags.csv' give it different labels" in read.images.dataset.rejected[0].reason
    many = read_rows(images, lambda n: "|".join(f"{(14 * n + k) % 200:03}" for k in range(14)))
    assert len(many.classes) == 200
    assert read_rows(images, lambda n: "Cat" if n % 2 else "cat").lookalikes == (("Cat", "cat"),)


def test_parts_get_their_share_of_each_label_in_whole_groups(images: Path) -> None:
    truth = (RNG(0).random((900, 12)) < np.linspace(0.02, 0.4, 12)).astype(np.int8)
    groups = RNG(1).integers(0, 300, 900)
    part = deal_out(truth, groups.tolist(), [str(number) for number in range(900)], [0.6, 0.2, 0.2], 0)
    assert all(len(set(part[groups == group])) == 1 for group in range(300) if (groups == group).any())
    shares = np.array([truth[part == place].sum(axis=0) / truth.sum(axis=0) for place in range(3)])
    assert abs(shares - np.array([[0.6], [0.2], [0.2]])).max() < 0.1
    read = LabelSetSurvey.read_images(write_table(images, lambda n: "|".join(labels_of(n))))
    split = read.divide_images(0).split
    assert sorted((*split.train, *split.validation, *split.holdout)) == list(range(COUNT))

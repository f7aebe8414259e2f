from __future__ import annotations

import resource
from pathlib import Path

import pytest

from advisor.core.errors import UsageError
from advisor.datasets.boxes.reading import survey_boxes
from advisor.datasets.checks.boxes import check_boxes
from advisor.datasets.checks.findings import Kind
from advisor.datasets.checks.fix import writable, write_boxes, write_manifest
from advisor.datasets.duplicates import near_duplicates
from advisor.datasets.survey import survey
from tests.datasets.boxes.writers import Photo, photos, save, write, write_table, xml
from tests.datasets.folders import fill, make


def test_what_is_written_is_read_back_without_what_was_left_out(tmp_path: Path) -> None:
    dataset = survey(make(tmp_path / "data", cat=9, dog=9)).dataset
    (tmp_path / "lists").mkdir()
    out = {dataset.images[3].path, dataset.images[12].path}
    assert write_manifest(tmp_path / "lists" / "fixed.csv", dataset, out) == 16
    again = survey(tmp_path / "lists" / "fixed.csv").dataset
    assert [image.sha256 for image in again.images] == [p.sha256 for p in dataset.images if p.path not in out]
    assert again.labels == tuple(p.label for p in dataset.images if p.path not in out)


def test_parts_and_groups_are_kept(tmp_path: Path) -> None:
    make(tmp_path / "data" / "train", cat=9, dog=9)
    make(tmp_path / "data" / "test", cat=8, dog=8)
    dataset = survey(tmp_path / "data").dataset
    write_manifest(tmp_path / "fixed.tsv", dataset, set())
    again = survey(tmp_path / "fixed.tsv").dataset
    assert [image.part for image in again.images] == [image.part for image in dataset.images]


def test_odd_names_survive(tmp_path: Path) -> None:
    root = make(tmp_path / "data", **{'a "b", c': 8, "=1+1": 8})
    fill(root / 'a "b", c' / "x,y\nz", 1)
    dataset = survey(root).dataset
    write_manifest(tmp_path / "fixed.csv", dataset, set())
    assert survey(tmp_path / "fixed.csv").dataset.fingerprint == dataset.fingerprint


@pytest.mark.parametrize(("name", "message"), [("a.xlsx", "CSV"), ("there.csv", "exists"), ("gone/a.csv", "folder")])
def test_where_it_cannot_go_is_said_before_anything_is_done(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "there.csv").touch()
    with pytest.raises(UsageError, match=message):
        writable(tmp_path / name)


def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path) -> None:
    dataset = survey(make(tmp_path / "data", cat=40, dog=40)).dataset
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(UsageError, match="cannot be written"):
            write_manifest(tmp_path / "fixed.csv", dataset, set())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert {path.name for path in tmp_path.iterdir()} == {"data"}


def test_boxes_are_written_without_the_suspects_and_read_back(tmp_path: Path) -> None:
    repeated = (("cat", 5.25, 5, 40, 40), ("cat", 5.25, 5, 40, 40), ("dog", 10, 10, 11, 30), ("dog", 50, 5, 90, 20))
    made = [*photos(4, "cat"), Photo("a", repeated, "test"), Photo("empty", (), "train")]
    read = survey_boxes(write_table(tmp_path, made))
    assert write_boxes(tmp_path / "fixed.csv", read, check_boxes(read, ())) == 6
    again = survey_boxes(tmp_path / "fixed.csv")
    kept = {image.path.stem: boxes for image, boxes in zip(again.images.dataset.images, again.boxes, strict=True)}
    assert [(box.label, *box.edges) for box in kept["a"]] == [("cat", 5.25, 5, 40, 40), ("dog", 50, 5, 64, 20)]
    assert kept["empty"] == ()
    assert {image.part for image in again.images.dataset.images} == {"", "holdout", "train"}
    assert not {Kind.REPEATED_BOXES, Kind.TINY, Kind.OUTSIDE} & {finding.kind for finding in check_boxes(again, ())}


def test_a_box_with_two_faults_is_left_out_once(tmp_path: Path) -> None:
    read = survey_boxes(write_table(tmp_path, [*photos(2, "cat"), Photo("a", (("cat", 5, 5, 7, 40),) * 2)]))
    write_boxes(tmp_path / "fixed.csv", read, check_boxes(read, ()))
    assert survey_boxes(tmp_path / "fixed.csv").boxes[2] == ()


def test_left_out_images_are_not_in_the_table(tmp_path: Path) -> None:
    table = write_table(tmp_path, photos(3, "cat"))
    (tmp_path / "002.jpg").write_bytes((tmp_path / "001.jpg").read_bytes())
    read = survey_boxes(table)
    findings = check_boxes(read, near_duplicates(read.images.thumbnails))
    assert write_boxes(tmp_path / "fixed.csv", read, findings) == 2


def test_turned_boxes_are_written_upright(tmp_path: Path) -> None:
    save(tmp_path / "a.jpg", orientation=6)
    write(tmp_path / "a.xml", xml(Photo("a", (("cat", 40, 5, 60, 40),))))
    read = survey_boxes(tmp_path)
    (tmp_path / "a.xml").unlink()
    write_boxes(tmp_path / "fixed.csv", read, ())
    assert survey_boxes(tmp_path / "fixed.csv").boxes[0][0].edges == read.boxes[0][0].edges == (8, 40, 43, 60)

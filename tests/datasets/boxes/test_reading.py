from __future__ import annotations

from pathlib import Path

import pytest

from advisor.core.errors import UsageError
from advisor.datasets.boxes.reading import survey_boxes
from tests.datasets.boxes.writers import Photo, photos, save, write, write_table, write_voc


def test_a_box_over_the_edge_is_clipped_and_kept_as_written(tmp_path: Path) -> None:
    made = [Photo("a", (("cat", -5, 10, 20, 60), ("cat", 10, 10, 64.8, 30))), *photos(2, "cat")]
    read = survey_boxes(write_table(tmp_path, made))
    assert [box.edges for box in read.boxes[0]] == [(0, 10, 20, 48), (10, 10, 64, 30)]
    assert [box.edges for box in read.outside[0]] == [(-5, 10, 20, 60)]


def test_a_box_beside_the_image_is_left_out(tmp_path: Path) -> None:
    read = survey_boxes(write_table(tmp_path, [Photo("a", (("cat", 70, 10, 90, 30),)), *photos(2, "cat")]))
    assert [(fault.path.name, fault.place, fault.reason) for fault in read.faults] == [
        ("a.jpg", "row 2 of 'set.csv'", "it is outside its image")
    ]


def test_classes_have_their_most_frequent_spelling(tmp_path: Path) -> None:
    made = [*photos(5, "cat"), Photo("a", (("Cat ", 5, 5, 20, 20),))]
    read = survey_boxes(write_table(tmp_path, made))
    assert read.classes == ("cat",)
    assert read.spellings == (("Cat ", "cat"),)
    assert read.boxes[5][0].label == "cat"


def test_the_fingerprint_follows_the_boxes_and_not_the_place(tmp_path: Path) -> None:
    made = photos(3, "cat")
    prints = {
        name: survey_boxes(write(tmp_path / name, some)).images.dataset.fingerprint
        for name, write, some in (
            ("a", write_table, made),
            ("b", write_voc, made),
            ("c", write_table, [*made[:2], Photo("002", (("cat", 4, 5, 21, 30),))]),
        )
    }
    assert prints["a"] == prints["b"] != prints["c"]


def test_a_set_without_a_usable_box_is_refused_with_an_example(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no box that can be used; row 2 of 'set.csv': no width") as caught:
        survey_boxes(write_table(tmp_path, [Photo("a", (("cat", 5, 5, 5, 20),))]))
    assert caught.value.hint


def test_a_set_of_missing_images_is_refused_with_an_example(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"'gone\.jpg': cannot be read"):
        survey_boxes(write(tmp_path / "a.csv", "path,label,xmin,ymin,xmax,ymax\ngone.jpg,cat,1,2,3,4\n"))


def test_progress_counts_every_image(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    survey_boxes(write_table(tmp_path, photos(3, "cat")), lambda done, total: calls.append((done, total)))
    assert calls == [(1, 3), (2, 3), (3, 3)]


def test_a_bomb_beside_the_images_is_left_out(tmp_path: Path) -> None:
    from PIL import Image

    table = write_table(tmp_path, photos(3, "cat"))
    Image.new("1", (30_000, 30_000)).save(tmp_path / "000.jpg", format="PNG")
    assert "bomb" in survey_boxes(table).images.dataset.rejected[0].reason


def test_an_image_whose_orientation_is_nonsense_is_upright(tmp_path: Path) -> None:
    save(tmp_path / "a.jpg", orientation=77)
    read = survey_boxes(write(tmp_path / "a.csv", "path,label,xmin,ymin,xmax,ymax\na.jpg,cat,1,2,30,40\n"))
    assert read.sizes == ((64, 48),)

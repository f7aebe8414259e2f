from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from advisor.core import UsageError
from advisor.datasets import BoxSurvey, Division, SplitPart
from advisor.datasets._boxes import entries, list_boxes, voc as xmlfile
from advisor.datasets._boxes.voc import read_xml
from advisor.datasets._strata import LEAST, list_strata, make_stratifier
from tests.builders import must_fail
from tests.datasets.boxes.writers import Photo, photos, save, write, write_table, write_voc
from tests.tables import with_cases

HEADER = "path,label,xmin,ymin,xmax,ymax"
CONTENTS = st.lists(
    st.dictionaries(st.sampled_from("abcd"), st.integers(1, 30), max_size=3).map(lambda found: Counter(found)),
    min_size=1,
)


def test_a_box_over_the_edge_is_clipped_and_kept_as_written_and_one_beside_the_image_left_out(tmp_path: Path) -> None:
    made = [Photo("a", (("cat", -5, 10, 20, 60), ("cat", 10, 10, 64.8, 30))), *photos(2, "cat")]
    read = BoxSurvey.read_images(write_table(tmp_path, made))
    assert [box.edges for box in read.boxes[0]] == [(0, 10, 20, 48), (10, 10, 64, 30)]
    assert [box.edges for box in read.outside[0]] == [(-5, 10, 20, 60)]
    read = BoxSurvey.read_images(write_table(tmp_path, [Photo("a", (("cat", 70, 10, 90, 30),)), *photos(2, "cat")]))
    assert [(fault.path.name, fault.place, fault.reason) for fault in read.faults] == [
        ("a.jpg", "row 2 of 'set.csv'", "it is outside its image")
    ]


def test_classes_have_their_most_frequent_spelling(tmp_path: Path) -> None:
    made = [*photos(5, "cat"), Photo("a", (("Cat ", 5, 5, 20, 20),))]
    read = BoxSurvey.read_images(write_table(tmp_path, made))
    assert read.classes == ("cat",)
    assert read.spellings == (("Cat ", "cat"),)
    assert read.boxes[5][0].label == "cat"


def test_the_fingerprint_follows_the_boxes_and_not_the_place(tmp_path: Path) -> None:
    made = photos(3, "cat")
    prints = {
        name: BoxSurvey.read_images(write(tmp_path / name, some)).images.dataset.fingerprint
        for name, write, some in (
            ("a", write_table, made),
            ("b", write_voc, made),
            ("c", write_table, [*made[:2], Photo("002", (("cat", 4, 5, 21, 30),))]),
        )
    }
    assert prints["a"] == prints["b"] != prints["c"]


def test_a_set_without_a_usable_box_or_image_is_refused_with_an_example(tmp_path: Path) -> None:
    path = write_table(tmp_path, [Photo("a", (("cat", 5, 5, 5, 20),))])
    must_fail(UsageError, r"no box that can be used; row 2 of 'set.csv': no width", BoxSurvey.read_images, path)
    with pytest.raises(UsageError, match=r"'gone\.jpg': cannot be read"):
        BoxSurvey.read_images(write(tmp_path / "a.csv", "path,label,xmin,ymin,xmax,ymax\ngone.jpg,cat,1,2,3,4\n"))


def test_an_image_whose_orientation_is_nonsense_is_upright(tmp_path: Path) -> None:
    save(tmp_path / "a.jpg", orientation=77)
    read = BoxSurvey.read_images(write(tmp_path / "a.csv", "path,label,xmin,ymin,xmax,ymax\na.jpg,cat,1,2,30,40\n"))
    assert read.sizes == ((64, 48),)


@with_cases
def test_a_wrong_row_is_counted_with_its_number(tmp_path: Path, row: str, reason: str) -> None:
    table = write_table(tmp_path, photos(4, "cat", "dog"))
    listing = list_boxes(write(table, f"{table.read_text()}{row}\n"))
    assert [(fault.place, fault.reason) for fault in listing.faults] == [("row 10 of 'set.csv'", reason)]
    assert sum(len(entry.boxes) for entry in listing.entries) == 8


def test_shares_are_known_by_their_majority_and_pixels_among_them_are_counted(tmp_path: Path) -> None:
    rows = [f"{n}.jpg,cat,0.25,0.25,0.75,0.5" for n in range(4)]
    for n in range(4):
        save(tmp_path / f"{n}.jpg", n)
    read = BoxSurvey.read_images(write(tmp_path / "a.csv", "\n".join([HEADER, *rows, "0.jpg,cat,10,10,30,30"])))
    assert read.boxes[0][0].edges == (16.0, 12.0, 48.0, 24.0)
    assert [fault.reason for fault in read.faults] == ["pixels, where coordinates from 0 to 1 are expected"]


def test_other_names_of_columns_the_stated_size_and_groups_are_read(tmp_path: Path) -> None:
    save(tmp_path / "a.jpg")
    text = "filename,width,height,class,xmin,ymin,xmax,ymax,group\na.jpg,64,48,cat,1,2,30,40,visit 3\n"
    (entry,) = list_boxes(write(tmp_path / "a.csv", text)).entries
    assert (entry.size, entry.boxes[0].label, entry.group) == ((64, 48), "cat", "visit 3")


@with_cases
def test_a_table_that_contradicts_itself_is_refused_with_the_row(tmp_path: Path, text: str, message: str) -> None:
    must_fail(UsageError, message, list_boxes, write(tmp_path / "a.csv", text))


def test_an_image_of_too_many_boxes_is_left_out_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "MAX_BOXES", 3)
    rows = ["a.jpg,cat,1,2,30,40"] * 3 + ["b.jpg,cat,1,2,30,40"] * 4
    for name in ("a.jpg", "b.jpg"):
        save(tmp_path / name)
    listing = list_boxes(write(tmp_path / "a.csv", "\n".join([HEADER, *rows])))
    assert [len(entry.boxes) for entry in listing.entries] == [3]
    assert [row.reason for row in listing.rejected] == ["4 boxes of 'b.jpg', above the limit of 3"]


def test_elements_have_their_text_and_line_in_any_encoding(tmp_path: Path) -> None:
    root = read_xml(write(tmp_path / "a.xml", "<a>\n<b> one </b>\n<b>\n<c/>two</b></a>"))
    assert [(one.line, one.text) for one in root.find_all("b")] == [(2, "one"), (3, "two")]
    assert root.find_first("d").text == ""
    (tmp_path / "a.xml").write_bytes('<?xml version="1.0" encoding="latin-1"?><a>Müll</a>'.encode("latin-1"))
    assert read_xml(tmp_path / "a.xml").text == "Müll"


@with_cases
def test_what_is_no_plain_xml_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    must_fail(ValueError, message, read_xml, write(tmp_path / "a.xml", text))


def test_a_long_text_in_xml_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="line 2: a text of more than 16,384 characters"):
        read_xml(write(tmp_path / "a.xml", "<a>\n<b>" + "x" * 20_000 + "</b></a>"))


@pytest.mark.parametrize(
    ("limit", "kind", "message"),
    [("MAX_ELEMENTS", ValueError, "more than 10 elements"), ("MAX_BYTES", UsageError, "larger than")],
)
def test_elements_and_bytes_are_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, kind: type[Exception], message: str
) -> None:
    monkeypatch.setattr(xmlfile, limit, 10)
    must_fail(kind, message, read_xml, write(tmp_path / "a.xml", "<a>" + "<b/>" * 10 + "</a>"))


def _of(
    *contents: tuple[int, dict[str, int]], groups: list[int] | None = None, parts: list[str] | None = None
) -> Counter[str]:
    made = [Counter(content) for count, content in contents for _ in range(count)]
    return Counter(list_strata(made, groups or range(len(made)), parts or [""] * len(made)))


@with_cases
def test_images_take_their_rarest_class(contents: list[tuple[int, dict[str, int]]], expected: dict[str, int]) -> None:
    assert _of(*contents) == expected


def test_a_stratum_of_few_groups_or_without_a_part_of_the_users_split_is_joined() -> None:
    groups = [*range(50), *[50] * 20]
    parts = ["train"] * 25 + ["holdout"] * 25 + ["train"] * 20
    for own in (_of((50, {"a": 1}), (20, {"b": 1}), groups=groups), _of((50, {"a": 1}), (20, {"b": 1}), parts=parts)):
        assert own == {"a, few boxes": 70}


@given(CONTENTS)
def test_each_image_has_a_stratum_and_small_ones_stand_alone_only(contents: list[Counter[str]]) -> None:
    found = Counter(list_strata(contents, range(len(contents)), [""] * len(contents)))
    assert found.total() == len(contents)
    assert len(found) == 1 or min(found.values()) >= LEAST


def test_a_drawn_split_has_a_share_of_each_class_and_of_crowded_images_in_each_part(tmp_path: Path) -> None:
    def objects(n: int) -> tuple[tuple[str, float, float, float, float], ...]:
        boxes = 12 if n % 5 == 0 else 1
        label = "rare" if n % 6 == 0 else "common"
        return tuple((label if k == 0 else "common", 4 * k, 3.0, 4 * k + 9, 30.0) for k in range(boxes))

    made = [Photo(f"{n * 7919 % 997:03d}", objects(n)) for n in range(120)]
    read = BoxSurvey.read_images(write_table(tmp_path, made))
    found = Division.of_survey(read.images, 0, (), make_stratifier(read.images.dataset, read.contents)).split
    for part in SplitPart:
        contents = [read.contents[index] for index in getattr(found, part)]
        assert 0.12 < sum("rare" in content for content in contents) / len(contents) < 0.22
        assert 0.15 < sum(content.total() == 12 for content in contents) / len(contents) < 0.25


def test_frames_of_one_film_stay_in_one_part_although_their_boxes_differ(tmp_path: Path) -> None:
    made = [Photo(f"f{n:03d}", (("a" if n % 2 else "b", 2.0, 3.0, 9.0 + n % 20, 30.0),)) for n in range(60)]
    table = write_table(tmp_path, made)
    rows = table.read_text().splitlines()
    film = lambda row: f"film {int(row[1:4]) // 5}"  # noqa: E731
    table.write_text("\n".join([f"{rows[0]},group", *(f"{row},{film(row)}" for row in rows[1:])]))
    read = BoxSurvey.read_images(table)
    found = Division.of_survey(read.images, 0, (), make_stratifier(read.images.dataset, read.contents)).split
    films = [{read.images.dataset.images[i].group for i in getattr(found, part)} for part in SplitPart]
    assert not films[0] & films[1]
    assert not films[2] & (films[0] | films[1])
    assert sum(map(len, films)) == 12

"""The contact sheet in a real browser, and what the terminal says of a data set."""

import io
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from advisor.cli._search import FAULT_COLUMNS, make_fault_row
from advisor.engine import DataCheck
from advisor.engine._data_check import check_images
from advisor.reporting import Rows, _data_check as sheet, render
from advisor.reporting._data_check import SAMPLES, choose_samples, make_sections
from advisor.tasks.detection import DETECTION
from tests.datasets.boxes.writers import Photo, photos, save, write_table
from tests.datasets.folders import make
from tests.makers.browsers import Open
from tests.tables import with_cases

pytestmark = pytest.mark.integration

EVIL = "<script>alert(1)\u202e"  # a script, and a sign that turns the text behind it


@pytest.fixture
def checked(tmp_path: Path) -> DataCheck:
    """A set with copies and an unreadable file, in a class whose name is a script."""
    root = make(tmp_path / "data", **{EVIL: 9, "cat": 9})
    shutil.copy(root / "cat" / "100.jpg", root / "cat" / '" onerror="alert(2).jpg')
    (root / "cat" / "broken.jpg").touch()
    return check_images(root, None)


def test_only_so_many_are_shown_and_the_rest_is_counted(checked: DataCheck, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sheet, "MEMBERS", 1)
    copies = next(section for section in make_sections(checked) if section["finding"].kind == "exact duplicates")
    assert [len(group["images"]) for group in copies["groups"]] == [1]
    assert copies["groups"][0]["more"] == 1
    assert "and 1 more" in render(checked)
    assert "\u202e" not in re.sub('<bdi>.*?</bdi>|alt=".*?"', "", render(checked)), "it turns a sentence"


def terminal(checked: DataCheck, width: int = 120, **options: Any) -> str:
    stream = io.StringIO()
    sheet.print_data_check(checked, Path("sheet.html"), console=Console(file=stream, width=width), **options)
    return stream.getvalue()


@with_cases
def test_many_classes_are_counted_by_their_range(tmp_path: Path, extra: int, said: str) -> None:
    root = make(tmp_path / "data", c0=4 + extra, **{f"c{number}": 4 for number in range(1, 21)})
    assert said in terminal(check_images(root, None))


def test_findings_are_sorted_and_filtered(checked: DataCheck) -> None:
    shown = Rows(FAULT_COLUMNS, make_fault_row).select("-images", ["found!=exact*"]).of(checked.findings)
    assert len(shown) == len(checked.findings) - 1
    assert shown == tuple(sorted(shown, key=lambda finding: len(finding.images), reverse=True))
    assert "No problems found" not in terminal(checked, shown=shown)


@pytest.fixture
def boxed(tmp_path: Path) -> DataCheck:
    """A set with boxes: a class whose name is a script, a rotated photo, a copy, and a repeated box."""
    repeated = Photo("repeated", ((EVIL, 5, 5, 40, 40),) * 2)
    others = [repeated, Photo("copy", ((EVIL, 5, 5, 40, 40),)), Photo("bad", ((EVIL, 9, 9, 5, 5),))]
    table = write_table(tmp_path / "boxes", [*photos(20, EVIL, "cat"), *others])
    save(table.parent / "019.jpg", 19, orientation=6)
    shutil.copy(table.parent / "000.jpg", table.parent / "copy.jpg")
    return check_images(table, None, task=DETECTION.name)


def test_the_page_shows_suspects_below_their_boxes_and_asks_for_nothing(open_html: Open, boxed: DataCheck) -> None:
    opened = open_html(render(boxed), offline=True)
    copies = opened.page.locator("section", has_text="exact duplicates")
    images = copies.locator("img")
    assert images.count() == 2
    assert images.last.evaluate("async image => (await image.decode(), image.naturalWidth)")
    assert copies.locator(".out").count() == 1
    figure = opened.page.locator("section", has_text="repeated boxes").locator("figure")
    image, drawing = (figure.locator(part).bounding_box() for part in ("img", "svg"))
    assert image == drawing
    assert figure.locator("path.marked").count() == 1
    assert opened.page.locator("#samples figure").count() == SAMPLES
    assert EVIL in opened.page.locator("#samples .lead").inner_text()
    for width in (1280, 390):
        opened.page.set_viewport_size({"width": width, "height": 800})
        opened.until_it_fits()
    assert opened.complaints == []


def test_photos_that_are_stored_rotated_are_shown_first(boxed: DataCheck) -> None:
    assert [path.stem for path in choose_samples(boxed)][:2] == ["019", "000"]


@pytest.mark.parametrize("width", [80, 120])
def test_the_terminal_shows_boxes_and_sizes(boxed: DataCheck, width: int) -> None:
    output = terminal(boxed, width)
    shown = " ".join(output.split())
    assert "23 images, 43 boxes in 2 classes: <script>alert(1)\ufffd 23, cat 20" in shown
    assert "under 8 px %" in shown
    assert "the same command with --fix cleaned.csv" in shown
    assert max(map(len, output.splitlines())) <= width

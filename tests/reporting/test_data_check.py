"""The contact sheet in a real browser: it opens offline, shows the pictures, and runs nothing out of a name."""

import io
import shutil
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from advisor.engine.data_check import DataCheck, check_data
from advisor.reporting import data_check as sheet
from advisor.reporting.data_check import SAMPLES, render, samples, sections
from advisor.tasks import DETECTION
from tests.datasets.boxes.writers import Photo, photos, save, write_table
from tests.datasets.folders import make
from tests.makers.browsers import Open

PLACE = """path => {
    const inside = path.getBBox(), to = path.getScreenCTM();
    const frame = path.closest(".picture").querySelector("img").getBoundingClientRect();
    const across = x => (x * to.a + to.e - frame.x) / frame.width;
    const down = y => (y * to.d + to.f - frame.y) / frame.height;
    return [across(inside.x), across(inside.x + inside.width), down(inside.y), down(inside.y + inside.height)];
}"""
"""Left, right, top and bottom of a path, in shares of the square that the image is centred in."""

EVIL = "<script>alert(1)"


@pytest.fixture
def checked(tmp_path: Path) -> DataCheck:
    """A set with copies and an unreadable file, in a class whose name is a script."""
    root = make(tmp_path / "data", **{EVIL: 9, "cat": 9})
    shutil.copy(root / "cat" / "100.jpg", root / "cat" / '" onerror="alert(2).jpg')
    (root / "cat" / "broken.jpg").touch()
    return check_data(root, None)


def test_the_page_shows_the_suspects_and_asks_for_nothing(open_html: Open, checked: DataCheck) -> None:
    opened = open_html(render(checked), offline=True)
    copies = opened.page.locator("section", has_text="exact duplicates")
    images = copies.locator("img")
    assert images.count() == 2
    assert all(
        images.nth(number).evaluate("async image => (await image.decode(), image.naturalWidth)") for number in (0, 1)
    )
    assert copies.locator(".out").count() == 1
    assert EVIL in opened.page.locator("header").inner_text()
    for width in (1280, 390):
        opened.page.set_viewport_size({"width": width, "height": 800})
        opened.until_it_fits()
    for scheme in ("light", "dark"):
        opened.page.emulate_media(color_scheme=scheme)
        background = opened.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (background == "rgb(246, 247, 249)") == (scheme == "light")
    assert opened.complaints == []


def test_only_so_many_are_shown_and_the_rest_is_counted(checked: DataCheck, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sheet, "MEMBERS", 1)
    copies = next(section for section in sections(checked) if section["finding"].kind == "exact duplicates")
    assert [len(group["images"]) for group in copies["groups"]] == [1]
    assert copies["groups"][0]["more"] == 1
    assert "and 1 more" in render(checked)


def terminal(checked: DataCheck, width: int = 120, **options: Any) -> str:
    stream = io.StringIO()
    sheet.print_checked(checked, Path("sheet.html"), console=Console(file=stream, width=width), **options)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("extra", "said"),
    [(0, "84 images in 21 classes: 4 in each"), (2, "86 images in 21 classes: 4 to 6 in each, the fewest in c1 4")],
)
def test_many_classes_are_counted_by_their_range(tmp_path: Path, extra: int, said: str) -> None:
    root = make(tmp_path / "data", c0=4 + extra, **{f"c{number}": 4 for number in range(1, 21)})
    assert said in terminal(check_data(root, None))


def test_findings_are_sorted_and_filtered(checked: DataCheck) -> None:
    shown = sheet.FAULTS.select("-images", ["found!=exact*"]).of(checked.findings)
    assert len(shown) == len(checked.findings) - 1
    counts = [len(finding.images) for finding in shown]
    assert counts == sorted(counts, reverse=True)
    assert "No problems found" not in terminal(checked, shown=shown)


@pytest.fixture
def boxed(tmp_path: Path) -> DataCheck:
    """A set with boxes, of a class whose name is a script: a photo that is stored rotated, and a repeated box."""
    repeated = Photo("repeated", ((EVIL, 5, 5, 40, 40),) * 2)
    table = write_table(tmp_path / "boxes", [*photos(20, EVIL, "cat"), repeated, Photo("bad", ((EVIL, 9, 9, 5, 5),))])
    save(table.parent / "019.jpg", 19, orientation=6)
    return check_data(table, None, task=DETECTION.name)


def test_boxes_lie_over_the_thumbnails(open_html: Open, boxed: DataCheck) -> None:
    opened = open_html(render(boxed), offline=True)
    figure = opened.page.locator("section", has_text="repeated boxes").locator("figure")
    image, drawing = (figure.locator(part).bounding_box() for part in ("img", "svg"))
    assert image == drawing
    edges = figure.locator("path.marked").evaluate(PLACE)
    assert edges == pytest.approx([5 / 64, 40 / 64, (5 + 8) / 64, (40 + 8) / 64], abs=0.001)
    assert opened.page.locator("#samples figure").count() == SAMPLES
    assert EVIL in opened.page.locator("#samples .lead").inner_text()
    for width in (1280, 390):
        opened.page.set_viewport_size({"width": width, "height": 800})
        opened.until_it_fits()
    assert opened.complaints == []


def test_photos_that_are_stored_rotated_are_shown_first(boxed: DataCheck) -> None:
    assert [path.stem for path in samples(boxed)][:2] == ["019", "000"]


@pytest.mark.parametrize("width", [80, 120])
def test_the_terminal_shows_boxes_and_sizes(boxed: DataCheck, width: int) -> None:
    output = terminal(boxed, width)
    shown = " ".join(output.split())
    assert "22 images, 42 boxes in 2 classes: <script>alert(1) 22, cat 20" in shown
    assert "under 8 px %" in shown
    assert "the same command with --fix cleaned.csv" in shown
    assert max(map(len, output.splitlines())) <= width

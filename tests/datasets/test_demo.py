"""The images of a demonstration."""

from pathlib import Path

import numpy as np
import pytest

from advisor.core import UsageError
from advisor.datasets import DEMO_NOTE, Division, Survey, _demo, draw_demo
from advisor.datasets._demo import ABOUT, draw_fruit, list_fruits
from tests.builders import must_fail, write_file

pytestmark = pytest.mark.integration


def test_the_images_are_a_folder_for_each_class_with_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_demo, "IMAGES", 16)  # to draw all takes three seconds
    folder = draw_demo(tmp_path / "new" / "demo")
    read = Survey.read(folder)
    assert read.dataset.classes == tuple(list_fruits())
    assert set(read.dataset.counts) == {16}
    assert not read.dataset.rejected
    assert Division.of_survey(read, 0).list_notes(read.dataset) == (DEMO_NOTE,), "no image is a copy of another one"
    assert "Licence: CC0-1.0" in (folder / ABOUT).read_text(encoding="utf-8")


def test_the_same_images_come_out_each_time_and_are_drawn_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_demo, "IMAGES", 2)
    assert np.array_equal(draw_fruit("pear", 3), draw_fruit("pear", 3))
    assert not np.array_equal(draw_fruit("pear", 3), draw_fruit("pear", 4))
    folder = draw_demo(tmp_path / "demo")
    first = write_file(next(folder.rglob("*.jpg")), b"of the user")
    assert draw_demo(folder).joinpath(first).read_bytes() == b"of the user"
    (folder / ABOUT).write_text("of an earlier version", encoding="utf-8")
    assert draw_demo(folder).joinpath(first).read_bytes() != b"of the user"
    assert [path.name for path in tmp_path.iterdir()] == ["demo"], "nothing else is left"


def test_a_folder_of_the_user_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine.jpg").write_bytes(b"")
    must_fail(UsageError, "has no demonstration images", draw_demo, tmp_path)
    assert (tmp_path / "mine.jpg").exists()

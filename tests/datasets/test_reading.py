"""Files are read in child processes, and one that ends a child is named and left out."""

import os
import signal
import time
from pathlib import Path
from unittest.mock import Mock

import pytest
from PIL import Image

from advisor.datasets import Survey, _reading as reading, read_thumbnail
from advisor.datasets._dataset import Rejected
from advisor.datasets._reading import ReaderFailure, read_each
from advisor.isolation import IN_CHILD, CallLimits
from tests.datasets.folders import fill, make

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("reads_in_children")]

CRASH, WAIT, FILL = "crash", "wait", "fill"


def read_badly(item: str) -> tuple[str, int]:
    """Stand for a decoder that a file can crash, keep busy or fill with its pixels."""
    if item == CRASH:
        os.kill(os.getpid(), signal.SIGSEGV)
    if item == WAIT:
        time.sleep(60)
    if item == FILL:
        return str(len(bytearray(8_000_000_000))), 0
    return item, os.getpid()


def test_each_file_that_ends_a_child_is_named_and_all_others_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    # A block that ends too early costs nothing but time: each of its files is read alone. A file that is read alone
    # needs the longer limit, because its child may be a new one, with all imports to do on a busy machine.
    monkeypatch.setattr(reading, "LIMITS", CallLimits(2.0))
    monkeypatch.setattr(reading, "LIMITS_OF_ONE", CallLimits(6.0))
    items = [f"{number}" for number in range(40)]
    items[7], items[20], items[21] = CRASH, WAIT, FILL
    results = list(read_each(f"{__name__}:read_badly", items))
    failures = {items[place]: each.reason for place, each in enumerate(results) if isinstance(each, ReaderFailure)}
    assert failures == {
        CRASH: "its reader crashed with SIGSEGV",
        WAIT: "its reader timed out: stopped after its limit of 6 s",
        FILL: "its reader ran out of memory",
    }
    others = [each for each in results if not isinstance(each, ReaderFailure)]
    assert [item for item, _ in others] == [item for item in items if item not in failures]
    assert os.getpid() not in {process for _, process in others}


def test_a_small_image_for_a_page_is_made_by_a_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (file,) = fill(tmp_path, 1)
    monkeypatch.setattr(Image, "open", Mock(side_effect=AssertionError("decoded in this process")))
    assert read_thumbnail(file, 32).startswith(b"\xff\xd8")


def test_a_set_and_its_damage_are_the_same_whoever_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "data", cat=20, dog=20)
    (tmp_path / "data" / "cat" / "003.jpg").write_bytes(b"\xff\xd8\xff no image")
    monkeypatch.chdir(tmp_path)
    children = Survey.read("data")
    monkeypatch.setenv(IN_CHILD, "1")
    here = Survey.read("data")
    assert children.dataset == here.dataset
    assert (children.thumbnails == here.thumbnails).all()
    assert [type(row) for row in children.dataset.rejected] == [Rejected]

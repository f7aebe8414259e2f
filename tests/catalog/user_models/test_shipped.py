"""A file that a search names by its path becomes a card in a catalogue of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.catalog.catalogue_files import user_catalogue_file
from advisor.catalog.user_models.shipped import is_file, shipped_card
from advisor.core.errors import UsageError
from tests.catalog.user_models.test_finished_files import SIDE, kept
from tests.measurement import small_models

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("own_folders")]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return kept(tmp_path, small_models.classifier(SIDE))


@pytest.mark.parametrize(("name", "expected"), [("a/shipped.tflite", True), ("mobilenet_v2_*", False)])
def test_a_path_ends_in_tflite(name: str, expected: bool) -> None:
    assert is_file(name) is expected


def test_a_file_has_a_catalogue_of_its_own_and_keeps_it(file: Path) -> None:
    card, catalogue = shipped_card(file)
    assert (card.name, card.family, card.form) == ("net", "shipped", "float32")
    before = catalogue.stat().st_mtime_ns
    assert shipped_card(file) == (card, catalogue)
    assert catalogue.stat().st_mtime_ns == before
    assert not user_catalogue_file().exists()


def test_a_changed_file_is_another_card(file: Path) -> None:
    _, before = shipped_card(file)
    file.write_bytes(kept(file.parent, small_models.dynamic_int8(small_models.classifier(SIDE))).read_bytes())
    card, after = shipped_card(file)
    assert card.form == "dynamic_int8"
    assert after != before


def test_a_name_that_is_taken_gets_a_suffix(file: Path) -> None:
    taken = file.rename(file.with_name("mobilenet_v2_1.0_224.tflite"))
    assert shipped_card(taken)[0].name == "mobilenet_v2_1.0_224-shipped"


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--candidates: there is no file"):
        shipped_card(tmp_path / "gone.tflite")


def test_a_file_without_labels_says_how_to_add_it(tmp_path: Path) -> None:
    bare = kept(tmp_path, small_models.classifier(SIDE), None)
    with pytest.raises(UsageError, match="does not say its labels") as refused:
        shipped_card(bare)
    assert "advisor catalog add" in refused.value.hint

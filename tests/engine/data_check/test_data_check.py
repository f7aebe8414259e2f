"""The data check with a network's features, on planted faults."""

from pathlib import Path

import pytest

from advisor.engine import LabelChecker
from advisor.engine._data_check import check_images
from benchmarks.data_check import copies_score, labels_score
from benchmarks.planting import plant
from tests.makers.searches import SMALLEST
from tests.store.test_files import files_at_most


@pytest.fixture
def checker(warm_cache: Path, monkeypatch: pytest.MonkeyPatch) -> LabelChecker:
    """A checker by the card of the searches, which is converted once for all tests."""
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(warm_cache))
    return LabelChecker(SMALLEST, offline=True)


def test_most_planted_faults_are_found_in_a_small_set(trashnet: Path, tmp_path: Path, checker: LabelChecker) -> None:
    planted = plant(trashnet, tmp_path / "planted", seed=2, images=160)
    said: list[str] = []
    checked = check_images(planted.root, checker, said.append)
    labels, copies = labels_score(planted, checked), copies_score(planted, checked)
    assert checked.judged_by == SMALLEST
    assert (labels.recall > 0.6, labels.precision > 0.3) == (True, True), labels
    assert (copies.recall >= 0.8, copies.precision >= 0.6) == (True, True), copies
    assert said
    again = check_images(planted.root, checker)
    assert again.to_json() == checked.to_json()


def test_a_folder_that_changes_is_told_of_and_not_kept(trashnet: Path, tmp_path: Path, checker: LabelChecker) -> None:
    planted = plant(trashnet, tmp_path / "planted", seed=11, images=60)
    victim = next(iter(sorted(planted.copies)))

    def change(text: str) -> None:
        if text.startswith("reading images with") and victim.exists():
            victim.write_bytes(victim.read_bytes() + b" ")

    checked = check_images(planted.root, checker, change)
    assert "1 image changed" in checked.not_judged
    assert "1 image changed" in check_images(planted.root, checker, change).not_judged


def test_a_full_disk_and_few_images_cost_the_labels_only(trashnet: Path, tmp_path: Path, checker: LabelChecker) -> None:
    planted = plant(trashnet, tmp_path / "planted", seed=12, images=60)
    with files_at_most(10_000):
        checked = check_images(planted.root, checker)
    assert "the disk is full" in checked.not_judged
    assert checked.findings
    planted = plant(trashnet, tmp_path / "few", seed=1, images=12)
    checked = check_images(planted.root, checker)
    assert "labels are checked if two classes have" in checked.not_judged
    assert checked.findings

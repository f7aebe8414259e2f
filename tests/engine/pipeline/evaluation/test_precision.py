"""Average precision of what detectors found, against the boxes of the user's images."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.core.quantity import Provenance
from advisor.engine.pipeline.evaluation.accuracy import Verdict
from advisor.engine.pipeline.evaluation.precision import HELD_OUT, VALIDATED, held_out, measured
from advisor.engine.pipeline.images import Images, Role
from tests.engine.pipeline.boxed import CAT, DOG, boxed_images, save_found

IMAGES = boxed_images()


def compared(
    folder: Path, own: tuple[int, ...], floats: tuple[int, ...] = (), images: Images = IMAGES
) -> tuple[Verdict, list[float]]:
    """Compare a file with its float32 file; each finds all boxes but those of some validation images."""
    paths = [
        save_found(folder / f"{name}.npz", images, Role.VALIDATION, missed)
        for name, missed in (("own", own), ("float", floats))
    ]
    return measured(*paths, images)


def test_a_file_that_finds_everything_is_right_in_every_image(tmp_path: Path) -> None:
    verdict, shares = compared(tmp_path, ())
    assert verdict.accuracy is not None
    assert (verdict.accuracy.value, verdict.accuracy.unit, verdict.accuracy.n) == (100.0, "%", 4)
    assert (verdict.accuracy.provenance, verdict.accuracy.source) == (Provenance.MEASURED, VALIDATED)
    assert verdict.answers.per_class_recall == {"cat": 1.0, "dog": 1.0}
    assert verdict.answers.confusion is None
    assert shares == [1.0] * 4


def test_what_a_file_misses_lowers_the_precision_of_its_class(tmp_path: Path) -> None:
    verdict, shares = compared(tmp_path, own=(0,))  # a cat of four
    assert verdict.accuracy is not None
    by_class = verdict.answers.per_class_recall
    assert by_class == {"cat": pytest.approx(76 / 101), "dog": 1.0}  # COCO reads precision at 101 recalls
    assert verdict.accuracy.value == pytest.approx(50 * (76 / 101 + 1))
    assert min(shares) == shares[0]
    assert sum(shares) / 4 == pytest.approx(verdict.accuracy.value / 100)


def test_the_interval_contains_the_precision(tmp_path: Path) -> None:
    found = compared(tmp_path, own=(0,))[0].accuracy
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert 0 <= found.low < found.value < found.high <= 100


def test_the_drop_is_the_precision_that_is_lost_against_the_float_file(tmp_path: Path) -> None:
    worse = compared(tmp_path, own=(0, 1), floats=(0,))[0]
    floats = compared(tmp_path, own=(0,))[0]
    assert worse.drop is not None
    assert worse.accuracy is not None
    assert floats.accuracy is not None
    assert worse.drop.value == pytest.approx(floats.accuracy.value - worse.accuracy.value, abs=1e-4)
    assert worse.drop.value > 10
    assert (worse.drop.unit, worse.drop.n) == ("points", 4)


def test_a_file_that_finds_what_float_finds_has_dropped_nothing(tmp_path: Path) -> None:
    drop = compared(tmp_path, own=(0,), floats=(0,))[0].drop
    assert drop is not None
    assert (drop.value, drop.low, drop.high) == (0, 0, 0)


def test_a_file_that_finds_more_than_float_gains(tmp_path: Path) -> None:
    drop = compared(tmp_path, own=(), floats=(0,))[0].drop
    assert drop is not None
    assert drop.value < 0


def test_the_hold_out_has_its_own_precision(tmp_path: Path) -> None:
    path = save_found(tmp_path / "own.npz", IMAGES, Role.HOLDOUT, missed=(0, 1, 2, 3))
    found, answers = held_out(path, IMAGES)
    assert (found.value, found.unit, found.n, found.source) == (0.0, "%", 4, HELD_OUT)
    assert answers.per_class_recall == {"cat": 0.0, "dog": 0.0}


def test_a_class_without_a_box_in_a_part_has_no_precision_there(tmp_path: Path) -> None:
    images = boxed_images([(CAT, DOG)] * 8 + [(CAT,)] * 4)
    found, answers = held_out(save_found(tmp_path / "own.npz", images, Role.HOLDOUT), images)
    assert answers.per_class_recall == {"cat": 1.0, "dog": None}
    assert found.value == 100.0


def test_an_image_without_a_box_counts_against_what_is_found_in_it(tmp_path: Path) -> None:
    images = boxed_images([(CAT,)] * 4 + [()] + [(CAT,)] * 7)  # boxes of equal score rank by their image
    seen_everywhere = boxed_images([(CAT,)] * 12)
    paths = [
        save_found(tmp_path / f"{n}.npz", each, Role.VALIDATION) for n, each in enumerate((images, seen_everywhere))
    ]
    clean, wrong = (measured(path, paths[0], images)[0] for path in paths)
    assert clean.accuracy is not None
    assert wrong.accuracy is not None
    assert clean.accuracy.value == 100.0 > wrong.accuracy.value

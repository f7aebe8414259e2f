"""What the stages of a search share: the time of its trainings, and the parts of the images."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from advisor.engine import Role, Scope
from advisor.engine._pipeline.materials import IMPORTS_S, NEXT_IMPORTS_S, NEXT_START_S, TrainingBudget
from tests.engine.pipeline.boxed import two_classes
from tests.engine.pipeline.walking import materials

SCOPE = Scope("a card", "finetune_top")


def test_a_part_of_the_hold_out_has_its_share_of_the_classes_and_is_in_every_larger_part() -> None:
    images = two_classes(each=20)
    held = [images.held_out(count).part(Role.HOLDOUT) for count in (4, 10, 20)]
    assert [np.bincount(part.labels).tolist() for part in held] == [[2, 2], [5, 5], [10, 10]]
    assert set(held[0].indices) < set(held[1].indices) < set(held[2].indices)
    assert held[2] == images.part(Role.HOLDOUT)
    assert images.held_out(4).part(Role.TRAIN) == images.part(Role.TRAIN)


def test_the_trainings_of_a_card_share_the_time_that_is_left(tmp_path: Path) -> None:
    given = replace(materials(tmp_path), budget_training=lambda *_: TrainingBudget(1080.0))
    alone, followed = (given.limit_s(SCOPE, to_come) for to_come in (0.0, 0.25))
    assert alone == pytest.approx(1080 - NEXT_IMPORTS_S)
    assert followed == pytest.approx((1080 - IMPORTS_S - NEXT_START_S) / 1.25)
    assert materials(tmp_path).limit_s(SCOPE, 0.25) is None

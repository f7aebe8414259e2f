"""What the stages of a search share: the time of its trainings."""

from dataclasses import replace
from pathlib import Path

import pytest

from advisor.engine.pipeline.materials import IMPORTS_S, NEXT_IMPORTS_S, NEXT_START_S
from advisor.engine.pipeline.stage import Scope
from tests.engine.pipeline.walking import materials

SCOPE = Scope("a card", "finetune_top")


def test_the_trainings_of_a_card_share_the_time_that_is_left(tmp_path: Path) -> None:
    given = replace(materials(tmp_path), training_left_s=lambda *_: 1080.0)
    alone, followed = (given.limit_s(SCOPE, to_come) for to_come in (0.0, 0.25))
    assert alone == pytest.approx(1080 - NEXT_IMPORTS_S)
    assert followed == pytest.approx((1080 - IMPORTS_S - NEXT_START_S) / 1.25)
    assert materials(tmp_path).limit_s(SCOPE, 0.25) is None

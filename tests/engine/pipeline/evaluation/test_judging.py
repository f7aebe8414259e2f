"""Seconds of the hold-out, by what scoring and judging took before."""

import pytest

from advisor.engine import Role, Scope, cost, input_spec, score_stage
from advisor.engine._pipeline.evaluation.judging import JudgingPace
from advisor.engine._pipeline.materials import Artefact
from advisor.engine._pipeline.stage_events import EventKind, StageEvent

from .test_evaluator import CARD

FLOAT = "float32"


def scored(cpu_s: float, images: int) -> StageEvent:
    """Return that a file of the card has run over images."""
    artefact = Artefact(CARD.name, "0" * 64, 1)
    price_s = cost.scoring_s(CARD, FLOAT, images)
    stage = score_stage(Scope(CARD.name), input_spec(CARD), artefact, Role.VALIDATION, price_s)
    return StageEvent(stage, EventKind.DONE, cpu_s=cpu_s)


def test_before_a_file_ran_the_price_of_earlier_searches_counts() -> None:
    pace = JudgingPace(paced=3.0, judging_s=0.1)
    assert pace.seconds(CARD, FLOAT, 100) == pytest.approx(3.0 * (cost.scoring_s(CARD, FLOAT, 100) + 100 * 0.1))


def test_a_file_takes_what_one_of_its_card_took_for_an_image_and_what_judging_took() -> None:
    pace = JudgingPace(judging_s=5.0, slowdown=lambda: 2.0)
    pace.note(scored(cpu_s=20.0, images=100), 100)
    pace.note_judged(50, cpu_s=5.0)
    start_s = pace.seconds(CARD, FLOAT, 0)
    assert pace.seconds(CARD, FLOAT, 300) - start_s == pytest.approx(2.0 * 300 * (0.2 + 0.1))


def test_files_share_the_cores_and_so_the_images_that_there_is_time_for() -> None:
    pace = JudgingPace()
    pace.note(scored(cpu_s=20.0, images=100), 100)
    files = [(CARD, FLOAT)] * 2
    alone, side_by_side, in_turn = (
        pace.images_in(60.0, some, cores) for some, cores in ((files[:1], 2), (files, 2), (files, 1))
    )
    assert alone == side_by_side == pytest.approx(2 * in_turn, abs=60)
    assert pace.seconds(CARD, FLOAT, alone) <= 60.0 < pace.seconds(CARD, FLOAT, alone + 1)
    assert pace.images_in(0.0, files, 2) == 0

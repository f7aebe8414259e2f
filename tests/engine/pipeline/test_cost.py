"""Rough seconds of stages."""

from __future__ import annotations

from advisor.catalog.catalogue import load_catalogue
from advisor.engine.pipeline.cost import FINETUNE_START_S, detector_s, detector_tuning_s

CARD = load_catalogue()["mobilenet_v2_1.0_224"]


def test_training_a_detector_costs_more_with_every_image() -> None:
    none, some, more = (detector_s(CARD, images) for images in (0, 100, 200))
    assert none == FINETUNE_START_S < some < more
    assert more - some == some - none


def test_training_a_detector_costs_more_with_a_larger_input() -> None:
    small, large = (detector_s(CARD.at(side), 100) for side in (224, 320))
    assert small == detector_s(CARD, 100) < large


def test_fine_tuning_a_detector_costs_more_than_its_head() -> None:
    assert detector_tuning_s(CARD, 0) == FINETUNE_START_S
    assert detector_tuning_s(CARD, 100) > detector_s(CARD, 100)

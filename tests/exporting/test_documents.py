"""The model card says what the shipped file was trained on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from advisor.core.training import CHOOSABLE
from advisor.engine.history.loaded_run import load_run
from advisor.exporting.documents import model_card
from advisor.exporting.model import ShippedModel
from tests.builders import evaluation
from tests.run_folders import write_run

MODEL = ShippedModel(b"", ("glass", "paper"), 127.5, 127.5, 224, ())
WORDS = {
    "none": "published weights",
    "head": "head retrained on your images",
    "finetune_cached": "last blocks fine-tuned on your images",
    "finetune_top": "last layers fine-tuned on your images",
    "finetune_all": "all layers fine-tuned on your images",
}


@pytest.mark.parametrize("training", CHOOSABLE)
def test_the_card_names_the_training(tmp_path: Path, training: str) -> None:
    row = evaluation("net", "int8")
    row = replace(row, configuration=replace(row.configuration, training=training))
    card = model_card(load_run(write_run(tmp_path, [row]).path), row, MODEL)
    assert f"net, {WORDS[training]}, compressed as" in card

"""The model card says what the shipped file was trained on, what to expect of it, and its risks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from advisor.core.quantity import Provenance, Quantity
from advisor.core.training import choosable
from advisor.engine.history.loaded_run import load_run
from advisor.exporting.documents import model_card
from advisor.exporting.model import ShippedModel
from advisor.reporting.risks import Level, Risk
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


@pytest.mark.parametrize("training", choosable())
def test_the_card_names_the_training(tmp_path: Path, training: str) -> None:
    row = evaluation("net", "int8")
    row = replace(row, configuration=replace(row.configuration, training=training))
    card = model_card(load_run(write_run(tmp_path, [row]).path), row, MODEL, ())
    assert f"net, {WORDS[training]}, compressed as" in card


def test_the_card_has_both_accuracies_and_warns_beside_the_reason(tmp_path: Path) -> None:
    row = replace(
        evaluation("net", "int8", accuracy=90.0),
        holdout_accuracy=Quantity(89.0, "%", Provenance.MEASURED, 86.0, 92.0, n=500),
        new_conditions=Quantity(61.5, "%", Provenance.ESTIMATED, 50.0, 73.0),
    )
    run = load_run(write_run(tmp_path, [row]).path)
    found = (
        Risk("New conditions", Level.HIGH, "Expect about 61.5 % on images of another place or day, not *89.0 %*."),
        Risk("Compression", Level.LOW, "int8 loses 0.0 points."),
    )
    card = model_card(run, row, MODEL, found)
    assert "| top-1 on the hold-out (images like these) | 89.0 % | 86.0 % to 92.0 % | 500 |" in card
    assert "| top-1 in new conditions (another visit, camera or day) | 61.5 % | 50.0 % to 73.0 % |" in card
    warning = r"> **Warning, new conditions**: Expect about 61.5 % on images of another place or day, not \*89.0 %\*."
    assert card.index(warning) < card.index("## Intended use")
    assert "## Risks\n\n- low: Compression: int8 loses 0.0 points.\n" in card
    assert card.count("Expect about") == 1

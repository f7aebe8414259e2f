"""A user's own file whose graph scales its input is tried in both readings on the user's images."""

from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from PIL import Image

from advisor.catalog._user_models.import_model import ModelDescription, add, inspect
from advisor.engine._space import twice_scaled
from tests.makers.imports import InThisProcess
from tests.measurement.small_models import OPERATORS, Builder, saved
from tests.tables import with_cases

SIDE = 32


def red_net() -> bytes:
    """Return a classifier that scales pixels to 0..1: 'red' if the mean of red is above a half, else 'dark'."""
    build = Builder()
    image = build.input(SIDE)
    scale = build.constant(np.full(3, 1 / 255, np.float32))
    scaled = build.operator(OPERATORS.MUL, [image, scale], (1, SIDE, SIDE, 3))
    weights = build.constant(np.array([[0, 0, 0], [1, 0, 0]], np.float32))
    least = build.constant(np.array([0.5, 0], np.float32))
    inputs = [build.mean(scaled), weights, least]
    scores = build.operator(OPERATORS.FULLY_CONNECTED, inputs, (1, 2), schema.FullyConnectedOptionsT())
    return build.finish({"image": image}, {"output": build.softmax(scores, beta=10.0)})


@pytest.mark.usefixtures("own_folders", "in_process")
@with_cases
def test_both_readings_are_tried_on_the_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, classes: tuple[str, str], sentence: str
) -> None:
    monkeypatch.setattr(twice_scaled, "ChildPool", InThisProcess)
    labels = tmp_path / "labels.txt"
    labels.write_text("dark\nred\n")
    with inspect(saved(tmp_path, red_net())) as inspected:
        card = add(inspected, ModelDescription(labels=str(labels), mean=(0.0,), std=(255.0,))).card
    examples = []
    for number, level in enumerate((0, 40, 200, 255)):
        path = tmp_path / f"{number}.png"
        Image.new("RGB", (SIDE, SIDE), (level, 0, 0)).save(path)
        examples.append((path, classes[number // 2]))
    assert twice_scaled.scale_warning(card, examples).endswith(sentence)

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from advisor.compression.recipes import RECIPES
from advisor.compression.recipes.base import Needs
from advisor.compression.recipes.mixed import answers
from advisor.core.errors import StageError
from advisor.measurement.unknown import Neighbours
from advisor.tflite.interface import to_float_io
from advisor.tflite.unknown import with_probe, with_unknown

from .test_temperature import CLASSES, classifier, form, random_images

FORMS = [(parts, one.name) for parts in (1, 2) for one in RECIPES if one.needs < Needs.TRAINING]
WIDTHS = {1: 16, 2: 24}


@pytest.mark.parametrize(("parts", "name"), FORMS)
def test_the_probe_of_a_form_has_features_and_the_logits_of_its_answers(parts: int, name: str) -> None:
    data = to_float_io(form(parts, name))
    rows = answers(with_probe(data), random_images()[:40])
    logits = rows[:, -CLASSES:]
    assert rows.shape[1] == WIDTHS[parts] + CLASSES
    np.testing.assert_allclose(softmax(logits, axis=1), answers(data, random_images()[:40]), atol=1 / 200)


@pytest.mark.parametrize(("parts", "name"), FORMS)
def test_the_class_unknown_has_the_logit_that_its_rule_says(parts: int, name: str) -> None:
    data, images = to_float_io(form(parts, name)), random_images()
    rows = answers(with_probe(data), images[:60])
    features, logits = rows[:, :-CLASSES], rows[:, -CLASSES:]
    near = Neighbours.of(features[:30], 8)
    made = answers(with_unknown(data, near.axes, near.images, 3.0, 2.0), images[:60])
    logit = 2.0 - 3.0 * near.similarity(features)
    wanted = softmax(np.column_stack([logits, logit]), axis=1)
    np.testing.assert_allclose(made, wanted, atol=5e-3)


def test_features_of_another_width_are_refused() -> None:
    with pytest.raises(StageError, match="do not fit 16"):
        with_unknown(classifier(1), np.ones((5, 2)), np.ones((2, 3)), 1.0, 0.0)


def test_a_model_without_a_linear_head_is_refused() -> None:
    with pytest.raises(StageError):
        with_unknown(form(1, "int8"), np.ones((16, 2)), np.ones((2, 3)), 1.0, 0.0)

from __future__ import annotations

import pytest

from advisor.core.errors import UsageError
from advisor.core.forms import FORMS, form_of
from advisor.devices.prediction.predictor import similar_form


@pytest.mark.parametrize("recipe", FORMS)
def test_a_latency_stands_for_every_recipe(recipe: str) -> None:
    form = form_of(recipe)
    precision, doubt = similar_form(form.name, (), ("float32", "int8", "int16x8"))
    assert (precision, doubt) == (form.like, form.log_sd)


def test_a_forms_own_measurements_come_first() -> None:
    assert similar_form("float16", ("float16",), ("float16", "float32")) == ("float16", 0.0)


def test_a_form_of_which_nothing_is_known_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="'wheight_int8' .did you mean 'weight_int8'"):
        similar_form("wheight_int8", (), ("float32",))

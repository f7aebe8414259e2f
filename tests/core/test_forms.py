from __future__ import annotations

import pytest

from advisor.compression.recipes import RECIPES
from advisor.core.forms import FORMS, Form, form_of


def test_every_recipe_is_in_the_table_and_nothing_else() -> None:
    assert {one.name for one in RECIPES} == set(FORMS)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_what_stands_for_a_form_stands_for_itself(form: Form) -> None:
    assert form_of(form.like).like == form.like
    assert form_of(form.name).name == form.name
    assert form_of(form.name).like == form.like


def test_a_measured_precision_is_its_own_form() -> None:
    assert form_of("uint8") == Form("uint8", "uint8")

"""Every form of a report says what the user ships today, and what switching gains and costs."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from advisor.core.quantity import Provenance, Quantity
from advisor.engine.history.incumbents import Incumbent
from advisor.reporting.answer import print_answer
from advisor.reporting.console import default_console
from advisor.reporting.explanation import LEARNT, incumbent_sentences
from advisor.reporting.files import recommendation_json
from advisor.reporting.html import render_html
from advisor.reporting.markdown import render_markdown
from advisor.reporting.phrases import shortlist, verdict
from advisor.reporting.risks import risks, warnings
from advisor.reporting.view import RunView
from tests.documents import problems
from tests.reporting.views import run_view


@pytest.fixture
def view() -> RunView:
    """A run whose pick is not what the user ships."""
    view = run_view()
    pick = view.decision.pick
    assert pick is not None
    worst = min((row for row in view.ok if row != pick), key=lambda row: row.accuracy.value if row.accuracy else 0.0)
    facts, target = replace(worst.card_facts, as_it_is=True), pick.configuration.target
    row = replace(worst, card_facts=facts, configuration=replace(worst.configuration, card="shipped", target=target))
    points = Quantity(3.2, "points", Provenance.MEASURED, 1.0, 5.4, 0.95, 404, "validation")
    return replace(
        view, evaluations=(*view.evaluations, row), incumbents=(Incumbent(row, False, points, "validation"),)
    )


def test_switching_is_said_in_figures(view: RunView) -> None:
    (found,) = incumbent_sentences(view)
    assert found.startswith("shipped ")
    assert "Switching to the pick changes" in found
    assert "+3.2 points (95 %: 1.0" in found
    assert "on the same 404 images" in found
    assert "latency from" in found
    assert "size from" in found
    assert found.endswith(LEARNT)


def test_a_file_that_is_picked_is_still_the_best(view: RunView) -> None:
    shipped = view.incumbents[0].evaluation
    own = replace(view, incumbents=(Incumbent(shipped, True),))
    assert "is still the best" in incumbent_sentences(own)[0]


def test_every_form_names_it(view: RunView, capsys: pytest.CaptureFixture[str]) -> None:
    assert "What you ship today" in render_html(view)
    assert "**What you ship today**" in render_markdown(view)
    print_answer(view, default_console())
    assert "What you ship today: shipped" in capsys.readouterr().out


def test_the_short_table_has_it(view: RunView) -> None:
    shipped = view.incumbents[0].evaluation
    assert shipped in shortlist(view)
    assert verdict(view, shipped) == "shipped today"


def test_its_figures_carry_a_warning(view: RunView) -> None:
    found = warnings(risks(view, view.incumbents[0].evaluation))
    assert "too high if it has learnt from your images" in " ".join(risk.text for risk in found)


def test_the_document_has_it_and_is_valid(view: RunView) -> None:
    document = json.loads(recommendation_json(view))
    assert problems("recommendation", document) == []
    (own,) = document["incumbents"]
    assert (own["picked"], own["switching_points"]["value"], own["switching_part"]) == (False, 3.2, "validation")
    assert own["evaluation"]["configuration"]["card"] == "shipped"

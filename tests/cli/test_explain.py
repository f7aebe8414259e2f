"""``advisor explain``: terms in a few sentences, with a page that exists."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from advisor.compression.recipes.listed import RECIPES
from advisor.core.metrics import METRICS
from advisor.core.training import choosable
from advisor.reporting.glossary import Term, term, terms
from tests.cli.conftest import Advisor


def test_a_term_is_explained_with_a_page(advisor: Advisor) -> None:
    said = advisor("explain", "hold-out")
    assert said.code == 0, said.err
    assert said.out.startswith("hold-out\nImages that neither trained")
    assert said.out.endswith("More: docs/search.md#how-to-read-the-figures\n")


def test_a_term_of_several_words_needs_no_quotes(advisor: Advisor) -> None:
    assert "hand-held phone" in advisor("explain", "capture", "conditions").out


def test_an_unknown_term_shows_the_nearest(advisor: Advisor) -> None:
    said = advisor("explain", "holdut")
    assert (said.code, "did you mean 'holdout'?" in said.err) == (2, True)


def test_without_a_term_all_are_listed_and_programs_get_their_texts(advisor: Advisor) -> None:
    assert "p90, pick, predicted" in " ".join(advisor("explain").out.split())
    assert len(json.loads(advisor("explain", "--json").out)["terms"]) == len(terms())


@pytest.mark.parametrize("name", ["P90", "90th percentile", "Top_1", "DYNAMIC-INT8"])
def test_case_dashes_and_other_names_do_not_matter(name: str) -> None:
    assert term(name).text


@pytest.mark.parametrize("explained", terms(), ids=lambda each: each.name)
def test_each_has_two_to_four_sentences_and_a_heading_that_exists(explained: Term, project: Path) -> None:
    assert 2 <= len(re.findall(r"\.(?:\s|$)", explained.text)) <= 4
    page, _, anchor = explained.page.partition("#")
    headings = re.findall(r"^#+ (.*)$", (project / "docs" / page).read_text(), re.MULTILINE)
    anchors = [re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings]
    assert not anchor or anchor in anchors


def test_what_a_user_can_choose_by_name_is_explained() -> None:
    default_recipes = ("float32", "float16", "dynamic_int8", "weight_int8", "int8", "mixed_int8", "qat_int8")
    assert set(default_recipes) <= {recipe.name for recipe in RECIPES}
    for name in (*choosable(), *METRICS, *default_recipes):
        assert name in ("none", "cost-saved", "worst-group") or term(name)

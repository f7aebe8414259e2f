"""The answer as Markdown. Untrusted text, wherever it goes."""

import json
import unicodedata
from dataclasses import replace
from typing import Any

from hypothesis import example, given, strategies as st

from advisor.core import ImageAnswers, Interval, Provenance, Quantity, plain
from advisor.datasets import Box
from advisor.reporting import RunView, json_for_script
from advisor.reporting._files import render_markdown
from advisor.reporting._pages import COLOURS, DRAWN, outlines
from advisor.reporting._text import bounds, escape_markdown, points, share, spreadsheet
from tests.builders import CHARACTERS
from tests.reporting import views
from tests.tables import with_cases

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(CHARACTERS),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(CHARACTERS), inner),
    max_leaves=20,
)


def test_answer_runner_up_and_table_are_there_and_the_table_keeps_its_columns_whatever_the_names_hold() -> None:
    view = views.run_view()
    text = render_markdown(view)
    assert text.startswith(f"## advisor: {escape_markdown(view.decision.pick.configuration.card)}")
    assert escape_markdown(view.decision.reason) in text
    assert "**Runner-up**" in text
    assert "| pick |" in text
    rows = [
        line for line in render_markdown(views.run_view(card_suffix="a|b\nc")).splitlines() if line.startswith("| tie")
    ]
    assert rows
    assert {row.replace("\\|", "").count("|") for row in rows} == {13}


@with_cases
def test_markdown_says_what_kind_of_answer_it_is(
    kind: str, options: dict[str, Any], changes: dict[str, dict[str, Any]], texts: list[str]
) -> None:
    view = getattr(views, kind)(**options)
    for part, values in changes.items():
        view = replace(view, **{part: replace(getattr(view, part), **values)})
    said = render_markdown(view)
    assert [text for text in texts if text not in said] == []
    assert said.startswith(texts[0]) == texts[0].startswith("## ")


@given(st.text(CHARACTERS))
def test_escaped_text_stays_on_one_line_and_opens_no_tag(text: str) -> None:
    escaped = escape_markdown(text)
    assert len(escaped.splitlines()) <= 1
    assert all(escaped[place - 1] == "\\" for place, char in enumerate(escaped) if char in "|`[")
    assert not set(escaped) & set("<>")


def test_part_that_raises_costs_only_itself() -> None:
    view = views.run_view()
    text = render_markdown(replace(view, manifest={"command_line": ["advisor"], "versions": 7, "weights": 3}))
    broken = render_markdown(replace(view, dataset=7))
    assert "| pick |" in text
    assert "This part could not be made: AttributeError" in broken
    assert "| pick |" in broken


def test_the_classes_of_a_detector_have_their_figures_at_the_threshold(judged_detectors: RunView) -> None:
    said = render_markdown(judged_detectors)
    precision = escape_markdown("AP@0.5")
    title = f"| class | true | found | {precision} % | precision % | recall % | count error % | constant guess % |"
    dog, cat, owl = said.split(title)[1].split("\n\n")[0].splitlines()[2:]
    assert dog == "| dog | 3 | 1 | 82.0 | 100.0 | 33.3 | 66.7 | 33.3 |"
    assert cat.startswith("| cat | 4 |")
    assert owl.startswith("| owl | 0 | 0 | \u2013 |")
    assert "top-1" not in said.lower()
    assert f"{precision} on hold-out: average precision of a class's boxes" in said
    assert "A constant guess counts better: dog." in said


def test_of_many_classes_the_weakest_are_shown() -> None:
    answers = ImageAnswers({f"class {place}": place / 100 for place in range(99)})
    said = render_markdown(views.with_pick(views.run_view(), answers=answers, holdout_answers=None))
    assert [f"| class {place} |" in said for place in (0, 19, 20)] == [True, True, False]
    assert "79 more are in report.html." in said


@given(values)
def test_json_reads_back_and_holds_no_sign_of_html(value: object) -> None:
    text = json_for_script(value)
    assert json.loads(text) == value
    assert not set(text) & set("<>&\u2028\u2029")


@given(st.text(CHARACTERS))
@example("می\u200cخواهم")  # a joiner that its script needs
def test_plain_text_is_one_line_without_control_characters(text: str) -> None:
    shown = plain(text)
    assert not {char for char in shown if unicodedata.category(char) in ("Cc", "Cf", "Cs")} - {"\u200c", "\u200d"}
    assert shown.count("\u200c") == text.count("\u200c")
    assert len(shown.splitlines()) <= 1


@given(st.text(CHARACTERS))
def test_cell_never_starts_as_a_formula(text: str) -> None:
    assert str(spreadsheet(text))[:1] not in ("=", "+", "-", "@", "\t", "\r")


def test_a_loss_that_rounds_to_zero_has_no_sign_and_a_share_has_its_interval_in_percent() -> None:
    losses = [Quantity(value, "points", Provenance.MEASURED) for value in (-0.03, 0.0, -0.3)]
    assert list(map(points, losses)) == ["0.0", "0.0", "-0.3"]
    auroc = Interval(0.831, 0.792, 0.864)
    assert share(auroc) == "83.1 (79.2\u201386.4)"
    assert bounds(auroc, 2) == "0.83 (0.79\u20130.86)"


def test_each_class_has_its_colour_suspects_are_marked_and_only_so_many_boxes_are_drawn() -> None:
    boxes = [Box("cat", 1, 2, 11, 22), Box("dog", 0, 0, 5, 5), Box("cat", 3, 3, 4, 4)]
    paths = {one.name: one.path for one in outlines(boxes, boxes[1:2], {"cat": 0, "dog": 1})}
    assert paths["c0"] == "M1.0 2.0h10.0v20.0h-10.0zM3.0 3.0h1.0v1.0h-1.0z"
    assert paths["c1"] == paths["marked"] == "M0.0 0.0h5.0v5.0h-5.0z"
    (many,) = outlines([Box("x", 0, 0, 1, 1)] * (DRAWN + 5), (), {"x": COLOURS + 1})
    assert (many.name, many.path.count("M")) == ("c1", DRAWN)

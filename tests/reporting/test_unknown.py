"""The section on images of things that are none of the classes."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape

from advisor.core.unknown_facts import LeftOut
from advisor.reporting.html import render_html
from advisor.reporting.view import RunView
from tests.reporting.test_html import without_scripts
from tests.reporting.views import HOSTILE, judged_view, unknown_view

HINT = "<code>advisor search --unknown DIR</code>"


def section(view: RunView) -> str:
    part = without_scripts(render_html(view)).split('id="unknown"')[1].split("</section>")[0]
    return " ".join(unescape(part).split())


def test_the_section_begins_with_what_passes() -> None:
    part = section(unknown_view())
    assert (
        '<p class="lead">An image of something that is none of your classes passes as known in 74 % of the cases, if '
        "95 % of the known images are to pass. The probability that it ranks behind a known image (AUROC) is 0.82 "
        "(0.80\u20130.84)"
    ) in part


def test_float32_is_named_beside_a_compressed_file_only() -> None:
    view = unknown_view()
    pick = view.decision.pick
    assert pick is not None
    assert "; float32: 0.83." in section(view)
    own = replace(pick, configuration=replace(pick.configuration, compression="float32"))
    assert "float32: 0.83" not in section(replace(view, decision=replace(view.decision, pick=own)))


def test_classes_that_were_left_out_are_listed_the_hardest_first() -> None:
    cells = re.findall(
        r"<bdi>(\w+)</bdi> <small>(\d+)\s*images</small></th> <td class=\"n\">([^<]+)<", section(unknown_view())
    )
    assert cells == [("glass", "81", "0.73 (0.69\u20130.77)"), ("paper", "95", "0.91 (0.88\u20130.94)")]


def test_what_one_more_class_costs_and_how_to_ship_it() -> None:
    part = section(unknown_view())
    assert 'Larger by</th><td class="n">433.0 kB' in part
    assert 'given up, of the hold-out %</th><td class="n">2.6 (1.5\u20134.3)' in part
    assert 'Your 120 images of other things found %</th><td class="n">59.0 (50.0\u201367.5)' in part
    assert HINT not in part


def test_the_pick_of_another_question_is_exported_by_its_key() -> None:
    view = replace(unknown_view(), folder="runs/one", next_command="xdg-open runs/one/report.html")
    assert "<code>advisor export runs/one --to bundle --unknown-class</code>" in section(view)
    asked = replace(view, next_command="advisor export runs/one --pick KEY --to bundle")
    assert "<code>advisor export runs/one --pick KEY --to bundle --unknown-class</code>" in section(asked)
    assert "--unknown-class" not in section(unknown_view(file=""))


def test_without_images_of_other_things_the_page_says_how_to_give_them() -> None:
    part = section(unknown_view(others=None))
    assert HINT in part
    assert "of other things found" not in part


def test_of_a_fine_tuned_network_the_figure_is_said_to_be_too_high() -> None:
    said = "The AUROC is too high: fine-tuning has shown the network the left-out classes, too."
    assert said in section(unknown_view("finetune_cached"))
    assert said not in section(unknown_view())


def test_with_few_classes_the_rest_is_shown() -> None:
    part = section(unknown_view(auroc=None, float_auroc=None, accepted=None, by_class={}))
    assert "No class could be left out in turn" in part
    assert 'aria-label="Classes left out"' not in part
    assert "images of other things found" in part


def test_names_of_classes_are_text() -> None:
    one = next(iter(unknown_view().decision.pick.unknown.by_class.values()))  # type: ignore[union-attr]
    assert isinstance(one, LeftOut)
    page = without_scripts(render_html(unknown_view(by_class=dict.fromkeys(HOSTILE, one), label=HOSTILE[0])))
    assert "<script>alert" not in page
    assert "onerror=alert(2)>" not in page


def test_a_run_that_did_not_try_has_no_section() -> None:
    assert 'id="unknown"' not in render_html(judged_view())

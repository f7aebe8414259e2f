"""The answer on the terminal."""

import io
import json
import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
from rich.console import Console

from advisor.core import (
    CardFacts,
    Evaluation,
    HoldoutPart,
    Limits,
    OnAllImages,
    Provenance,
    Quantity,
    Status,
    TuningFacts,
)
from advisor.datasets import DEMO_NOTE
from advisor.engine import Insights, resolve
from advisor.engine._history.label_check import CheckedLabels, WrongLabel
from advisor.engine._targets.target_devices import select_targets
from advisor.reporting import RunView, _text as text, print_answer, summary_html
from advisor.reporting._explanation import meeting_line, opening_lines
from advisor.reporting._figures import key_figures
from advisor.reporting._files import recommendation_json, render_markdown
from advisor.reporting._foundations import list_foundations
from advisor.reporting._html import render_html
from advisor.reporting._steps import next_steps
from advisor.tasks import Task
from advisor.tasks.anomaly import ANOMALY
from advisor.tasks.detection import DETECTION
from tests.builders import present
from tests.reporting import views
from tests.reporting.test_html import with_plain_spaces
from tests.reporting.views import infeasible_view, judged_view, run_view, running_view, said, with_pick
from tests.run_folders import images, write_run
from tests.tables import with_cases
from tests.zones import zone

OWN = run_view()
WAY = f"To meet the budget: {infeasible_view().decision.relaxations[0].text}"
AGAIN = "The alternatives are nearly as good. With the validation images and timings drawn again, the pick "
RIVAL = f"Runner-up: {OWN.decision.runner_up_reason}"
STATE = "Search is running, 34 of 100 configurations have results (2026-01-31 12:00:00 UTC). If it was stopped, "
RESUME = "advisor search --resume runs/20260131-1200-image-classification"
FOUND = tuple(WrongLabel(f"glass/{name}.jpg", "glass", "metal", 0.01, 0.9) for name in ("one", "two", "3", "4"))


def header_of(output: str) -> str:
    """Return the line above the rule of the table."""
    lines = output.splitlines()
    return lines[next(index for index, line in enumerate(lines) if "──" in line) - 1]


def table_of(output: str) -> list[str]:
    lines = output.splitlines()
    start = next(index for index, line in enumerate(lines) if "──" in line)
    end = next(index for index, line in enumerate(lines) if re.match("(top-1|latency): ", line))
    return lines[start + 1 : end]


def test_table_has_ten_rows_at_most_and_marks_the_pick_first() -> None:
    view = run_view()
    output = said(view)
    rows = table_of(output)
    assert 2 <= len(rows) <= 10
    assert rows[0].startswith("▶")
    assert view.decision.pick.configuration.card in rows[0]
    assert sum("▶" in row for row in rows) == 1
    titles = ("top-1 % (95 %)", "latency ms, median (p90)", "size MB", "memory MB")
    assert all(part in header_of(output) for part in titles)


SAID = [f"Pick: {OWN.decision.reason}", AGAIN, RIVAL, "2 failed, 2 skipped", f"Next: {OWN.next_command}"]
SAID += ["meets the 50.0 ms budget on this machine with p90 ", " meet the budget on this machine, "]


@pytest.mark.parametrize(
    ("view", "encoding", "texts", "missing"),
    [
        (OWN, "utf-8", SAID, ["mAP"]),
        (running_view(), "utf-8", [STATE, RESUME], ["Next: "]),
        (infeasible_view(), "utf-8", ["Nothing meets the budget: closest to the limits is", WAY], ["Pick:"]),
        (views.empty_view(), "utf-8", ["No result: no candidate could be evaluated"], ["▶"]),
        (run_view(card_suffix="\x1b]0;owned\x07[red]"), "utf-8", ["[red]"], ["\x1b", "\x07"]),
        (run_view(classes=views.HOSTILE), "ascii", ["> ", "Pick:"], []),
    ],
)
def test_the_terminal_says_what_is_answered(view: RunView, encoding: str, texts: list[str], missing: list[str]) -> None:
    output = " ".join(said(view, encoding=encoding).split())
    assert [text for text in texts if text not in output] == []
    assert [text for text in missing if text in output] == []
    assert output.startswith(STATE) == (view.insights.unfinished is not None)


def test_figures_of_the_images_that_chose_do_not_speak_of_images_like_yours() -> None:
    file, right, *_ = opening_lines(with_pick(judged_view(), holdout_accuracy=None))
    assert file.endswith("; it did not run on the hold-out.")
    assert re.fullmatch(r"Right on \d+ of 100 images that chose it \(95 %: \d+ to \d+\)\.", right)


def test_the_answer_begins_with_file_accuracy_latency_and_what_is_not_known() -> None:
    view = judged_view()
    pick = present(view.decision.pick)
    file, right, time, unknown = opening_lines(view)
    assert file.startswith(f"Ship {view.folder}/{pick.artefact} (")
    held = present(pick.holdout_accuracy)
    assert right == f"Right on {held.value:.0f} of 100 images like yours (95 %: {held.low:.0f} to {held.high:.0f})."
    assert time.endswith(" measured on 2 CPU threads of this machine (test data, 2 cores).")
    assert "the latency on your device (the budget was checked on this machine; name your device: --device)" in unknown
    assert unknown.endswith("; 1 of 10 networks (9 tried; 1 without weights here: advisor catalog fetch --all).")
    assert said(view, 60).splitlines()[0] == file, "a path that is broken cannot be copied"
    page = unescape(with_plain_spaces(render_html(view)))
    documents = render_markdown(view).replace("\\", ""), page, recommendation_json(view)
    assert all(right in document for document in documents)


def not_compressed(status: Status = Status.SKIPPED, stage: str = "stop", reason: str = "not started") -> RunView:
    """Return a judged run whose pick is a float file, of which int8 was not reached, predicted on two phones."""
    view, changed = judged_view(), {"status": status, "stage": stage, "reason": reason}
    forms = {row.configuration.key: row.configuration.compression for row in view.evaluations}
    rows = [replace(row, **changed) if forms[row.configuration.key] == "int8" else row for row in view.evaluations]
    pick = next(row for row in rows if forms[row.configuration.key] == "float32" and row.holdout_accuracy)
    facts = CardFacts(params=4.7e6, macs=385e6, input_size=224)
    pick = replace(pick, card_facts=facts, artefact="artifacts/mobilenet_v1_0.25_128-head-float32.tflite")
    view = replace(view, evaluations=tuple(rows), folder="runs/20261128-123412-my-own-images-50ms")
    return replace(view, decision=replace(view.decision, pick=pick))


def test_the_first_lines_say_why_a_float_pick_is_not_compressed_and_what_is_next() -> None:
    failed, view = not_compressed(Status.FAILED, "convert", "no space"), not_compressed()
    assert "Not compressed: int8 of it failed in the stage convert: no space." in opening_lines(failed)
    assert next_steps(failed) == ()
    assert "Not compressed yet: the search did not reach int8, about 510.0 kB." in opening_lines(view)
    lines, (step,) = said(view, 60).splitlines(), next_steps(view)
    assert lines.count(f"  {step.command}") == 1, "a command that is broken cannot be copied"
    assert step.command.endswith(" --extend 10min")
    assert "which is not compressed yet, about 510.0 kB:" in " ".join(" ".join(lines).split())


def test_a_pick_with_float16_weights_says_that_int8_was_not_reached() -> None:
    view = not_compressed()
    pick = present(view.decision.pick)
    halved = replace(pick, configuration=replace(pick.configuration, compression="float16"))
    lines = opening_lines(replace(view, decision=replace(view.decision, pick=halved)))
    assert "Float16 weights so far: the search did not reach int8, about 1.0 MB." in lines


@with_cases
def test_a_float_pick_says_why_its_int8_file_is_not_the_pick(
    latency_ms: float, points: float, tied: bool, budget_ms: float, said: str
) -> None:
    view = not_compressed(Status.OK, "")
    pick = present(view.decision.pick)
    latency = replace(present(pick.latency), value=latency_ms)
    accuracy = replace(present(pick.accuracy), value=pick.accuracy_percent - points)
    variant = replace(pick.configuration, compression="int8")
    int8 = replace(pick, configuration=variant, latency=latency, latency_p90=None, accuracy=accuracy)
    others = [row for row in view.evaluations if row.network != pick.network]
    unjudged = int8 if said.startswith("would be the pick") else None
    decision = replace(view.decision, ties=(int8,) if tied else (), unjudged=unjudged)
    view = replace(view, evaluations=(*others, pick, int8), decision=decision, limits=Limits(latency_ms=budget_ms))
    (line,) = [line for line in opening_lines(view) if line.startswith("Not compressed")]
    assert line.startswith(f"Not compressed: int8 of it {said}")


def test_an_int8_form_that_the_time_did_not_allow_is_the_next_step_and_one_of_no_worth_says_so() -> None:
    refused = not_compressed(Status.SKIPPED, "promotion", "form not made: it is not worth its CPU time")
    assert any(line.startswith("Not compressed: int8 of it was skipped: form not") for line in opening_lines(refused))
    late = not_compressed(Status.SKIPPED, "promotion", "not started: it would not end within the time limit")
    assert next_steps(late)[0].topic == "a smaller file (int8)"


def test_detectors_that_learnt_other_objects_are_a_step_where_their_weights_are_missing() -> None:
    view = judged_view()
    step = next_steps(replace(view, manifest={**view.manifest, "whole_networks": ["efficientdet_lite0_320"]}))[0]
    assert step.command == "advisor catalog fetch efficientdet_lite0_320"
    assert step.what == "1 network without weights here that learnt other objects"
    assert next_steps(view) == ()


def test_the_pick_is_predicted_on_two_phones_where_no_device_is_named() -> None:
    facts = CardFacts(params=4.7e6, macs=385e6, input_size=224)
    (_, _, time, _) = opening_lines(view := with_pick(judged_view(), card_facts=facts))
    figure, phone = r"[\d.]+ ms \(80 %: [\d.]+ to [\d.]+\) predicted on", r"\(Samsung Galaxy (A54 5G|S23), 2023\)"
    over = "perhaps over the 50.0 ms budget"
    phones = f"{figure} a mid-range phone {phone}, {over}; {figure} a flagship {phone}, {over}"
    here = r"[\d.]+ ms measured on this machine \(test data, 2 cores\)\."
    assert re.fullmatch(rf"On 2 CPU threads: {phones}; {here}", time)
    ends = rf"\(95 %: \d+–\d+\), [\d.]+ ms \(80 %: [\d.]+–[\d.]+; mid-range phone, 2 CPU threads, predicted\), {over}\."
    assert re.search(ends, meeting_line(view))


def test_a_latency_that_is_predicted_for_a_board_names_its_build() -> None:
    question = resolve({"data": "photos", "device": "raspberry-pi-4"}).question
    (board,) = select_targets(question).devices
    view = judged_view()
    latency = Quantity(9.0, "ms", Provenance.PREDICTED, 7.0, 12.0)
    configuration = replace(present(view.decision.pick).configuration, target=board.identity)
    predicted = with_pick(view, latency=latency, configuration=configuration)
    asked = replace(predicted, request=replace(view.request, question=question))
    build = "the build on raspberry-pi-4 (predicted with LiteRT 2.3.0 with XNNPACK; others may take up to 1.9 times"
    assert build in opening_lines(asked)[-1]
    measured = replace(latency, provenance=Provenance.MEASURED)
    assert "the build" not in opening_lines(with_pick(asked, latency=measured))[-1]
    # A board runs no app for Android.
    assert "An app for Android grows" in render_html(view)
    assert "An app for Android grows" not in render_html(asked)


@with_cases
def test_few_images_are_counted_and_all_are_right_only_if_none_is_wrong(right: float, images: int, said: str) -> None:
    judged = Quantity(right, "%", Provenance.MEASURED, n=images)
    assert f"Right on {said} images" in opening_lines(with_pick(judged_view(), holdout_accuracy=judged))[1]


@pytest.mark.parametrize(("clock", "mark"), [("CPU time", "*"), ("shortest wall time", "†")])
def test_a_latency_of_a_busy_machine_says_which_time_it_is(clock: str, mark: str) -> None:
    latency = present(present(judged_view().decision.pick).latency)
    busy = replace(latency, source=f"2 threads, {clock} (contended machine)")
    view = with_pick(judged_view(), latency=busy, contended=True)
    assert f"this machine (test data, 2 cores) while other programs used it ({clock})." in opening_lines(view)[2]
    for form in (said(view), render_markdown(view).replace("\\*", "*")):
        assert re.search(rf"[\d)]\{mark} ", form)
        assert re.search(rf"^\{mark} other programs used .*{clock.split()[0]}", form, re.MULTILINE)
        assert f"{clock.replace(' wall', '')}s ({mark}) and medians (no mark) compare only roughly" in form
    figures = " ".join(figure.remark for figure in key_figures(view, present(view.decision.pick)))
    assert "of 50.0 ms allowed · " in figures
    assert f" · {clock.replace('CPU', 'median CPU')} " in figures
    assert f">contended: {clock}<" in render_html(replace(view, evaluations=(present(view.decision.pick),)))


def test_without_a_budget_none_is_said_to_be_held() -> None:
    view = judged_view()
    unknown = opening_lines(replace(view, limits=replace(view.limits, latency_ms=None)))[-1]
    assert "the latency on your device (all was measured on this machine; name your device: --device)" in unknown


def test_a_network_that_was_only_timed_does_not_count_as_tried() -> None:
    view = judged_view()
    card = next(row.configuration.card for row in view.ok if row != view.decision.pick)
    tried = {row.configuration.card for row in view.ok} - {card}
    unknown = opening_lines(replace(view, manifest={"without_weights": {card: "no mirror"}}))[-1]
    count = len(tried)
    assert f"1 of {count + 1} networks ({count} tried; 1 without weights here: advisor catalog fetch --all)." in unknown
    lost = "the weights of 'x' are not available:\n  hf:x: https://{}: timed out\n  mirror: https://{}/x: gone"
    for servers, words in (
        (("a.org", "b.org"), "a.org and 1 other server: mostly"),
        (("a.org", "a.org"), "a.org: mostly"),
    ):
        manifest = {"without_weights": {card: "no: https://a.org: timed out", "x": lost.format(*servers)}}
        unknown = opening_lines(replace(view, manifest=manifest))[-1]
        assert f"; 2 could not be downloaded from {words} timed out)" in unknown


@pytest.mark.parametrize("task", [DETECTION, ANOMALY], ids=lambda task: task.name)
def test_without_one_class_for_each_image_new_conditions_are_unknown(task: Task, tmp_path: Path) -> None:
    asked = {"task": task.name, "data": "photos"}
    view = RunView.load(write_run(tmp_path, request=asked, dataset=images({"all": 60})))
    why = "no figure is estimated for this task"
    assert "the accuracy on another visit, camera or day" in opening_lines(view)[-1]
    less = f" Expect less: {task.other_conditions}." if task.other_conditions else ""
    shown = " ".join(said(view).split())
    assert f"In new conditions: unknown, because {why}.{less} To know it, hold out images of another visit" in shown
    sentence = (
        f"Its accuracy in new conditions (another visit, camera or day) is unknown, because {why}.{less} To know it"
    )
    assert any(text.startswith(sentence) for text in list_foundations(view, present(view.decision.pick)))
    assert json.loads(recommendation_json(view))["unknown_conditions"] == why


def test_a_hold_out_of_ones_own_answers_for_the_conditions_of_its_images(tmp_path: Path) -> None:
    own = images({"all": 60}) | {"own_split": ["holdout"]}
    view = RunView.load(write_run(tmp_path, request={"task": DETECTION.name, "data": "photos"}, dataset=own))
    assert "unknown" not in said(view)
    assert json.loads(recommendation_json(view))["unknown_conditions"] == ""


def test_a_file_that_finds_nothing_is_not_to_be_shipped_and_says_so_once(judged_detectors: RunView) -> None:
    nothing = Quantity(0.0, "%", Provenance.MEASURED, 0.0, 18.0, n=18)
    recalls = replace(judged_detectors.decision.pick.answers, per_class_recall={"cat": 0.0, "dog": 0.0})
    asked_again = replace(judged_detectors, next_command="advisor export runs/one --pick KEY --to bundle")
    answer = said(with_pick(asked_again, holdout_accuracy=nothing, holdout_answers=recalls), 1000)
    assert "Reaches 0 % mAP@0.5 on images like yours (95 %: 0 to 18)." in answer
    assert (answer.count("inds nothing"), "advisor export" in answer) == (2, False)
    background = replace(recalls, per_class_recall={"background": 0.53, "crack": 0.004})
    (first, *_), risk = (
        opening_lines(view := with_pick(judged_detectors, holdout_answers=background)),
        "next to nothing",
    )
    assert (first.partition(".")[0], risk in said(view)) == ("Not worth shipping yet", True)


def test_other_answers_begin_with_their_own_lines(judged_detectors: RunView) -> None:
    assert "% mAP@0.5 on images like yours" in opening_lines(judged_detectors)[1]
    published = run_view(data=False)
    assert "of ImageNet; on your images nobody knows yet" in opening_lines(published)[1]
    assert not published.unknown_conditions(present(published.decision.pick))
    assert opening_lines(infeasible_view())[0].startswith("Nothing meets the budget. Closest: ")
    assert opening_lines(views.empty_view()) == ()


@with_cases
def test_figures_stand_side_by_side_by_name_and_fit_the_terminal(width: int, names: tuple[str, ...]) -> None:
    view = _trained(judged_view(), "finetune_cached")
    output = said(view, width)
    header = header_of(output)
    assert [name for name in names if name not in header] == []
    assert all(len(line.rstrip()) <= width for line in output.splitlines()[1:])
    assert not re.search(r"^(%|ms|MB)", output, re.MULTILINE), "a number stays with its unit"
    row = table_of(output)[0]
    if width >= 100:
        assert f"{present(view.decision.pick).configuration.card} " in row, "no name is folded"
    if width >= 80:
        pick = view.decision.pick
        assert row.index(f"{pick.accuracy.value:.1f}") < row.index(f"{pick.holdout_accuracy.value:.1f}")
    assert "on the hold-out: expect that figure on images like these" in " ".join(output.split())


def test_long_names_are_cut_before_their_last_part_and_the_memory_stays() -> None:
    view = run_view(card_suffix="_with_a_name_that_does_not_fit_on_one_line_of_this_terminal")
    output = said(view, 100)
    assert "memory MB" in header_of(output)
    assert all(len(line) <= 100 for line in output.splitlines()[1:])
    view = run_view(card_suffix="_torchvision")
    first, second, *_ = table_of(said(view, 80))
    assert first.startswith(f"▶ {view.decision.pick.configuration.card.removesuffix('torchvision')} ")
    assert second.split()[0] == "torchvision"


def _trained(view: RunView, training: str) -> RunView:
    """Return the view with this training recipe in the whole answer."""

    def trained(row: Evaluation) -> Evaluation:
        return replace(row, configuration=replace(row.configuration, training=training))

    decision = view.decision
    ties, front = (tuple(map(trained, rows)) for rows in (decision.ties, decision.front))
    return replace(view, decision=replace(decision, pick=trained(decision.pick), ties=ties, front=front))


def test_the_answer_so_far_has_the_user_s_time_and_the_document_has_utc() -> None:
    view = running_view()
    with zone("CET-1"):
        assert "2026-01-31 13:00:00 CET" in " ".join(said(view).split())
    assert '"at": "2026-01-31T12:00:00+00:00"' in recommendation_json(view)


def test_provenance_stands_on_each_row_where_rows_differ() -> None:
    predicted = Quantity(9.0, "ms", Provenance.PREDICTED, 7.0, 12.0, source="pixel 4 profile")
    view = with_pick(run_view(), latency=predicted)
    output = said(view, width=180)
    assert header_of(output).rstrip().endswith(" latency is")
    assert ["predicted on this machine" in row for row in table_of(output)][:2] == [True, False]
    assert re.search("^top-1: measured *$", output, re.MULTILINE)
    narrow = " ".join(said(view, width=80).split())
    assert f"latency: measured on this machine; predicted on this machine: {text.file(view.decision.pick)} " in narrow


def test_plain_output_has_no_colour_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    stream = io.StringIO()
    print_answer(run_view(), Console(file=stream, force_terminal=True, width=140))
    assert "\x1b[3" not in stream.getvalue()


def test_the_accuracy_of_detectors_is_their_mean_average_precision(detectors: RunView) -> None:
    output = said(detectors)
    assert "mAP@0.5 % (95 %)" in header_of(output)
    assert "\nmAP@0.5: measured; latency: measured on this machine" in output
    assert "top-1" not in output
    judged = said(with_pick(detectors, holdout_accuracy=Quantity(90.0, "%", Provenance.MEASURED)))
    assert "ranked by mAP@0.5 on validation; finalists ran once on the hold-out" in " ".join(judged.split())


def test_an_answer_says_on_how_many_images_of_the_hold_out_it_was_judged() -> None:
    pick = judged_view().decision.pick
    part = with_pick(judged_view(), holdout_part=HoldoutPart(40, 101), holdout_accuracy=pick.holdout_accuracy)
    shown = " ".join(said(part).split())
    judged_on = "judged on 40 of 101 images; the time limit left no time for the other 61"
    assert f"hold-out of {text.file(pick)}: {judged_on}" in shown
    few = with_pick(part, holdout_accuracy=replace(pick.holdout_accuracy, value=76.0, low=62.0, high=90.0))
    assert "points more than the pick. Chance explains up to 14" in " ".join(said(few).split())
    assert "points more than the pick" not in shown


def test_a_missing_figure_of_the_hold_out_has_its_reason() -> None:
    view = judged_view()
    front = (
        replace(row, holdout_accuracy=None) for row in view.decision.front if row.configuration.key != view.pick_key
    )
    others = replace(view, decision=replace(view.decision, front=(view.decision.pick, *front), ties=()))
    ended = with_pick(view, holdout_accuracy=None)
    waiting = replace(others, decision=replace(others.decision, unjudged=others.decision.front[-1]))
    late = "the search ended before"
    for shown, reason in ((others, "only picks (earlier ones, too), their"), (ended, late), (waiting, late)):
        assert f"hold-out –: not run there, because {reason}" in " ".join(said(shown).split())
    few = "(earlier ones, too), their closest rivals and, where the time limit allowed it, one file of each"
    limited = replace(others, manifest={"time_limit": "5min"})
    assert f"because only picks {few} network on the front ran there" in " ".join(said(limited).split())
    assert any(text.startswith(f"Picks {few}") for text in list_foundations(limited, limited.decision.pick))
    assert "Files that did not run on the hold-out come after the others." in " ".join(said(waiting).split())


def test_a_limit_of_the_loss_says_where_the_hold_out_counts() -> None:
    view = run_view(limits=Limits(latency_ms=50.0, size_bytes=8e6, max_drop_points=2.0))
    lost = Quantity(0.4, "points", Provenance.MEASURED, -0.2, 1.0, 0.95, 300)
    remarks = []
    for held_out in (None, lost):
        judged = with_pick(view, drop=lost, holdout_drop=held_out)
        rows = key_figures(judged, present(judged.decision.pick))
        remarks += [row.remark for row in rows if row.label == "Lost by compression"]
    alone, both = remarks
    assert "probability, with the hold-out" in both
    assert "1.0 on validation" in both
    assert "hold-out" not in alone


def test_a_training_that_the_time_limit_shortened_is_named_below_the_table() -> None:
    view = judged_view()
    shortened = with_pick(view, tuning=TuningFacts(True))
    said_of = " ".join(said(shortened, width=180).split())
    assert "fine-tuned for fewer epochs than usual, because of the time limit: " in said_of
    assert "fewer epochs" not in said(view, width=180)


def test_files_of_one_graph_have_one_latency_and_the_table_says_so() -> None:
    view, note = judged_view(), "files of one graph have one latency: the median of their timings"
    pick = view.decision.pick
    twin = replace(pick, artefact_sha256="f" * 64, configuration=replace(pick.configuration, training="finetune_top"))
    assert note not in " ".join(said(view).split())
    shown = replace(view, decision=replace(view.decision, ties=(twin, *view.decision.ties)))
    assert note in " ".join(said(shown).split())
    shortest = replace(pick.latency, source="2 threads, shortest wall time (contended machine)")
    loaded = " ".join(said(with_pick(shown, latency=shortest, contended=True)).split())
    assert f"{note} (of their shortest times, where † stands)" in loaded


def test_likely_wrong_labels_are_counted_and_the_most_doubtful_named() -> None:
    view = replace(run_view(), insights=Insights(labels=CheckedLabels("efficientnet_lite0_224", 400, FOUND)))
    shown = " ".join(said(view).split())
    assert "4 of 400 images outside the hold-out (1.0 %) have a doubtful label: it is wrong, or the image is" in shown
    assert "The most doubtful: glass/one.jpg (glass, rather metal)," in shown
    assert "glass/3.jpg (glass, rather metal) and 1 more. To look at such images: advisor data check pictures" in shown
    lines = said(replace(view, folder="my runs/one", next_command=""), 60).splitlines()
    assert {"  advisor data check pictures", "To ship: advisor export 'my runs/one' --to bundle"} <= {*lines}
    assert len(json.loads(recommendation_json(view))["labels"]["found"]) == 4
    assert "doubtful" not in said(replace(view, insights=Insights(labels=CheckedLabels("one", 400, ()))))


def on_all(**changes: object) -> RunView:
    """Return a judged run whose pick has a file that learns from all images."""
    made = OnAllImages("artifacts/net-all.tflite", "c" * 64, 1, 500, 100, 0.991, 80)
    return with_pick(judged_view(), on_all=replace(made, **changes))


def test_what_is_known_of_a_file_that_learns_from_all_images_is_said() -> None:
    shown = " ".join(said(on_all()).split())
    assert "It has learnt from all 500 images, 100 (25 %) more than the judged file. Its accuracy is not mea" in shown
    assert "Both files give the same answer to 99.1 % of 80 validation images, which both have learnt from." in shown
    failed = " ".join(said(on_all(file="", reason="there was no time left for it")).split())
    assert "It has not learnt from all images, but from all outside the hold-out: there was no time left" in failed


def test_the_page_and_programs_have_the_file_that_learns_from_all_images_apart_from_the_judged_one() -> None:
    view = replace(on_all(), insights=Insights(labels=CheckedLabels("one", 400, FOUND)))
    pick = json.loads(recommendation_json(view))["pick"]
    assert pick["details"]["on_all_images"]["file"] == "artifacts/net-all.tflite" != pick["artefact"]
    page = render_html(view)
    assert "File to ship: <code>artifacts/net-all.tflite</code>" in page
    assert page.index("<b>File that ships:</b>") < page.index("<b>Labels:</b>")
    assert "<h3>Other risks</h3>" in page
    assert "To look at such images: <code>advisor data check pictures</code></li>" in page


def crowded_view() -> RunView:
    """Return a run with much to say: a long path, a busy machine, missing weights, a failed int8 file, high risks."""
    view = not_compressed(Status.FAILED, "convert", "it needs more than the 2.0 GB of memory that it may have")
    missing = {f"network{number}": "https://huggingface.co: no network or no such server" for number in range(99)}
    view = replace(view, manifest={"without_weights": missing, "weights": {"late": {}}}, folder="/home" + 90 * "/you")
    return with_pick(replace(view, dataset=views.few_view().dataset), contended=True)


@pytest.mark.parametrize(
    "view", [judged_view(), views.few_view(), infeasible_view(), run_view(data=False), crowded_view(), running_view()]
)
def test_fourteen_rows_at_most_stand_above_the_table_and_brief_prints_only_these(view: RunView) -> None:
    lines = said(view, 80).partition("──")[0].rstrip().splitlines()[:-2]
    rows = [line[start : start + 80] for line in lines if line.strip() for start in range(0, len(line), 80)]
    assert 3 < len(rows) <= 14
    brief = said(view, 80, brief=True)
    assert said(view, 80).startswith(brief)
    assert "".join(brief.split()) == "".join("".join(rows).split())


def test_the_first_lines_name_the_highest_risk_and_say_less_where_rows_are_missing() -> None:
    shown = " ".join(said(views.few_view(), brief=True).split())
    assert "Warning, missing classes: 1 of 6 classes has no validation image: 'paper'. (2 more below)" in shown
    assert said(views.few_view(), 200).count("1 of 6 classes has no validation image") == 1
    first, _, below = said(crowded_view(), 80).partition("──")
    assert "Warning: missing classes, and 2 more, see below" in first
    assert ("flagship" in first, "no network" in first, "int8 of it failed" in first) == (False, False, False)
    assert "int8 of it failed" in below
    assert "missing classes: 1 of 6 classes has no validation image: 'paper'" in " ".join(below.split())


def test_a_demonstration_says_so_first_and_what_to_type_next() -> None:
    ended = {"stopped": {"why": "time_limit"}, "configurations": 100}
    stopped = replace(judged_view(), manifest=ended, next_command="")
    rest = "Next: more of the search, which its limit ended:\n  advisor search --resume "
    assert (rest in said(stopped).replace(" \n", "\n"), said(stopped).count("--resume")) == (True, 1)
    view = views.with_dataset(stopped, notes=(DEMO_NOTE,))
    shown = said(view)
    assert "--resume" not in shown
    assert (shown.startswith(DEMO_NOTE), shown.count(DEMO_NOTE), "like yours" in shown) == (True, 1, False)
    assert "  advisor search --budget 50ms --data YOUR_PHOTOGRAPHS\n" in shown
    asked = replace(view, request=resolve({**view.request.written, "budget": "2 s"}))
    assert "  advisor search --budget '2 s' --data YOUR_PHOTOGRAPHS\n" in said(asked)
    assert DEMO_NOTE in json.loads(recommendation_json(view))["remarks"]
    documents = (render_html(view), render_markdown(view), summary_html(view))
    assert all(DEMO_NOTE in unescape(document).replace("\\", "") for document in documents)

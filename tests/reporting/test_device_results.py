from dataclasses import replace
from pathlib import Path

import pytest

from advisor.core import Evaluation, Status, Target
from advisor.reporting import RunView, recommendation
from advisor.reporting._device_results import device_decisions, device_results, foreign_runtimes, runtimes_sentence
from advisor.reporting._files import front_csv, render_markdown
from advisor.reporting._html import render_html
from tests.builders import evaluation
from tests.reporting.test_html import with_plain_spaces
from tests.reporting.views import said
from tests.run_folders import write_run
from tests.tables import with_cases


def on(device: str, card: str, accuracy: float, latency: float) -> Evaluation:
    row = evaluation(card, "int8", accuracy=accuracy, half_width=1, latency=latency)
    return replace(row, configuration=replace(row.configuration, target=Target(device, "tflite", "cpu", 4)))


ROWS = [
    on("board", "large", 92, 400),
    on("phone", "large", 92, 9),
    on("board", "small", 80, 30),
    on("phone", "small", 80, 2),
]


def terminal(view: RunView) -> str:
    """Return the report on the terminal in one line."""
    return " ".join(said(view, 200).split())


@pytest.fixture
def view(tmp_path: Path) -> RunView:
    return RunView.load(write_run(tmp_path, ROWS, request={"device": "board,phone"}))


def test_the_model_for_all_and_each_device_s_own_are_decided(view: RunView) -> None:
    assert view.decision.pick.configuration.card == "small"
    picks = {own.device: own.decision.pick.configuration.card for own in device_decisions(view) if own.decision.pick}
    assert picks == {"board": "small", "phone": "large"}
    assert [own.same for own in device_decisions(view)] == [True, False]
    assert [result.sentence for result in device_results(view, view.decision.pick)] == [
        "board: measured 30.0 ms, p90 33.0 ms",
        "phone: measured 2.00 ms, p90 2.20 ms",
    ]


def test_every_form_of_the_report_says_so(view: RunView) -> None:
    for text in (terminal(view), render_markdown(view), render_html(view)):
        assert "phone" in text
        assert "large" in text
    assert recommendation(view)["devices"]["phone"]["pick"]["configuration"]["card"] == "large"
    assert "device_pick" in [line.split(",")[1] for line in front_csv(view).splitlines()[1:]]


def test_where_no_file_runs_everywhere_the_device_to_leave_out_is_named(tmp_path: Path) -> None:
    refused = replace(on("board", "large", 92, 9), status=Status.SKIPPED, reason="board takes int8 alone", latency=None)
    view = RunView.load(write_run(tmp_path, [refused, ROWS[1]], request={"device": "board,phone"}))
    assert view.decision.pick is None
    assert view.decision.reason == "No file runs on all of board, phone."
    (way,) = view.decision.relaxations
    assert (way.limit, way.needed) == ("devices", "phone")


def test_the_device_that_a_pick_must_run_on_is_shown_with_its_figures(tmp_path: Path) -> None:
    run = write_run(tmp_path, ROWS, request={"device": "phone", "must_run_on": ["board"]})
    view = RunView.load(run)
    assert view.decision.pick.configuration.card == "small"
    (result,) = device_results(view, view.decision.pick)
    assert (result.device, result.required) == ("board", True)
    assert "Devices that it must also run on" in render_html(view)


def test_another_runtime_s_latencies_are_marked_as_a_guide(tmp_path: Path) -> None:
    foreign = [
        replace(row, configuration=replace(row.configuration, target=Target("board", "ncnn==1.0", "cpu", 4)))
        for row in ROWS[::2]
    ]
    view = RunView.load(write_run(tmp_path, [*foreign, *ROWS[1::2]], request={"device": "board,phone"}))
    said = terminal(view)
    remark = "board: the latencies are those of ncnn, which does not run .tflite files; take them as a guide"
    assert remark in said
    assert "phone: the latencies" not in said
    assert recommendation(view)["remarks"] == [remark]
    assert remark in render_markdown(view)
    assert "each file with its figures on its slowest device" in said


@with_cases
def test_the_runtimes_of_this_machine_are_compared_in_a_sentence(tmp_path: Path, device: str, said: str) -> None:
    one, other = device.split(",")
    rows = [on(one, "small", 80, 1.1), on(other, "small", 80, 1.9)]
    view = RunView.load(write_run(tmp_path, rows, request={"device": device}))
    assert runtimes_sentence(view) == said
    assert said in with_plain_spaces(render_html(view))
    assert ("times as long" in terminal(view)) == bool(said)


def test_the_latency_of_a_runtime_here_needs_no_remark(tmp_path: Path) -> None:
    row = on("host:onnxruntime", "small", 80, 1.9)
    target = replace(row.configuration.target, runtime="onnxruntime==1.31.1")
    rows = [replace(row, configuration=replace(row.configuration, target=target))]
    assert foreign_runtimes(RunView.load(write_run(tmp_path, rows, request={"device": "host:onnxruntime"}))) == []

"""One file on several devices."""

from dataclasses import replace

from hypothesis import given, strategies as st

from advisor.core import Decision, Evaluation, Limits, Status, Target
from advisor.engine._targets.device_rows import find_worst_cases, with_required_figures
from tests.builders import evaluation, present


def on(device: str, card: str, latency: float, threads: int = 1, **figures: float) -> Evaluation:
    row = evaluation(card, threads=threads, latency=latency, **figures)
    return replace(row, configuration=replace(row.configuration, target=Target(device, "tflite", "cpu", threads)))


def refused(device: str, card: str, reason: str) -> Evaluation:
    return replace(on(device, card, 1.0), status=Status.SKIPPED, reason=reason, latency=None, latency_p90=None)


def test_the_slowest_device_stands_for_a_file_that_runs_on_all_of_them() -> None:
    rows = [on("board", "one", 40, threads=1), on("board", "one", 15, threads=4), on("phone", "one", 4)]
    (found,) = find_worst_cases(rows, ["board", "phone"])
    assert (found.configuration.target.device, found.configuration.target.threads) == ("board", 4), "the fastest there"
    assert found.device_figures["phone"].latency_ms == 4
    rows = [on("board", "one", 4), refused("phone", "one", "it takes int8 alone"), on("board", "two", 9)]
    (found,) = find_worst_cases(rows, ["board", "phone"])
    assert found.status is Status.SKIPPED
    assert found.reason == "it takes int8 alone"


@given(st.lists(st.tuples(st.floats(1, 100), st.floats(1, 100), st.floats(50, 95)), min_size=1, max_size=8))
def test_the_model_for_all_devices_meets_the_budget_on_each(figures: list[tuple[float, float, float]]) -> None:
    rows = [
        on(device, f"card{place}", latency, accuracy=top1)
        for place, (board, phone, top1) in enumerate(figures)
        for device, latency in (("board", board), ("phone", phone))
    ]
    decision = Decision.of_evaluations(find_worst_cases(rows, ["board", "phone"]), Limits(latency_ms=50))
    possible = [place for place, (board, phone, _) in enumerate(figures) if 1.1 * max(board, phone) <= 50]
    assert decision.feasible == bool(possible)
    if decision.feasible and decision.pick is not None:
        assert int(decision.pick.configuration.card.removeprefix("card")) in possible


def test_what_is_known_elsewhere_stands_beside_each_evaluation() -> None:
    rows = [on("host", "one", 4), on("host", "two", 5)]
    (one, two) = with_required_figures(rows, {"phone": [on("phone", "one", 12)]})
    assert present(one.required_figures)["phone"].latency_ms == 12
    assert two.required_figures == {}
    assert not Limits(must_run_on=("phone",)).met_by(two)

from dataclasses import replace

from hypothesis import given, strategies as st

from advisor.core.decision import costs, dominates, front
from advisor.core.evaluation import Evaluation, Status
from tests.builders import evaluation

figures = st.tuples(st.integers(50, 60), st.integers(1, 8), st.integers(1, 8))


def made(rows: list[tuple[int, int, int]]) -> list[Evaluation]:
    return [
        evaluation(f"card_{place}", accuracy=accuracy, latency=latency, size=size)
        for place, (accuracy, latency, size) in enumerate(rows)
    ]


@given(st.lists(figures, min_size=1, max_size=12))
def test_nothing_dominates_the_front_and_something_on_it_covers_the_rest(rows: list[tuple[int, int, int]]) -> None:
    evaluations = made(rows)
    best = front(evaluations)
    points = [costs(e) for e in best]
    for e in evaluations:
        point = costs(e)
        assert point is not None
        beaten = any(dominates(other, point) for other in points if other is not None)
        assert beaten != (e in best)


def test_equal_points_all_stay() -> None:
    assert len(front(made([(80, 5, 5), (80, 5, 5)]))) == 2


def test_failed_evaluations_are_not_on_the_front() -> None:
    failed = replace(evaluation(accuracy=99), status=Status.FAILED)
    assert front([failed, evaluation("other")]) == (evaluation("other"),)


def test_the_front_is_ordered_by_latency() -> None:
    latencies = [e.latency.value for e in front(made([(80, 5, 5), (70, 1, 5), (75, 3, 5)])) if e.latency]
    assert latencies == [1, 3, 5]

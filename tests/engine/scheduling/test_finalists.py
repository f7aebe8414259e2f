"""Who is judged on the hold-out, and the reasons that end a search."""

from dataclasses import replace

import pytest

from advisor.core import Decision, Evaluation, Limits, Provenance, Quantity, Status
from advisor.engine._scheduling.finalists import choose_finalists, pick_capture_finalists
from advisor.engine._scheduling.stop import StopKind, end_early
from tests.builders import evaluation

decide = Decision.of_evaluations
LIMITS = Limits(latency_ms=50)


def _made(card: str, threads: int = 1, **figures: float) -> Evaluation:
    made = evaluation(card, threads=threads, **figures)  # type: ignore[arg-type]
    return replace(made, artefact=f"artifacts/{card}.tflite", artefact_sha256=card)


def _form(card: str, recipe: str, **figures: float) -> Evaluation:
    made = evaluation(card, recipe, **figures)  # type: ignore[arg-type]
    return replace(made, artefact=f"artifacts/{card}-{recipe}.tflite", artefact_sha256=f"{card}-{recipe}")


def _names(evaluations: list[Evaluation], images: int = 500) -> list[str]:
    return [e.configuration.card for e in choose_finalists([decide(evaluations, LIMITS)], evaluations, images)]


def test_the_pick_is_first_and_each_network_on_the_front_has_one_finalist() -> None:
    best = _made("best", accuracy=90, latency=20, size=4e6)
    tied = _made("tied", accuracy=89, latency=25, size=5e6)
    dominated = _made("dominated", accuracy=50, latency=30, size=6e6)
    assert _names([dominated, tied, best]) == ["best", "tied"]
    near = _made("near", accuracy=88, latency=30, size=5e6)
    forms = [_form("fast", form, accuracy=60 - place, latency=2 - place, size=1e6) for place, form in enumerate("ab")]
    assert _names([*forms, near, best]) == ["best", "near", "fast"]
    assert choose_finalists([decide([*forms, near, best], LIMITS)], [*forms, near, best], 500)[-1] == forms[0]


def test_at_most_ten_files_run_on_a_large_holdout_fewer_and_pick_and_runner_up_always() -> None:
    rows = [_made(f"card{n}", accuracy=60 + n, latency=2 + n, size=(1 + n) * 1e6) for n in range(25)]
    whole = _names(rows)
    assert len(whole) == 10
    assert _names(rows, 2500) == whole[:4]
    assert _names(rows, 100_000) == whole[:2]


def test_where_the_drop_has_a_limit_the_float_file_of_the_pick_is_judged_too() -> None:
    rows = [_form("net", "int8", latency=2), _form("net", "float32", latency=90), _form("net", "float16", latency=90)]
    assert choose_finalists([decide(rows, LIMITS)], rows, 500) == (rows[0],)
    assert choose_finalists([decide(rows, LIMITS)], rows, 500, with_drop=True) == (rows[0], rows[1])


FAILED = Evaluation(_made("failed").configuration, Status.FAILED, reason="crashed")
THREADS = [_made("best", 1, accuracy=90, latency=20), _made("best", 2, accuracy=90, latency=11)]
JUDGED = replace(_made("best"), holdout_accuracy=Quantity(88.0, "%", Provenance.MEASURED, n=505))


@pytest.mark.parametrize(
    ("rows", "names"),
    [
        pytest.param(THREADS, ["best", "best"], id="a file with all of its thread counts"),
        pytest.param([FAILED, _made("best")], ["best"], id="what failed is none"),
        pytest.param([_made("slow", latency=80), _made("slower", latency=90)], ["slow"], id="closest to the budget"),
        pytest.param([JUDGED], ["best"], id="one that was judged stays one"),
    ],
)
def test_finalists(rows: list[Evaluation], names: list[str]) -> None:
    assert _names(rows) == names


def test_phone_images_are_tried_on_pick_and_runner_up_and_for_robust_accuracy_on_each_other_network() -> None:
    chosen = (
        _form("a", "int8"), _form("a", "int8", threads=2), _form("a", "float16"), _form("a", "float32"),
        _form("b", "int8"), _form("b", "float16"), _form("b", "int8", threads=2),
    )  # fmt: skip
    tried = [
        [(e.artefact_sha256, e.configuration.target.threads) for e in pick_capture_finalists(chosen, each)]
        for each in (0, 1)
    ]
    assert tried[0] == [("a-int8", 1), ("a-int8", 2), ("a-float16", 1)]
    assert tried[1] == [*tried[0], ("b-int8", 1), ("b-int8", 2)]


def test_reasons_say_what_was_left() -> None:
    late = end_early(StopKind.TIME_LIMIT, "at the time limit of 10min", 3)
    counted = end_early(StopKind.MAX_TRIALS, "at --max-trials 40", 1)
    assert late.text == "stopped at the time limit of 10min: 3 configurations not evaluated"
    assert counted.text == "stopped at --max-trials 40: 1 configuration not evaluated"

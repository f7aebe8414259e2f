"""Who is judged on the hold-out."""

from __future__ import annotations

from dataclasses import replace

from advisor.core.budget import Budget
from advisor.core.decision import decide
from advisor.core.evaluation import Evaluation, Status
from advisor.core.quantity import Provenance, Quantity
from advisor.engine.scheduling.finalists import captured, finalists
from tests.builders import evaluation

BUDGET = Budget(latency_ms=50)


def _made(card: str, threads: int = 1, **figures: float) -> Evaluation:
    made = evaluation(card, threads=threads, **figures)  # type: ignore[arg-type]
    return replace(made, artefact=f"artifacts/{card}.tflite", artefact_sha256=card)


def _form(card: str, recipe: str, **figures: float) -> Evaluation:
    made = evaluation(card, recipe, **figures)  # type: ignore[arg-type]
    return replace(made, artefact=f"artifacts/{card}-{recipe}.tflite", artefact_sha256=f"{card}-{recipe}")


def _names(evaluations: list[Evaluation], images: int = 500) -> list[str]:
    return [e.configuration.card for e in finalists([decide(evaluations, BUDGET)], evaluations, images)]


def test_the_pick_is_first_and_a_file_that_cannot_be_picked_is_none() -> None:
    best = _made("best", accuracy=90, latency=20, size=4e6)
    tied = _made("tied", accuracy=89, latency=25, size=5e6)
    dominated = _made("dominated", accuracy=50, latency=30, size=6e6)
    assert _names([dominated, tied, best]) == ["best", "tied"]


def test_each_network_on_the_front_has_one_finalist() -> None:
    best = _made("best", accuracy=90, latency=20, size=4e6)
    near = _made("near", accuracy=88, latency=30, size=5e6)
    forms = [_form("fast", form, accuracy=60 - place, latency=2 - place, size=1e6) for place, form in enumerate("ab")]
    assert _names([*forms, near, best]) == ["best", "near", "fast"]
    assert finalists([decide([*forms, near, best], BUDGET)], [*forms, near, best], 500)[-1] == forms[0]


def test_there_are_at_most_ten_files() -> None:
    rows = [
        _made(f"card{place}", accuracy=60 + place, latency=2 + place, size=(1 + place) * 1e6) for place in range(25)
    ]
    assert len(_names(rows)) == 10


def test_on_a_large_holdout_only_the_most_probable_picks_run_and_pick_and_runner_up_always() -> None:
    rows = [
        _made(f"card{place}", accuracy=60 + place, latency=2 + place, size=(1 + place) * 1e6) for place in range(25)
    ]
    whole = _names(rows)
    assert _names(rows, 2500) == whole[:4]
    assert _names(rows, 100_000) == whole[:2]


def test_where_the_drop_has_a_limit_the_float_file_of_the_pick_is_judged_too() -> None:
    rows = [_form("net", "int8", latency=2), _form("net", "float32", latency=90), _form("net", "float16", latency=90)]
    assert finalists([decide(rows, BUDGET)], rows, 500) == (rows[0],)
    assert finalists([decide(rows, BUDGET)], rows, 500, with_drop=True) == (rows[0], rows[1])


def test_a_file_is_a_finalist_with_all_of_its_thread_counts() -> None:
    rows = [_made("best", 1, accuracy=90, latency=20), _made("best", 2, accuracy=90, latency=11)]
    assert _names(rows) == ["best", "best"]


def test_what_failed_is_none() -> None:
    failed = Evaluation(_made("failed").configuration, Status.FAILED, reason="crashed")
    assert _names([failed, _made("best")]) == ["best"]


def test_where_nothing_meets_the_budget_the_closest_is_judged() -> None:
    assert _names([_made("slow", latency=80), _made("slower", latency=90, accuracy=70)]) == ["slow"]


def test_a_finalist_that_was_judged_stays_one() -> None:
    judged = replace(_made("best"), holdout_accuracy=Quantity(88.0, "%", Provenance.MEASURED, n=505))
    assert _names([judged]) == ["best"]


def test_phone_images_are_tried_on_pick_and_runner_up_and_for_robust_accuracy_on_each_other_network() -> None:
    def form(card: str, recipe: str, threads: int = 1) -> Evaluation:
        made = evaluation(card, compression=recipe, threads=threads)
        return replace(made, artefact_sha256=f"{card}-{recipe}")

    chosen = (
        form("a", "int8"), form("a", "int8", 2), form("a", "float16"), form("a", "float32"),
        form("b", "int8"), form("b", "float16"), form("b", "int8", 2),
    )  # fmt: skip
    tried = [[(e.artefact_sha256, e.configuration.target.threads) for e in captured(chosen, each)] for each in (0, 1)]
    assert tried[0] == [("a-int8", 1), ("a-int8", 2), ("a-float16", 1)]
    assert tried[1] == [*tried[0], ("b-int8", 1), ("b-int8", 2)]

"""Each rule, broken once by a row that satisfies all the others."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from advisor.core import (
    Agreement,
    CaptureAccuracy,
    Evaluation,
    ImageAnswers,
    Interval,
    LeftOut,
    OnAllImages,
    OtherThings,
    Provenance,
    Quantity,
    TimeSummary,
    TimingFacts,
    UnknownFacts,
    broken_rule,
)
from advisor.core._row_rules import list_rules
from tests.builders import evaluation, present
from tests.tables import with_cases

MEASURED, SHARE = Provenance.MEASURED, Interval(0.8, 0.7, 0.9)
VALIDATED = Quantity(80.0, "%", MEASURED, 60.0, 90.0, 0.95, 20)
ANSWERS = ImageAnswers({"cat": 0.9, "dog": 0.7}, ((9, 1), (3, 7)), metrics={"top1": VALIDATED})
TIMES = TimeSummary(10.0, 11.0, 9.0, 0.1)


def whole() -> Evaluation:
    return replace(
        evaluation(threads=2),
        accuracy=VALIDATED,
        holdout_accuracy=VALIDATED,
        answers=ANSWERS,
        holdout_answers=ANSWERS,
        memory=Quantity(1e6, "bytes", MEASURED),
        new_conditions=Quantity(70.0, "%", Provenance.ESTIMATED, 60.0, 80.0),
        holdout_drop=Quantity(1.0, "points", MEASURED, -1.0, 3.0),
        timing=TimingFacts(threads=2, wall_ms=TIMES),
        artefact="artifacts/a.tflite",
        artefact_sha256="a" * 64,
        latency_p90=Quantity(11.0, "ms", MEASURED),
    )


def other(name: str, **values: Any) -> Callable[[Evaluation], Evaluation]:
    return lambda row: replace(row, **{name: replace(present(getattr(row, name)), **values)})


def made(**values: Any) -> Callable[[Evaluation], Evaluation]:
    return lambda row: replace(row, **values)


def test_a_row_that_fits_breaks_no_rule_under_capture_conditions_and_with_further_figures_of_boxes_either() -> None:
    assert broken_rule(whole(), whole().configuration.key) == ""
    robust = replace(VALIDATED, value=50.0, low=40.0)
    assert broken_rule(replace(whole(), accuracy=robust, capture=CaptureAccuracy(plain=VALIDATED))) == ""
    boxes = replace(ANSWERS, confusion=None, metrics={"map": robust, "map-large": robust})  # decided by mAP@0.5
    assert broken_rule(replace(whole(), answers=boxes, holdout_answers=boxes)) == ""


@with_cases
def test_a_value_that_does_not_fit_is_named_by_its_rule(words: str, field: str, values: dict[str, Any]) -> None:
    change = other(field, **values) if field else made(**values)
    assert words in broken_rule(change(whole()))
    short = other("timing", wall_ms=replace(TIMES, min=10.5))
    assert "the shortest run is at most the median" in broken_rule(short(whole()))
    nameless = made(on_all=OnAllImages("artifacts/b.tflite", "b" * 64))
    assert "every file has a hash" in broken_rule(nameless(whole()))


def test_a_key_of_another_configuration_is_named() -> None:
    assert broken_rule(whole(), "other/head/int8@host:cpux1") == "the key is that of the configuration"


@pytest.mark.parametrize("counts", [((9,), (3, 7)), ((), ()), ((1, 2, 3),)])
def test_counts_of_another_shape_are_no_internal_error(counts: tuple[tuple[int, ...], ...]) -> None:
    assert broken_rule(replace(whole(), answers=replace(ANSWERS, confusion=counts))) in ("", *list_rules())


@pytest.mark.parametrize("share", [-0.1, 1.5, 1e308])
def test_a_share_outside_0_and_1_is_refused(share: float) -> None:
    for change in (
        {"unknown": UnknownFacts(accepted=share)},
        {"unknown": UnknownFacts(kept=Interval(0.5, 0.4, share))},
        {"unknown": UnknownFacts(by_class={"cat": LeftOut(SHARE, share, 5)})},
        {"unknown": UnknownFacts(others=OtherThings(SHARE, Interval(share, 0.0, 1.0), 5))},
        {"agreement": Agreement(share, 9, 1.0)},
        {"on_all": OnAllImages(images=10, more=2, same=share)},
        {"on_all": OnAllImages(images=10, more=-2)},
    ):
        assert broken_rule(replace(whole(), **change)) == "every share is between 0 and 1"
    assert broken_rule(replace(whole(), unknown=UnknownFacts())) == "", "a figure that is not known is allowed"

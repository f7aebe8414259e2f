from __future__ import annotations

from advisor.compression.user_model.values import notes_text


def test_operators_left_in_float_are_counted_named_and_priced() -> None:
    notes = {
        "float_operators": ["a", "b", "c", "d", "e"],
        "float_share": 0.123,
        "drop_points": 0.4,
        "int8_drop_points": 1.9,
        "judged_on": 300,
    }
    assert notes_text(notes) == (
        "5 operators left in float: a, b, c, d and 1 more; they compute 12% of the multiply-accumulates; "
        "loses 0.4 points on 300 images that chose it, int8 loses 1.9"
    )


def test_zeros_are_a_share() -> None:
    assert notes_text({"zero_share": 0.5}) == "50% of the weights are 0"


def test_learning_is_told_by_steps_and_time() -> None:
    assert notes_text({"learning": {"steps": 300, "seconds": 61.4}}) == "trained 300 steps in 61 s"


def test_nothing_said_is_nothing_told() -> None:
    assert notes_text({}) == ""

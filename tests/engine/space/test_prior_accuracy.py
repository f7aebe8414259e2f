"""What training recipes are expected to gain."""

from hypothesis import given, strategies as st

from advisor.engine._space.prior_accuracy import shift_of


@given(st.integers(10, 50_000), st.integers(1, 50_000))
def test_fine_tuning_gains_more_from_more_images(images: int, more: int) -> None:
    assert shift_of("finetune_cached", images + more)[0] < shift_of("finetune_cached", images)[0] < 0.0


def test_a_first_look_has_more_errors_than_the_head_and_no_training_changes_nothing() -> None:
    assert shift_of("head_subset", 2000)[0] > 0.0
    assert shift_of("head", 2000) == shift_of("none", 2000) == (0.0, 0.0)

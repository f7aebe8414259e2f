"""The exact choice of files."""

from itertools import combinations

import numpy as np
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

from advisor.fleet._choice import choose_files, total_value

VALUES = arrays(
    np.float64,
    st.tuples(st.integers(1, 6), st.integers(1, 7)),
    elements=st.integers(-3, 9).map(float) | st.floats(0, 9),
)


@given(VALUES, st.integers(1, 3))
@settings(max_examples=150)
def test_no_other_set_of_as_many_files_has_a_larger_total(values: np.ndarray, count: int) -> None:
    found = choose_files(values, count)
    others = combinations(range(values.shape[1]), min(count, values.shape[1]))
    assert total_value(values, found) >= max(total_value(values, files) for files in others) - 1e-9


@given(VALUES)
def test_a_file_that_another_beats_everywhere_is_not_taken(values: np.ndarray) -> None:
    found = choose_files(values, 3)
    for one, other in combinations(found, 2):
        assert not (values[:, one] <= values[:, other]).all()
        assert not (values[:, other] <= values[:, one]).all()


def test_files_are_named_once_and_in_order() -> None:
    values = np.array([[1.0, 3.0, 2.0], [3.0, 1.0, 2.0]])
    assert choose_files(values, 2) == (0, 1)
    assert choose_files(values, 1) == (0,)
    assert choose_files(values[:1], 3) == (1,)

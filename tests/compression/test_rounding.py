from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from advisor.compression.download import deflated_bytes
from advisor.compression.recipes import recipe
from advisor.compression.rounding import STEPS, round_weights, to_steps
from advisor.core.errors import UnsupportedRecipe
from advisor.tflite.model import read
from tests.tflite.graphs import tiny_features

values = arrays(np.float32, st.integers(1, 400), elements=st.floats(-1000, 1000, width=32))


@given(values)
def test_values_move_by_half_a_step_at_most(given_values: np.ndarray) -> None:
    spread = float(given_values.max()) - float(given_values.min())
    moved = np.abs(to_steps(given_values).astype(float) - given_values.astype(float)).max()
    assert moved <= spread / (STEPS - 2) * 1.125 / 2 + 1e-6


@given(values)
def test_there_are_no_more_values_than_steps(given_values: np.ndarray) -> None:
    assert len(np.unique(to_steps(given_values))) <= STEPS


@given(values)
def test_zero_stays_zero(given_values: np.ndarray) -> None:
    rounded = to_steps(np.append(given_values, np.float32(0)))
    assert rounded[-1] == 0 or len(np.unique(given_values)) == 1


def test_the_file_keeps_its_size_and_deflates_like_int8(float_model: bytes, photographs: np.ndarray) -> None:
    rounded = round_weights(float_model)
    assert abs(len(rounded) - len(float_model)) < 2000
    assert deflated_bytes(rounded) < 0.5 * deflated_bytes(float_model)
    assert recipe("int8").apply(float_model, photographs)


def test_biases_are_left_alone(float_model: bytes) -> None:
    before, after = (
        [row.buffer for row in read(data).tensors if row.is_constant and len(row.shape) == 1]
        for data in (float_model, round_weights(float_model))
    )
    assert before == after


def test_a_model_without_weights_is_refused() -> None:
    with pytest.raises(UnsupportedRecipe, match="no float32 weights"):
        round_weights(tiny_features())

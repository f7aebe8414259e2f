from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from advisor.compression import round_dense
from advisor.core import StageError
from advisor.measurement import predict_arrays
from advisor.tflite import Metadata, read, read_head, with_head, with_probe
from tests.builders import must_fail
from tests.tflite.running import Array
from tests.tflite.test_temperature import CLASSES, DESCRIPTION, WIDTHS, form, random_images, softmax

WHOLE_BYTES = [
    *((parts, name) for parts in (1, 2) for name in ("float32", "dynamic_int8", "int8", "int16x8")),
    *((2, name) for name in ("int8_per_tensor", "int8_float_io", "mixed_int8")),
    *((2, name) for name in ("int8, softmax in float", "int8, sum in float")),
]
"""Forms whose head has weights of float32 or int8: in one part, or as the sum of two."""

Change = Callable[[Array, Array, Array], tuple[Array, Array, Array]]


@cache
def features(parts: int, name: str) -> Array:
    """The features of the random images as a form computes them."""
    return predict_arrays(with_probe(form(parts, name), logits=False), random_images())


def another_head(parts: int, name: str) -> tuple[Array, Array]:
    """A head of random weights of about the size of the former."""
    random, (weights, bias) = np.random.default_rng(0), read_head(form(parts, name))
    return tuple(
        random.normal(size=each.shape).astype(np.float32) * np.abs(weights).mean() * 2 for each in (weights, bias)
    )


@pytest.mark.parametrize(("parts", "name"), WHOLE_BYTES)
def test_the_answers_are_those_of_the_new_head(parts: int, name: str) -> None:
    weights, bias = another_head(parts, name)
    made = predict_arrays(
        with_head(form(parts, name), weights, bias, features(parts, name), round_dense), random_images()
    )
    wanted = softmax(features(parts, name) @ weights + bias)
    assert np.abs(made - wanted).max() <= (1e-6 if name == "float32" else 8e-3)
    assert np.abs(wanted - softmax(features(parts, name) @ np.add(*[read_head(form(parts, name))[0]] * 2))).max() > 0.05


@pytest.mark.parametrize(("parts", "name"), WHOLE_BYTES)
def test_the_operators_the_backbone_and_the_signatures_stay(parts: int, name: str) -> None:
    data = form(parts, name)
    made = with_head(data, *another_head(parts, name), features(parts, name), round_dense)
    assert read(made).operators == read(data).operators
    assert read(made).signatures == read(data).signatures
    assert with_probe(made, logits=False) == with_probe(data, logits=False)


@pytest.mark.parametrize(("parts", "name"), WHOLE_BYTES[:8])
def test_a_head_that_is_read_and_written_answers_alike(parts: int, name: str) -> None:
    weights, bias = read_head(form(parts, name))
    assert (weights.shape, bias.shape) == ((WIDTHS[parts], CLASSES), (CLASSES,))
    rows = features(parts, name)
    made = predict_arrays(with_head(form(parts, name), weights, bias, rows, round_dense), random_images())
    np.testing.assert_allclose(made, softmax(rows @ weights + bias), atol=1e-6 if name == "float32" else 0.01)


def test_labels_and_normalization_stay() -> None:
    data = DESCRIPTION.write_into(form(2, "int8_float_io"))
    made = with_head(data, *another_head(2, "int8_float_io"), features(2, "int8_float_io"), round_dense)
    assert Metadata.read(made) == DESCRIPTION


def test_a_head_of_zeros_answers_every_class_alike() -> None:
    weights, bias = (np.zeros_like(each) for each in another_head(1, "int8"))
    made = predict_arrays(
        with_head(form(1, "int8"), weights, bias, features(1, "int8"), round_dense), random_images()[:3]
    )
    np.testing.assert_allclose(made, 1 / CLASSES, atol=1 / 256)


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("int8", lambda weights, bias, rows: (weights[:-1], bias, rows), "does not fit 24 features of 5 classes"),
        ("int8", lambda weights, bias, rows: (weights, bias[:-1], rows), "does not fit 24 features of 5 classes"),
        ("int8", lambda weights, bias, rows: (weights, bias, rows[:, 1:]), "does not fit 24 features of 5 classes"),
        ("int8", lambda weights, bias, rows: (weights, bias, rows[:0]), "does not fit 24 features of 5 classes"),
        ("int8", lambda weights, bias, rows: (weights * np.nan, bias, rows), "are not finite"),
        ("float16", lambda *given: given, "no constant of float32 or whole bytes"),
        ("weight_int4", lambda *given: given, "no constant of float32 or whole bytes"),
    ],
)
def test_a_head_that_does_not_fit_or_weights_of_other_types_are_refused(name: str, change: Change, reason: str) -> None:
    given = change(*another_head(2, "int8"), features(2, "int8"))
    must_fail(StageError, reason, with_head, form(2, name), *given, round_dense)

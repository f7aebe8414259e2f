"""By how much a graph scales its input before its first layer."""

import pytest
from ai_edge_litert.schema_py_generated import BuiltinOperator

from advisor.tflite import read, scale_of_input
from tests.measurement.small_models import scaling


@pytest.mark.parametrize(
    ("steps", "scale"),
    [
        (((BuiltinOperator.MUL, 1 / 127.5), (BuiltinOperator.ADD, -1)), 1 / 127.5),
        (((BuiltinOperator.SUB, 127.5), (BuiltinOperator.DIV, 127.5)), 1 / 127.5),
        ((), 1),
    ],
    ids=["product and sum", "difference and quotient", "none"],
)
def test_the_scale_is_the_product_of_what_comes_before_the_first_layer(
    steps: tuple[tuple[int, float], ...], scale: float
) -> None:
    assert scale_of_input(read(scaling(32, 5, *steps))) == pytest.approx(scale)

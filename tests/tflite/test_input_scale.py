"""By how much a graph scales its input before its first layer."""

import pytest
from ai_edge_litert.schema_py_generated import BuiltinOperator

from advisor.tflite import read, scale_of_input
from tests.measurement.small_models import scaling
from tests.tables import with_cases


@with_cases
def test_the_scale_is_the_product_of_what_comes_before_the_first_layer(steps: dict[str, float], scale: float) -> None:
    operators = ((getattr(BuiltinOperator, name), constant) for name, constant in steps.items())
    assert scale_of_input(read(scaling(32, 5, *operators))) == pytest.approx(scale)

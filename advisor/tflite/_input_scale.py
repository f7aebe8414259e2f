"""Read by how much a graph scales its input before its first layer.

A user's model may normalize inside, and a search must not normalize twice. The import calls
:func:`scale_of_input` (`catalog/_user_models/master.py`) and warns by the number
(`import_model.py` there). `engine/_space/twice_scaled.py` warns in a search.
"""

import numpy as np

from advisor.tflite._values import Model, Operator, Subgraph

_CHANGE_SCALE = ("MUL", "DIV", "ADD", "SUB")
_KEEP_SCALE = ("QUANTIZE", "DEQUANTIZE", "CAST", "RESHAPE", "TRANSPOSE")


def scale_of_input(model: Model) -> float:
    """Return the factor by which a graph multiplies its input before its first layer.

    A ``Rescaling`` or ``Normalization`` of Keras is a chain of products and sums with constants
    there. The largest factor of the channels counts; 1 without such a chain.
    """
    graph = model.subgraphs[0]
    place = graph.inputs[0] if graph.inputs else -1
    scale = 1.0
    for _ in graph.operators:
        readers = [operator for operator in graph.operators if place in operator.inputs]
        # Where several operators read the input, no chain scales it for all.
        if len(readers) != 1 or readers[0].name not in (*_KEEP_SCALE, *_CHANGE_SCALE):
            break
        operator = readers[0]
        if operator.name in _CHANGE_SCALE:
            factor = _factor_of(graph, operator, place)
            if factor is None:
                break
            scale *= factor
        place = operator.outputs[0]
    return scale


def _factor_of(graph: Subgraph, operator: Operator, place: int) -> float | None:
    """Return the largest factor by which an operator scales; None if it has no constant."""
    other = operator.inputs[1] if operator.inputs[0] == place else operator.inputs[0]
    constant = graph.tensors[other] if other >= 0 else None
    values = constant.real_values() if constant is not None and constant.is_constant else None
    if values is None or not values.size:
        return None
    if operator.name in ("ADD", "SUB"):
        return 1.0
    if operator.name == "MUL":
        return float(np.abs(values).max())
    # A constant divided by the input is no scaling of it.
    divides = operator.inputs[0] == place and bool(np.all(values))
    return float(np.abs(1 / values).max()) if divides else None

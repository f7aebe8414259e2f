"""What tests of files call and look at."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy.typing as npt
from ai_edge_litert.interpreter import Interpreter

Array = npt.NDArray[Any]

Run = Callable[[bytes, Mapping[str, Array]], dict[str, Array]]


class Quantize(Protocol):
    """Quantize a model whose input is ``image`` by a recipe of ai-edge-quantizer."""

    def __call__(self, data: bytes, recipe: str, images: Sequence[Array] = ...) -> bytes: ...


def stays_within_one_delegate(data: bytes) -> bool:
    """Return whether XNNPACK takes the whole file at once."""
    interpreter = Interpreter(model_content=data)
    interpreter.allocate_tensors()
    return [operator["op_name"] for operator in interpreter._get_ops_details()].count("DELEGATE") == 1

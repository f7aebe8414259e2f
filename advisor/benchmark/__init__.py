"""Measurements on this machine: latency, memory, loading, operators and accuracy of one ``.tflite`` file.

The names below are imported when first used; nothing heavy is imported here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from advisor.benchmark.accuracy import predict
    from advisor.benchmark.latency import compare_interleaved, measure
    from advisor.benchmark.operators import profile

__all__ = ["compare_interleaved", "measure", "predict", "profile"]

_HOME = {"predict": "accuracy", "compare_interleaved": "latency", "measure": "latency", "profile": "operators"}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"advisor.benchmark.{_HOME[name]}"), name)
    raise AttributeError(f"module 'advisor.benchmark' has no attribute '{name}'")

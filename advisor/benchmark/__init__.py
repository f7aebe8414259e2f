"""Measurements on this machine: latency, memory, loading, operators and accuracy of one ``.tflite`` file.

The names below are imported when first used; nothing heavy is imported here. The module can be called, for
``advisor.benchmark`` is also the function behind ``advisor benchmark``: a package and a function cannot share a name
otherwise.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from advisor.benchmark.accuracy import predict
    from advisor.benchmark.findings import Benchmark
    from advisor.benchmark.latency import compare_interleaved, measure
    from advisor.benchmark.operators import profile
    from advisor.benchmark.profile_values import Profile
    from advisor.benchmark.session import benchmark

__all__ = ["Benchmark", "Profile", "benchmark", "compare_interleaved", "measure", "predict", "profile"]

_HOME = {
    "Benchmark": "findings",
    "Profile": "profile_values",
    "benchmark": "session",
    "compare_interleaved": "latency",
    "measure": "latency",
    "predict": "accuracy",
    "profile": "operators",
}


class _Callable(ModuleType):
    """The package, callable as :func:`advisor.benchmark.session.benchmark`."""

    def __call__(self, *models: Any, **options: Any) -> Benchmark:
        measured: Benchmark = __getattr__("benchmark")(*models, **options)
        return measured


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"advisor.benchmark.{_HOME[name]}"), name)
    raise AttributeError(f"module 'advisor.benchmark' has no attribute '{name}'")


sys.modules[__name__].__class__ = _Callable

"""Run native code in child processes, so that a crash, a hang or too much memory fails one evaluation only."""

from advisor.isolation.pool import NETWORK, WRITES_BELOW, CallLimits, ChildPool, Children
from advisor.isolation.process import ENDS_WITH_PARENT, Pause
from advisor.isolation.resources import MemoryGate, Scratch

__all__ = [
    "ENDS_WITH_PARENT",
    "NETWORK",
    "WRITES_BELOW",
    "CallLimits",
    "ChildPool",
    "Children",
    "MemoryGate",
    "Pause",
    "Scratch",
]

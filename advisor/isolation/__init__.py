"""Native code runs in child processes: what crashes, hangs or eats the memory there is one failed evaluation."""

from advisor.isolation.memory_gate import MemoryGate
from advisor.isolation.pause import ENDS_WITH_PARENT, Pause
from advisor.isolation.pool import ChildPool
from advisor.isolation.pools import Children
from advisor.isolation.worker import Limits

__all__ = ["ENDS_WITH_PARENT", "ChildPool", "Children", "Limits", "MemoryGate", "Pause"]

"""Native code runs in child processes: what crashes, hangs or eats the memory there is one failed evaluation."""

from advisor.isolation.pool import ChildPool
from advisor.isolation.worker import Limits

__all__ = ["ChildPool", "Limits"]

"""A Ray cluster of two nodes on this machine, reached over 127.0.0.1 only."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


@dataclass
class TwoNodes:
    """The cluster, in a process of its own that takes orders by lines."""

    process: subprocess.Popen[str]
    address: str  # of its control service, for ``RAY_ADDRESS``
    client: str  # of its client server, for ``--executor ray://...``
    environment: dict[str, str]  # what a process needs to reach it

    def order(self, line: str) -> str:
        """Give an order and return the answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return next(row for row in self.process.stdout if row.startswith("> "))[2:].strip()


def environment() -> dict[str, str]:
    """Return the environment of a cluster that this machine alone reaches and that may be slow to start."""
    from advisor.integrations.ray._cluster import LOCAL_ENVIRONMENT

    own = {**LOCAL_ENVIRONMENT, "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
    return {**os.environ, **own, "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(ROOT)}

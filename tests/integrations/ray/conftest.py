"""A Ray cluster of two nodes on this machine, reached over 127.0.0.1 only."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.integrations.ray.nodes import ROOT, TwoNodes, environment
from tests.processes import PATIENCE_S


@pytest.fixture
def two_nodes(starts_processes: None, request: pytest.FixtureRequest) -> Iterator[TwoNodes]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.integrations.ray.cluster"],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
    )
    nodes = TwoNodes(process, "", "", {})
    try:
        address, client = nodes.order(f"start {getattr(request, 'param', '')}").split()
        nodes.address, nodes.client = address, client
        nodes.environment = {**environment(), "RAY_ADDRESS": address}
        yield nodes
    finally:
        nodes.order("end")
        process.wait(timeout=PATIENCE_S)

"""Define the grids of eight bits that several recipes store weights on."""

from __future__ import annotations

from advisor.compression._quantization.grid import Grid, Grids

BYTES = Grids(Grid(8), Grid(8))
"""8 bits for all kernels."""

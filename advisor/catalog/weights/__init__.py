"""Pretrained weights: where they are had (:mod:`sources`), how they are read (:mod:`readers`) and put into a graph
(:mod:`ports`)."""

from __future__ import annotations

from advisor.catalog.weights.file import WeightsFile

__all__ = ["WeightsFile"]

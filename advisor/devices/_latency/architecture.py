"""The features that models of one architecture share: a row of ``model_traits.csv``.

``features.py`` finds the row by the beginning of a model's name. The fit of the predictor depends
on it (``kept_base.py`` hashes this module).
"""

from __future__ import annotations

from dataclasses import dataclass

from advisor.core import Traits


@dataclass(frozen=True)
class Architecture:
    """The features that models with the same beginning of their names share."""

    prefix: str  # beginning of the names
    family: str  # their family
    layers: float  # operators of their float ``.tflite``
    traits: Traits  # shape of the architecture

"""The images of red and green squares that small detectors learn from."""

from __future__ import annotations

from advisor.datasets.images import InputSpec
from tests.training.nets import WIDE

VIEW = InputSpec(WIDE, (127.5,) * 3, (127.5,) * 3)
IMAGES, LEARNT = 48, 36

"""Name the types of arrays that weights are read into."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Tensors = dict[str, Array]
"""Arrays by the names that a file gives them."""

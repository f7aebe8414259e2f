"""SqueezeNet's blobs: ``<layer>/0`` the kernel, ``<layer>/1`` the bias."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from advisor.catalog.weights.mapping.layouts import from_output_first
from advisor.catalog.weights.mapping.tensors import Taken

Array = np.ndarray[Any, Any]


class SqueezeNet:
    """Caffe's networks see blue first; here every model takes red first, so the first kernel's inputs are turned."""

    def arrays(self, layer: Any, tensors: Taken) -> list[Array]:
        name = re.sub(r"^(fire\d)_", r"\1/", layer.name)
        kernel = from_output_first(tensors(f"{name}/0"), layer)
        if layer.name == "conv1":
            kernel = kernel[:, :, ::-1, :]
        return [kernel, tensors(f"{name}/1")]

    def spare(self, name: str) -> bool:
        return not name

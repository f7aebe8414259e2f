"""Trainable forms of a kernel: free, rounded to integers, masked, or with a few shared values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import tensorflow as tf

Floats = NDArray[np.float32]

DEPTHWISE = "DEPTHWISE_CONV_2D"


class Weight:
    """A constant that is trained without constraint.

    Attributes:
        variable: the variable that the optimizer updates.
    """

    def __init__(self, start: Floats) -> None:
        import tensorflow as tf

        self.variable = tf.Variable(start)

    def value(self) -> tf.Tensor:
        """Return the value for the layer, a tensor of the constant's shape."""
        return self.variable


class Rounded(Weight):
    """A kernel rounded to 8 bits with one symmetric step for each output channel; gradients ignore the rounding.

    This is the straight-through estimator of Bengio et al., "Estimating or Propagating Gradients Through Stochastic
    Neurons" (2013).
    """

    def __init__(self, start: Floats, name: str) -> None:
        super().__init__(start)
        axis = start.ndim - 1 if name == DEPTHWISE else 0
        self._others = [other for other in range(start.ndim) if other != axis]

    def value(self) -> tf.Tensor:
        """Return the rounded kernel."""
        import tensorflow as tf

        kernel = tf.convert_to_tensor(self.variable)
        step = tf.maximum(tf.reduce_max(tf.abs(kernel), axis=self._others, keepdims=True) / 127.0, 1e-12)
        return kernel + tf.stop_gradient(tf.round(kernel / step) * step - kernel)


class Masked(Weight):
    """A kernel with some weights fixed at 0.

    Args:
        start: the kernel.
        keep: 1 where a weight stays, else 0.
    """

    def __init__(self, start: Floats, keep: Floats) -> None:
        super().__init__(start * keep)
        self._keep = keep

    def value(self) -> tf.Tensor:
        """Return the kernel with its zeros."""
        return self.variable * self._keep


class Shared(Weight):
    """A kernel of a few shared values. The values are trained; the assignment of weights to values is fixed.

    Args:
        values: the values.
        places: index of each weight's value, int32 of the kernel's shape.
    """

    def __init__(self, values: Floats, places: NDArray[np.int32]) -> None:
        super().__init__(values)
        self._places = places

    def value(self) -> tf.Tensor:
        """Return the kernel."""
        import tensorflow as tf

        return tf.gather(self.variable, self._places)


def rounded_activation(value: tf.Tensor, low: float, high: float) -> tf.Tensor:
    """Round an activation to the 255 steps from ``low`` to ``high``; gradients pass within that range."""
    import tensorflow as tf

    step = max((high - low) / 255.0, 1e-9)
    zero = float(round(-low / step))
    low, high = -zero * step, (255.0 - zero) * step
    inside = tf.clip_by_value(value, low, high)
    return inside + tf.stop_gradient(tf.round(inside / step) * step - inside)

"""What may stand for a kernel while it learns: itself, its integer form, its larger weights, a few shared values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

DEPTHWISE = "DEPTHWISE_CONV_2D"


class Weight(Protocol):
    """A constant that learns."""

    @property
    def variable(self) -> Any:
        """What the optimizer moves."""

    def value(self) -> Any:
        """Return what the layer sees, a tensor of the constant's shape."""


class Free:
    """A constant that may become anything."""

    def __init__(self, start: Floats) -> None:
        import tensorflow as tf

        self.variable = tf.Variable(start)

    def value(self) -> Any:
        """Return the constant."""
        return self.variable


class Rounded(Free):
    """A kernel seen in 8 bits, one symmetric step an output channel; gradients pass as if it were not rounded.

    The straight-through estimate of Bengio et al., "Estimating or Propagating Gradients Through Stochastic Neurons"
    (2013).
    """

    def __init__(self, start: Floats, name: str) -> None:
        super().__init__(start)
        axis = start.ndim - 1 if name == DEPTHWISE else 0
        self._others = [other for other in range(start.ndim) if other != axis]

    def value(self) -> Any:
        """Return the rounded kernel."""
        import tensorflow as tf

        kernel = tf.convert_to_tensor(self.variable)
        step = tf.maximum(tf.reduce_max(tf.abs(kernel), axis=self._others, keepdims=True) / 127.0, 1e-12)
        return kernel + tf.stop_gradient(tf.round(kernel / step) * step - kernel)


class Masked(Free):
    """A kernel whose smallest weights are 0 and stay so.

    Args:
        start: the kernel.
        keep: 1 where a weight stays, else 0.
    """

    def __init__(self, start: Floats, keep: Floats) -> None:
        super().__init__(start * keep)
        self._keep = keep

    def value(self) -> Any:
        """Return the kernel with its zeros."""
        return self.variable * self._keep


class Shared:
    """A kernel of a few values; what learns are the values, not which weight has which.

    Args:
        values: the values.
        places: which value each weight has, int32 of the kernel's shape.
    """

    def __init__(self, values: Floats, places: NDArray[np.int32]) -> None:
        import tensorflow as tf

        self.variable = tf.Variable(values)
        self._places = places

    def value(self) -> Any:
        """Return the kernel."""
        import tensorflow as tf

        return tf.gather(self.variable, self._places)


def rounded_activation(value: Any, low: float, high: float) -> Any:
    """Return an activation in the 255 steps of ``low`` to ``high``; gradients pass within the span."""
    import tensorflow as tf

    step = max((high - low) / 255.0, 1e-9)
    zero = float(round(-low / step))
    low, high = -zero * step, (255.0 - zero) * step
    inside = tf.clip_by_value(value, low, high)
    return inside + tf.stop_gradient(tf.round(inside / step) * step - inside)

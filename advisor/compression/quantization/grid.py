"""The values that weights are stored as, for each kind of kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Grid:
    """The values that weights are stored as: symmetric, the largest magnitude on the last step.

    Attributes:
        bits: bits of a weight.
        per_channel: one step for each output channel, else one for the tensor.
        power_of_two: steps are powers of two. Weights that stay float then end in zero bits, which deflate well.
        in_deviation: number of steps, powers of two, in a channel's root mean square, if the bits hold the largest
            magnitude. The download size depends on the usual values, not on the largest one.
    """

    bits: int
    per_channel: bool = True
    power_of_two: bool = False
    in_deviation: float = 0.0

    @property
    def last(self) -> int:
        """The last step."""
        return (1 << (self.bits - 1)) - 1

    def steps(self, kernel: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
        """Return the step of each output channel (``axis`` of the kernel), in the kernel's rank."""
        import numpy as np

        others = tuple(other for other in range(kernel.ndim) if not self.per_channel or other != axis)
        step: NDArray[np.float64] = np.abs(kernel).max(axis=others, keepdims=True) / self.last
        step[step == 0] = 1.0
        if self.power_of_two:
            step = np.exp2(np.ceil(np.log2(step)))
        if self.in_deviation:
            usual = np.sqrt(np.square(kernel).mean(axis=others, keepdims=True)) / self.in_deviation
            step = np.maximum(step, np.exp2(np.rint(np.log2(np.maximum(usual, 1e-30)))))
        return step

    def round(self, kernel: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
        """Round each weight of a kernel to the grid; ``axis`` is that of the output channels."""
        import numpy as np

        step = self.steps(kernel, axis)
        result: NDArray[np.float64] = np.rint(kernel / step) * step
        return result

    def spread(
        self, kernel: NDArray[np.float64], axis: int, moments: NDArray[np.float64] | None
    ) -> NDArray[np.float64]:
        """Put a kernel on the grid and spread the errors over weights with correlated inputs (:mod:`.rounding`).

        Args:
            kernel: as of :class:`advisor.compression.quantization.layers.Layer`.
            axis: of its output channels.
            moments: of the layer, see :class:`advisor.compression.quantization.observe.Observation`; None if it has
                none.
        """
        import numpy as np

        from advisor.compression.quantization.rounding import spread

        flat = np.moveaxis(kernel, axis, -1).reshape(-1, kernel.shape[axis])
        if moments is None or moments.shape[-1] != len(flat):
            return self.round(kernel, axis)
        steps = np.broadcast_to(self.steps(kernel, axis).reshape(-1), flat.shape[1:])
        if moments.ndim == 3:
            moments = np.repeat(moments, flat.shape[1] // len(moments), axis=0)
        found = spread(flat, steps, moments, None if self.power_of_two else self.last)
        shape = np.moveaxis(kernel, axis, -1).shape
        result: NDArray[np.float64] = np.moveaxis(found.reshape(shape), -1, axis)
        return result


@dataclass(frozen=True)
class Grids:
    """The grid of each kind of kernel; None leaves the kind unchanged.

    Attributes:
        dense: convolutions and dense layers.
        depthwise: depthwise convolutions, which have few weights and are harmed most.
    """

    dense: Grid
    depthwise: Grid | None

"""Build convolutions as a framework pads and normalises them, for `networks.py`."""

from collections.abc import Sequence
from dataclasses import dataclass

from keras import layers

from advisor.catalog._graph import Tensor

Parts = Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class Convolutions:
    """Convolutions without bias, each normalized, as one library pads and normalizes them.

    ``limit`` is the largest output of ReLU. With ``pad``, an ending for names of layers, a stride
    pads both sides by half the kernel, as PyTorch does; TensorFlow's ``same`` does so at stride 1,
    and pads the far side only at stride 2. ``pointwise`` is the padding of 1x1 convolutions, which
    changes no number.
    """

    epsilon: float = 1e-3
    momentum: float = 0.99
    limit: float | None = 6.0
    pad: str = ""
    pointwise: str = "valid"

    def __call__(
        self,
        x: Tensor,
        filters: int,
        kernel: int,
        stride: int,
        name: str,
        norm: str,
        relu: str = "",
    ) -> Tensor:
        """Return a normalized convolution, depthwise for 0 filters, with ReLU if that is named."""
        x = self.convolution(x, filters, kernel, stride, name)
        x = layers.BatchNormalization(epsilon=self.epsilon, momentum=self.momentum, name=norm)(x)
        return layers.ReLU(self.limit, name=relu)(x) if relu else x

    def convolution(self, x: Tensor, filters: int, kernel: int, stride: int, name: str) -> Tensor:
        """Return the convolution alone."""
        padding = self.pointwise if kernel == 1 else "same"
        if self.pad and stride != 1 and kernel != 1:
            x = layers.ZeroPadding2D(kernel // 2, name=f"{name}{self.pad}")(x)
            padding = "valid"
        options = {"padding": padding, "use_bias": False, "name": name}
        if filters:
            return layers.Conv2D(filters, kernel, stride, **options)(x)
        return layers.DepthwiseConv2D(kernel, stride, **options)(x)

    def add_inverted_residual(
        self,
        x: Tensor,
        filters: int,
        kernel: int,
        stride: int,
        expansion: int,
        parts: Parts,
    ) -> Tensor:
        """Widen, filter each channel, narrow, without an activation after the last.

        ``parts`` names the layers of the three.
        """
        if expansion > 1:
            x = self(x, x.shape[-1] * expansion, 1, 1, *parts[0])
        x = self(x, 0, kernel, stride, *parts[1])
        return self(x, filters, 1, 1, *parts[2])

"""Build layers of TF-Slim, named as the checkpoint of one network names them.

`slim_inception.py` builds its networks of them. Weights are found by these names.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from keras import layers

from advisor.catalog._graph import Tensor

Kernel = int | tuple[int, int]

Branch = tuple[tuple[int, Kernel], ...]
"""Channels and kernel of each convolution, one after the other."""

_BATCH_NORM_EPSILON = 1e-3  # inception_utils.inception_arg_scope


@dataclass(frozen=True)
class SlimLayers:
    """Slim's layers, named as the checkpoint of one network names them.

    ``separator`` stands for the dots of a scope, ``relu`` is the name of the activation in
    the scope of its convolution, and ``renamed`` has the scopes that do not follow the
    pattern of :meth:`add_branch`.
    """

    separator: str = "."
    relu: str = "Relu"
    renamed: Mapping[str, str] = field(default_factory=dict)

    def add_convolution(
        self,
        x: Tensor,
        filters: int,
        kernel: Kernel,
        scope: str,
        stride: int = 1,
        padding: str = "same",
    ) -> Tensor:
        """Return a bias-free convolution, normalized, then ReLU."""
        scope = self.renamed.get(scope, scope)
        x = layers.Conv2D(
            filters, kernel, stride, padding=padding, use_bias=False, name=self._name_layer(scope)
        )(x)
        name = self._name_layer(f"{scope}.BatchNorm")
        x = layers.BatchNormalization(scale=False, epsilon=_BATCH_NORM_EPSILON, name=name)(x)
        return layers.ReLU(name=self._name_layer(f"{scope}.{self.relu}"))(x)

    def add_branch(self, x: Tensor, scope: str, *steps: tuple[int, Kernel]) -> Tensor:
        """Return convolutions one after the other: ``Conv2d_0a_1x1``, ``Conv2d_0b_3x3``, ..."""
        for letter, (filters, kernel) in zip("abcde", steps, strict=False):
            height, width = (kernel, kernel) if isinstance(kernel, int) else kernel
            x = self.add_convolution(
                x, filters, kernel, f"{scope}.Conv2d_0{letter}_{height}x{width}"
            )
        return x

    def add_module(
        self,
        x: Tensor,
        scope: str,
        branches: tuple[Branch, ...],
        pooled: int,
        maximum: bool = False,
    ) -> Tensor:
        """Return three ``branches`` beside one that pools first and has ``pooled`` channels."""
        outputs = []
        for index, steps in enumerate(branches):
            outputs.append(self.add_branch(x, f"{scope}.Branch_{index}", *steps))
        outputs.append(self.pool_and_convolve(x, pooled, f"{scope}.Branch_3", maximum))
        return self.join_branches(outputs, scope)

    def pool_and_convolve(
        self,
        x: Tensor,
        filters: int,
        scope: str,
        maximum: bool = False,
    ) -> Tensor:
        """Return 3x3 windows pooled at stride 1, then a 1x1 convolution."""
        if maximum:
            x = self.max_pool(x, f"{scope}.MaxPool_0a_3x3")
        else:
            x = layers.AveragePooling2D(
                3, 1, padding="same", name=self._name_layer(f"{scope}.AvgPool_0a_3x3")
            )(x)
        return self.add_convolution(x, filters, 1, f"{scope}.Conv2d_0b_1x1")

    def max_pool(
        self,
        x: Tensor,
        scope: str,
        stride: int = 1,
        size: int = 3,
        padding: str = "same",
    ) -> Tensor:
        """Return the maximum of each window."""
        return layers.MaxPooling2D(size, stride, padding=padding, name=self._name_layer(scope))(x)

    def add_halving(self, x: Tensor, filters: int, scope: str, padding: str = "valid") -> Tensor:
        """Return a 3x3 convolution at stride 2."""
        return self.add_convolution(x, filters, 3, scope, stride=2, padding=padding)

    def halving_pool(self, x: Tensor, scope: str) -> Tensor:
        """Return the maximum of 3x3 windows at stride 2, without padding."""
        return self.max_pool(x, scope, stride=2, padding="valid")

    def add_reduction(
        self,
        x: Tensor,
        scope: str,
        *branches: tuple[Branch, int],
        padding: str = "valid",
    ) -> Tensor:
        """Return branches that each end in a 3x3 convolution at stride 2, beside a maximum.

        The number of a branch is that of the channels of its last convolution.
        """
        outputs = []
        for index, (steps, filters) in enumerate(branches):
            inner = f"{scope}.Branch_{index}"
            convolved = self.add_branch(x, inner, *steps)
            outputs.append(self.add_halving(convolved, filters, f"{inner}.Conv2d_1a_3x3", padding))
        pool = self.max_pool(
            x, f"{scope}.Branch_{len(branches)}.MaxPool_1a_3x3", stride=2, padding=padding
        )
        return self.join_branches([*outputs, pool], scope)

    def add_fan(self, x: Tensor, filters: int, scope: str, letters: str) -> list[Tensor]:
        """Return a 1x3 and a 3x1 convolution of the same input."""
        convolutions = []
        for letter, (height, width) in zip(letters, ((1, 3), (3, 1)), strict=True):
            name = f"{scope}.Conv2d_0{letter}_{height}x{width}"
            convolutions.append(self.add_convolution(x, filters, (height, width), name))
        return convolutions

    def join_branches(self, branches: list[Tensor], scope: str) -> Tensor:
        """Return the branches of a module, channel after channel."""
        return layers.Concatenate(name=self._name_layer(f"{scope}.concat"))(branches)

    def _name_layer(self, scope: str) -> str:
        return scope.replace(".", self.separator)

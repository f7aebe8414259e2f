"""A small Keras backbone and images that it can learn, for fine-tuning."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from advisor.datasets import InputSpec
from advisor.training._steps import Steps

SIZE = 24
WIDE = 64
VIEW = InputSpec(SIZE, (127.5,) * 3, (127.5,) * 3)


def backbone(seed: int = 0) -> Any:
    """Two convolutions with BatchNorm, pooled: (1, 24, 24, 3) to (1, 8)."""
    import keras

    keras.utils.set_random_seed(seed)
    image = keras.Input((SIZE, SIZE, 3), batch_size=1, name="image")
    last = image
    for number, width in enumerate((6, 8)):
        last = keras.layers.Conv2D(width, 3, strides=2, name=f"conv{number}")(last)
        last = keras.layers.BatchNormalization(name=f"norm{number}")(last)
        last = keras.layers.ReLU(6.0, name=f"relu{number}")(last)
    return keras.Model(image, keras.layers.GlobalAveragePooling2D(name="features")(last))


def halvings(pad: bool, norms: bool = False) -> Any:
    """Three halvings of (1, 64, 64, 3): it has levels. The last resolution is read by a window, not by a stride."""
    import keras

    keras.utils.set_random_seed(1)
    last = image = keras.Input((WIDE, WIDE, 3), batch_size=1, name="image")
    for number, width in enumerate((4, 6, 8)):
        if pad:
            last = keras.layers.ZeroPadding2D(((0, 1), (0, 1)))(last)
        last = keras.layers.Conv2D(width, 3, strides=2, padding="valid" if pad else "same", name=f"conv{number}")(last)
        if norms:
            last = keras.layers.BatchNormalization(name=f"norm{number}")(last)
        last = keras.layers.ReLU(6.0, name=f"relu{number}")(last)
        last = keras.layers.Conv2D(2 * width, 1, activation="relu", name=f"wide{number}")(last)
    last = keras.layers.DepthwiseConv2D(3, padding="same", name="deep")(last)
    return keras.Model(image, keras.layers.GlobalAveragePooling2D(name="features")(last))


def features(model: Any, paths: list[Path]) -> np.ndarray:
    """The backbone's features of images, as LiteRT would give them."""
    return np.asarray(model(np.stack([VIEW.read(path) for path in paths]), training=False), np.float32)


def stripes(folder: Path, count: int) -> tuple[list[Path], list[int]]:
    """Images of upright and level stripes in random colours: what a random backbone's means hardly tell apart."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    paths, labels = [], []
    for number in range(count):
        label = number % 2
        wave = (np.arange(SIZE) + random.integers(6)) % 6 < 3
        lit = np.broadcast_to(wave[:, None] if label else wave[None, :], (SIZE, SIZE))[..., None]
        colours = random.integers(0, 256, (2, 3))
        photo = np.where(lit, colours[0], colours[1]).astype(np.uint8)
        paths.append(folder / f"{number:03d}.png")
        Image.fromarray(photo).save(paths[-1])
        labels.append(label)
    return paths, labels


def _without_graph(begin: Callable[..., None], function: str) -> Callable[..., None]:
    def init(made: Any, *given: Any) -> None:
        begin(made, *given)
        made._is_traced = True
        setattr(made, function, getattr(made, function).python_function)

    return init


@contextmanager
def uncompiled_steps() -> Iterator[None]:
    """Run steps and the answers between them without a graph: a few of them cost less than its trace."""
    from advisor.training._finetune.optimizer import Optimizer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Steps, "__init__", _without_graph(Steps.__init__, "_whole"))
        patch.setattr(Optimizer, "__init__", _without_graph(Optimizer.__init__, "_predict"))
        yield

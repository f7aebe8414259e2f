"""Learn what is usual at each place of an image, and write the file with the distances from it.

The search calls :func:`learn_usual` in a child process, by module and name. It fits a Gaussian of
a backbone's maps to each place: T. Defard et al., "PaDiM: a Patch Distribution Modeling Framework
for Anomaly Detection and Localization" (2021). Here an image is evened first, ways in which whole
good images differ are taken out of the maps, and the file has the whole computation. Another
result for equal images needs a new ``Anomaly.version``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from advisor.datasets import InputSpec
from advisor.measurement import Floats
from advisor.tflite import IN_FLOAT
from advisor.training._finetune.network import convert_to_flatbuffer, load_in_litert
from advisor.training._on_maps.kept import list_outputs

if TYPE_CHECKING:
    import keras

STRIDE = 16  # Pixels of the input to a cell of the maps
CHANNELS = 96  # Channels that the maps are projected to
# Ways in which whole images differ, at most; good images that are needed for each.
WHOLE = 64
IMAGES_FOR_WAY = 8
# Shares of a place's own covariance, and of the mean variance that is added to it.
OWN_COVARIANCE = 0.8
RIDGE = 0.03
# Mean and standard deviation of an evened image; what is added to that of one.
EVEN = 115.0
SPREAD = 40.0
DARK = 4.0
MOST = 4000  # Images that are learnt from, at most: their maps are in memory, 125 kB each
# Cells that the blur reaches; its standard deviation.
REACH = 3
BLUR = 1.25
# Folds of the good images; share that may be a false alarm; how sure that is.
FOLDS = 4
ALARMS = 0.05
SURE = 0.95


@dataclass(frozen=True, eq=False)
class Usual:
    """The Gaussian at each place: of the maps without the ways in which whole images differ."""

    projection: Floats  # of the channels of the maps, (C, D)
    means: Floats  # (rows, columns, D)
    # (coarse rows x coarse columns x D, K): orthonormal ways in which whole good images differ.
    whole: Floats
    whitening: Floats  # (rows, columns, D, D): it makes variance 1 of what is left

    @classmethod
    def of(cls, maps: Floats, projection: Floats) -> Usual:
        """Return the Gaussians of the maps of good images, (N, rows, columns, C).

        The ways are principal components of coarse maps:
        light and grain change in all places at once, a fault in few.
        """
        values = maps @ projection
        means = values.mean(axis=0)
        coarse = _pool_cells(values - means).reshape(len(maps), -1)
        images, width = coarse.shape
        count = min(WHOLE, images // IMAGES_FOR_WAY, width // IMAGES_FOR_WAY)
        # Products of images by images are usually a smaller matrix than those of values by values.
        energies, axes = np.linalg.eigh(coarse @ coarse.T)
        # The smallest energies come first, so the ways that matter are at the end.
        energies = energies[len(maps) - count :]
        axes = axes[..., len(maps) - count :]
        # Where images are equal, a way has no energy, and a division by 0 would spoil all others.
        lengths = np.sqrt(np.maximum(energies, 1e-9))
        whole = coarse.T @ (axes / lengths)
        # The images come last, so that each place has one matrix of values by images.
        rest = np.ascontiguousarray(_take_out(values - means, whole).transpose(1, 2, 3, 0))
        covariance = rest @ rest.transpose(0, 1, 3, 2) / max(len(maps) - 1, 1)
        shared = covariance.mean(axis=(0, 1))
        # Of fewer images than channels, a place's own covariance has no inverse,
        # so shared variance and noise are added.
        noise = RIDGE * float(np.trace(shared)) / len(shared) * np.eye(len(shared))
        mixed = OWN_COVARIANCE * covariance + (1 - OWN_COVARIANCE) * shared + noise
        variances, axes = np.linalg.eigh(mixed)
        # Each axis is divided by its standard deviation, so that all of them count alike.
        deviations = np.sqrt(variances)[..., None, :]
        whitening = np.asarray(axes / deviations, np.float32)
        return cls(projection, means, whole, whitening)

    def heat(self, maps: Floats) -> Floats:
        """Return the blurred distances from the means, (N, rows, columns)."""
        apart_from_means = maps @ self.projection - self.means
        rest = _take_out(apart_from_means, self.whole)
        apart = np.einsum("nhwd,hwde->nhwe", rest, self.whitening, optimize=True)
        distances = np.sqrt((apart**2).sum(axis=-1))
        # At the edge a part of the kernel is outside,
        # so the sum is divided by the weights that are inside.
        return _blur_maps(distances) / _blur_maps(np.ones_like(distances[:1]))


def _pool_cells(maps: Floats) -> Floats:
    """Return means of 2 x 2 cells, (N, rows / 2, columns / 2, D), rounded up:
    the last ones may have fewer cells.
    """
    # Odd numbers of rows and columns get their last one twice.
    odd_rows = maps.shape[1] % 2
    odd_columns = maps.shape[2] % 2
    maps = np.pad(maps, ((0, 0), (0, odd_rows), (0, odd_columns), (0, 0)), "edge")
    count, rows, columns, _ = maps.shape
    cells = maps.reshape(count, rows // 2, 2, columns // 2, 2, -1)
    return np.asarray(cells.mean(axis=(2, 4)), np.float32)


def _take_out(apart: Floats, whole: Floats) -> Floats:
    """Return differences from the means without the ways in which whole images differ,
    (N, rows, columns, D).
    """
    coarse = _pool_cells(apart)
    flat = coarse.reshape(len(apart), -1)
    # What the ways explain: their share in the image, times the way itself.
    known = (flat @ whole @ whole.T).reshape(coarse.shape)
    fine = known.repeat(2, axis=1).repeat(2, axis=2)
    # Where the last row or column was padded, its copy is cut off again.
    fine = fine[:, : apart.shape[1], : apart.shape[2]]
    return np.asarray(apart - fine, np.float32)


@cache
def _make_kernel() -> Floats:
    """Return the weights of the blur, which add up to 1."""
    line = np.exp(-0.5 * (np.arange(-REACH, REACH + 1) / BLUR) ** 2)
    return np.asarray(np.outer(line, line) / line.sum() ** 2, np.float32)


def _blur_maps(maps: Floats) -> Floats:
    """Return maps, (N, rows, columns),
    each place with the sum of the weights of those around it that are inside.
    """
    from scipy.ndimage import convolve

    return np.asarray(convolve(maps, _make_kernel()[None], mode="constant"), np.float32)


def maps_of(model: keras.Model, spec: InputSpec) -> keras.Model:
    """Return the part of a network from a normalised image (1, S, S, 3)
    to the maps (1, rows, columns, C) that are learnt.

    They are the last sums of each width that have about :data:`STRIDE` pixels to a cell, or the
    last map of that size in a network without sums, each averaged over 3 x 3 cells.
    """
    import keras

    maps_in = [layer for layer in model.layers if len(layer.output.shape) == 4]
    sides = {layer.output.shape[1] for layer in maps_in}
    cells = min(sides, key=lambda side: abs(math.log(spec.size / (side * STRIDE))))
    same = [layer for layer in maps_in if layer.output.shape[1] == cells]
    sums = {}
    for layer in same:
        if isinstance(layer, keras.layers.Add):
            sums[layer.output.shape[3]] = layer.output
    image = keras.Input(model.inputs[0].shape[1:], batch_size=1, name="image")
    learnt = list(sums.values()) or [same[-1].output]
    cut = keras.Model(model.inputs[0], learnt)
    maps = list_outputs(cut(_even_light(image, spec)))
    whole = keras.layers.Concatenate()(maps) if len(maps) > 1 else maps[0]
    # A cell alone is noisy: with its neighbours, it also knows a little of the shape around it.
    smooth = keras.layers.AveragePooling2D(3, 1, padding="same")(whole)
    return keras.Model(image, smooth)


def _even_light(image: keras.KerasTensor, spec: InputSpec) -> keras.KerasTensor:
    """Give an image the same mean and spread as every other, so that the light does not matter."""
    from keras import ops

    mean = np.array(spec.mean, np.float32)
    std = np.array(spec.std, np.float32)
    # Light is evened in pixels of 0 to 255, where its limits are,
    # and the network takes normalised ones.
    pixels = image * std + mean
    centred = pixels - ops.mean(pixels, axis=(1, 2, 3), keepdims=True)
    spread = ops.sqrt(ops.mean(centred * centred, axis=(1, 2, 3), keepdims=True))
    gain = SPREAD / (spread + DARK)
    evened = ops.clip(EVEN + centred * gain, 0.0, 255.0)
    return (evened - mean) / std


class Scale(NamedTuple):
    """Distances of good images, each judged by the Gaussians of other folds."""

    usual: float  # the mean: a place of this distance has a heat of 0
    most: float  # the threshold: a heat of a half

    @classmethod
    def of(cls, maps: Floats, groups: Sequence[int], projection: Floats, seed: int) -> Scale:
        """Return the scale in which a share :data:`ALARMS` of new good images is above a
        half, :data:`SURE` sure.

        Near copies are in one fold, and count once. The threshold is an order statistic (S. S.
        Wilks, "Determination of Sample Sizes for Setting Tolerance Limits", 1941). Of too few
        images for that, it is the largest distance.
        """
        from scipy.stats import binom

        names, place = np.unique(np.asarray(groups), return_inverse=True)
        fold = np.random.default_rng(seed).permutation(len(names))[place] % FOLDS
        heats = np.zeros(maps.shape[:3], np.float32)
        for number in range(FOLDS):
            judged = fold == number
            usual = Usual.of(maps[~judged], projection)
            heats[judged] = usual.heat(maps[judged])
        scores = heats.max(axis=(1, 2))
        # One score for a group, its largest: near copies of one image are no further evidence.
        scores_of_groups = []
        for group in range(len(names)):
            scores_of_groups.append(scores[place == group].max())
        largest = np.sort(scores_of_groups)[::-1]
        above = int(binom.ppf(1 - SURE, len(names), ALARMS))  # groups that may be above it
        # The quantile is the first number that reaches the probability.
        # Where it exceeds it, one fewer keeps the guarantee.
        above -= int(binom.cdf(above, len(names), ALARMS) > 1 - SURE)
        return cls(float(heats.mean()), float(largest[max(above, 0)]))


def with_distances(maps: keras.Model, usual: Usual, scale: Scale, name: str) -> keras.Model:
    """Return the network from an image to the output ``name``: heat,
    from 0 at a usual distance to a half at the threshold and to 1.

    In a file of 8 bits the distances are computed in float, by matrices of 8 bits.
    """
    import keras
    from keras import ops

    rows, columns, width = usual.means.shape
    reduced = keras.layers.Conv2D(width, 1, use_bias=False)
    values = reduced(maps.output) - usual.means
    coarse = keras.layers.AveragePooling2D(2, padding="same")(values)
    size, ways = usual.whole.shape
    known = keras.layers.Dense(ways, use_bias=False)
    back = keras.layers.Dense(size, use_bias=False)
    shares = known(keras.layers.Flatten()(coarse))
    whole = ops.reshape(back(shares), coarse.shape)
    fine = keras.layers.UpSampling2D(2)(whole)
    rest = values - fine[:, :rows, :columns]
    # Layers have weights only once they were called.
    reduced.set_weights([usual.projection[None, None]])
    known.set_weights([usual.whole])
    back.set_weights([usual.whole.T])

    def heat(rest: Any) -> Any:
        # One small product for each place, as each has its own whitening.
        apart = ops.matmul(
            ops.reshape(rest, (-1, 1, width)), usual.whitening.reshape(-1, width, width)
        )
        squares = ops.sum(apart * apart, axis=-1)
        distances = ops.reshape(ops.sqrt(squares), (1, rows, columns, 1))
        away = ops.conv(distances, _make_kernel()[:, :, None, None], padding="same")
        # At the edge, the weights of the kernel that are inside add up to less than 1.
        inside = _blur_maps(np.ones((1, rows, columns), np.float32))
        away = away * (1.0 / inside)[..., None]
        over = ops.relu(away - scale.usual) / (scale.most - scale.usual)
        return over / (over + 1.0)

    # The quantizer leaves in float what follows a layer of this name;
    # int8 distances had an AUROC of 54 to 89.
    output = keras.layers.Lambda(heat, (rows, columns, 1), name=IN_FLOAT)(rest)
    # It computes nothing: the output needs its own name, and the layer before has the quantizer's.
    return keras.Model(
        maps.inputs[0], {name: keras.layers.Activation("linear", name=name)(output)}
    )


def learn_usual(
    build: Callable[[], keras.Model],
    spec: InputSpec,
    images: Sequence[tuple[Path, int]],
    seed: int,
    path: Path,
    output: str,
) -> None:
    """Learn what is usual in good images, and write the float file.

    ``build`` makes the network, whose input is as in ``spec``; ``output`` is the name of the
    file's output. ``images`` are paths with the number of the group of each; :data:`MOST` of them
    at most are learnt from.
    """
    import keras

    drawn = np.random.default_rng(seed).permutation(len(images))[:MOST]
    chosen = [images[row] for row in np.sort(drawn)]
    try:
        network = maps_of(build(), spec)
        maps = _compute_maps(network, spec, [image for image, _ in chosen])
        groups = [group for _, group in chosen]
        channels = maps.shape[-1]
        draw = np.random.default_rng(seed).normal(size=(channels, min(CHANNELS, channels)))
        # Orthonormal columns: a projection that stretches nothing.
        projection = np.linalg.qr(draw)[0].astype(np.float32)
        scale = Scale.of(maps, groups, projection, seed)
        # The scale is of folds, and the file has what is usual in all images.
        whole = with_distances(network, Usual.of(maps, projection), scale, output)
        path.write_bytes(convert_to_flatbuffer(whole))
    finally:
        keras.backend.clear_session()


def _compute_maps(network: keras.Model, spec: InputSpec, images: Sequence[Path]) -> Floats:
    """Return the maps of images, (N, rows, columns, C)."""
    # The runtime that ships computes the maps, so that training and file see equal values.
    run: Any = load_in_litert(network)
    (output,) = run.get_output_details()
    return np.concatenate([run(image=spec.read(image)[None])[output] for image in images])

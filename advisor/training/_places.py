"""Learn which place of an image tells about a label: maps of places, and kernels on them.

A stage of taggers calls :func:`write_places`, and the fit of a head (`_label_head.py`) fits
kernels to what it wrote (:func:`fit_kernel`). The score of a label is the largest of a linear
kernel over the places of a map, so labels of whole images teach what one place looks like
(multiple-instance learning: Dietterich et al., 1997). An image without the label shows it nowhere.

The maximum has a gradient at one place alone, and where that is depends on the start. So the fit
begins with the mean of the places and sharpens it: the log of the mean exponential, then the
maximum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.core import StageError
from advisor.datasets import InputSpec
from advisor.training._capture_augmentation import CaptureAugmentation
from advisor.training._place_maps import PlaceKernel, select_place_maps

Floats = NDArray[np.float32]

DIMENSIONS = 48
"""Directions of a map that kernels are fitted along."""

SAMPLED_IMAGES = 32
SAMPLED_PLACES = 20_000
"""Images and places that give the directions."""

SHARPNESS: tuple[tuple[float | None, int, int], ...] = ((1.0, 40, 4), (4.0, 20, 1), (None, 10, 1))
"""Factor of the exponents, steps, and one of how many places is read, of each part of a fit.

None is the maximum. The first part only finds a start, so a quarter of the places is enough.
"""

BLOCK = 64  # Images whose places are scored at once, and held as float32

# A new image may have smaller scores than all that were learnt from, by this share of their range.
MARGIN = 0.25


@dataclass(frozen=True, eq=False)
class PlaceMap:
    """The places of images in one map, in the space that kernels are fitted in."""

    rows: NDArray[np.float16]  # (N, P, D)
    mean: Floats  # (F,)
    basis: Floats  # (F, D): rows are (map - mean) @ basis

    def take(self, places: NDArray[np.int64]) -> PlaceMap:
        """Return the map of some of the images."""
        return PlaceMap(self.rows[places], self.mean, self.basis)


@dataclass(frozen=True, eq=False)
class FittedKernel:
    """Weights (D, C) and bias (C,) of the score of a place in the space of a :class:`PlaceMap`."""

    weights: Floats
    bias: Floats

    def score_images(self, rows: NDArray[np.float16]) -> Floats:
        """Return the largest score over the places of each image, (N, C)."""
        scores = np.zeros((len(rows), len(self.bias)), np.float32)
        for start in range(0, len(rows), BLOCK):
            part = slice(start, start + BLOCK)
            block = rows[part].astype(np.float32)
            of_places = block @ self.weights
            scores[part] = of_places.max(axis=1)
        return scores + self.bias


def write_places(backbone: Path, images: Sequence[Path], spec: InputSpec, path: Path) -> None:
    """Write the places of images in the maps of a float backbone (``.npz``).

    See :func:`read_places`. A backbone without maps of the strides that count has none.
    """
    try:
        data = select_place_maps(backbone.read_bytes())
    except StageError:
        np.savez(path, allow_pickle=False)
        return
    even_places = np.linspace(0, len(images) - 1, SAMPLED_IMAGES)
    sampled = np.unique(even_places.astype(int))
    run = _MapRun(data, spec)
    samples = []
    for place in sampled:
        samples.append(run(images[place]))
    spaces = []
    for maps in zip(*samples, strict=True):
        spaces.append(_find_space(maps))
    project = _MapRun(data, spec, spaces)
    rows = []
    for image in images:
        rows.append(project(image))
    arrays: dict[str, Any] = {}
    for number, (mean, basis) in enumerate(spaces):
        of_map = [maps[number] for maps in rows]
        arrays[f"rows{number}"] = np.stack(of_map)
        arrays[f"mean{number}"] = mean
        arrays[f"basis{number}"] = basis
    np.savez(path, allow_pickle=False, **arrays)


def read_places(path: Path, places: NDArray[np.int64]) -> tuple[PlaceMap, ...]:
    """Return the maps that :func:`write_places` wrote, of some of the images."""
    with np.load(path, allow_pickle=False) as arrays:
        maps = []
        for number in range(len(arrays.files) // 3):
            rows = arrays[f"rows{number}"][places]
            mean = arrays[f"mean{number}"]
            basis = arrays[f"basis{number}"]
            maps.append(PlaceMap(rows, mean, basis))
    return tuple(maps)


class _MapRun:
    """A loaded file of maps; returns the places of an image, (P, F) of each map or projected."""

    def __init__(
        self, data: bytes, spec: InputSpec, spaces: Sequence[tuple[Floats, Floats]] = ()
    ) -> None:
        from ai_edge_litert.interpreter import Interpreter

        self._interpreter: Any = Interpreter(model_content=data, num_threads=1)
        self._interpreter.allocate_tensors()
        (network_input,) = self._interpreter.get_input_details()
        self._input = network_input["index"]
        outputs = self._interpreter.get_output_details()
        self._outputs = [output["index"] for output in outputs]
        self._spec = spec
        self._spaces = spaces
        self._pixels = np.empty((spec.size, spec.size, 3), np.float32)

    def __call__(self, path: Path) -> list[NDArray[np.floating]]:
        """Return the places of the image of a file in each map."""
        pixels = CaptureAugmentation().apply(path, self._spec.size)
        image = self._spec.normalise(pixels, self._pixels)
        self._interpreter.set_tensor(self._input, image[None])
        self._interpreter.invoke()
        maps = []
        for index in self._outputs:
            values = self._interpreter.get_tensor(index)
            maps.append(values.reshape(-1, values.shape[-1]))
        if not self._spaces:
            return maps
        projected = []
        for rows, (mean, basis) in zip(maps, self._spaces, strict=True):
            along = (rows - mean) @ basis
            projected.append(along.astype(np.float16))
        return projected


def _find_space(maps: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Return mean (F,) and basis (F, D) of places: standardised, along the main directions.

    All directions share one scale, so that the penalty of a kernel spares the strong ones.
    """
    share = max(1, SAMPLED_PLACES // len(maps))
    generator = np.random.default_rng(0)
    drawn = []
    for rows in maps:
        count = min(share, len(rows))
        places_of_image = generator.choice(len(rows), count, replace=False)
        drawn.append(rows[places_of_image])
    places = np.concatenate(drawn).astype(np.float32)
    mean = places.mean(axis=0)
    # A channel that is nearly constant would be divided by 0.
    scale = np.maximum(places.std(axis=0), 1e-3)
    standard = (places - mean) / scale
    covariance = standard.T @ standard / len(standard)
    strengths, directions = np.linalg.eigh(covariance)
    # The main directions come last.
    main = slice(-DIMENSIONS, None)
    variance = max(strengths[main].mean(), 1e-6)
    size = np.sqrt(variance)
    basis = directions[:, main] / scale[:, None] / size
    return mean.astype(np.float32), basis.astype(np.float32)


def fit_kernel(
    rows: NDArray[np.float16],
    wanted: NDArray[np.bool_],
    weight: Floats,
    strength: float,
) -> FittedKernel:
    """Fit the kernel of each label to the places of images, (N, P, D).

    ``wanted`` says which labels an image has, (N, C); ``weight`` is that of the image for the
    label. ``strength`` is the inverse strength of the L2 penalty.
    """
    from scipy.optimize import minimize

    # Places come last: sums over what lies side by side take a third of the time.
    images, places, dimensions = rows.shape
    columns = np.ascontiguousarray(rows.transpose(2, 0, 1), np.float32)
    labels = wanted.shape[1]
    shape = (dimensions, labels)
    values = np.zeros(dimensions * labels + labels, np.float64)
    penalty = 1.0 / (strength * images)
    share_of_image = np.asarray(weight.T / images, np.float32)
    order = np.random.default_rng(0).permutation(places)
    for sharpness, steps, share in SHARPNESS:
        read = columns
        if share > 1:
            count = max(1, len(order) // share)
            read = np.ascontiguousarray(columns[:, :, order[:count]])
        loss = _PlaceLoss(read, wanted.T, share_of_image, penalty, sharpness)
        options: Any = {"maxiter": steps}
        solved = minimize(loss, values, jac=True, method="L-BFGS-B", options=options)
        values = solved.x
    weights, bias = _split(values, shape)
    return FittedKernel(weights, bias)


def _split(values: NDArray[np.float64], shape: tuple[int, int]) -> tuple[Floats, Floats]:
    """Return weights (D, C) and bias (C,) of the values of a solver."""
    dimensions, labels = shape
    end = dimensions * labels
    weights = values[:end].reshape(shape)
    bias = values[end:]
    return weights.astype(np.float32), bias.astype(np.float32)


@dataclass(frozen=True, eq=False)
class _PlaceLoss:
    """The mean weighted cross entropy of pooled scores with the penalty, and its gradient."""

    columns: Floats  # (D, N, P)
    wanted: NDArray[np.bool_]  # (C, N)
    weight: Floats  # (C, N)
    penalty: float
    sharpness: float | None

    def __call__(self, values: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Return the loss at values, and its gradient."""
        from scipy.special import expit

        dimensions, images, places = self.columns.shape
        labels = len(self.wanted)
        weights, bias = _split(values, (dimensions, labels))
        flat = self.columns.reshape(dimensions, -1)
        of_places = weights.T @ flat
        scores = of_places.reshape(labels, images, places)
        pooled, shares = _pool(scores, self.sharpness)
        logits = pooled + bias[:, None]
        signs = np.where(self.wanted, 1.0, -1.0)
        entropies = np.logaddexp(0.0, -signs * logits)
        losses = entropies * self.weight
        size = np.square(weights).sum(dtype=np.float64)
        loss = losses.sum(dtype=np.float64) + 0.5 * self.penalty * size
        apart = expit(logits) - self.wanted
        apart = (apart * self.weight).astype(np.float32)
        shares *= apart[:, :, None]
        of_labels = shares.reshape(labels, -1)
        slope = flat @ of_labels.T + self.penalty * weights
        slope_of_bias = apart.sum(axis=1)
        gradient = np.concatenate([slope.ravel(), slope_of_bias])
        return float(loss), gradient.astype(np.float64)


def _pool(scores: Floats, sharpness: float | None) -> tuple[Floats, Floats]:
    """Return one score of each image (C, N) from those of its places (C, N, P), and the share of
    each place in its gradient.
    """
    largest = scores.max(axis=2)
    if sharpness is None:
        # The place of the largest score alone changes it.
        shares = np.zeros_like(scores)
        np.put_along_axis(shares, scores.argmax(axis=2)[:, :, None], 1.0, axis=2)
        return largest, shares
    # Differences from the largest score keep the powers below 1.
    apart = scores - largest[:, :, None]
    powers = np.exp(np.float32(sharpness) * apart)
    total = powers.sum(axis=2)
    mean = total / scores.shape[2]
    pooled = largest + np.log(mean) / np.float32(sharpness)
    powers /= total[:, :, None]
    return pooled, powers


def make_kernel(places: PlaceMap, kernel: FittedKernel, scores: Floats) -> PlaceKernel:
    """Return a kernel on the channels of a map, whose scores are above 0 on nearly all images.

    ``scores`` are the largest ones of the images that it learnt from, (N, C); those of the result
    are higher by what :func:`find_shift` returns.
    """
    weights = places.basis @ kernel.weights
    # The mean of the map moves into the bias.
    of_mean = places.mean @ weights
    bias = kernel.bias - of_mean + find_shift(scores)
    return PlaceKernel(weights.astype(np.float32), bias.astype(np.float32))


def find_shift(scores: Floats) -> Floats:
    """Return what makes the scores of each label positive with a margin, (C,)."""
    low = scores.min(axis=0)
    high = scores.max(axis=0)
    shift = MARGIN * (high - low) - low
    return np.asarray(shift, np.float32)

"""Extract the backbone's features of images with LiteRT, the runtime of the shipped model.

For training, images may be changed as phones may take them, so that a head learns to ignore such
changes. Validation and scoring use the original ones. Mirrored and cropped images are not used:
they gain 0.6 points of top-1 for MobileNetV2's head on TrashNet (mean of 8 splits) at three times
the cost.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from advisor.core import StageError
from advisor.datasets import InputSpec, load, random_capture
from advisor.measurement import Classifier, run_in_threads
from advisor.training._capture_augmentation import CaptureAugmentation

if TYPE_CHECKING:
    import tensorflow as tf

OUTPUT_NAME = "features"

Pixels = NDArray[np.uint8]
# A network: from the input of an image to its features.
Run = Callable[[NDArray[np.float32]], NDArray[np.float32]]

# Above this size, images are decoded again in each epoch.
MAX_CACHE_BYTES = 4_000_000_000

AS_IT_IS = CaptureAugmentation()
# Each image twice more, as phones take it.
CAPTURED = (CaptureAugmentation(1), CaptureAugmentation(2))


def extract_features(
    model_path: Path | str,
    images: Sequence[Path],
    spec: InputSpec,
    augmentation: CaptureAugmentation = AS_IT_IS,
    maps: Path | None = None,
    threads: int = 1,
) -> NDArray[np.float32]:
    """Run a float feature model on images, one at a time in each of some threads: float32 (N, F).

    The ``.tflite`` has one float32 input (1, size, size, 3) and an output named ``features``, or
    only one output. The folder ``maps`` gets the maps at its cuts, see :mod:`._cut_maps`, if it
    has any; None for none. They are written in the order of the images, so they ask for one
    thread. Raises UsageError if the file is missing, RuntimeRefusal if the runtime cannot load or
    run it, and StageError if it has another input size, an image cannot be read, or a feature is
    not finite.
    """
    model = Classifier(model_path, OUTPUT_NAME)
    models: list[Run] = [model, *(Classifier(model_path, OUTPUT_NAME) for _ in range(1, threads))]
    if maps is not None and images:
        from advisor.training._cut_maps import MapWriter

        # A file without a cut, or one that cannot be edited.
        with contextlib.suppress(StageError):
            models = [MapWriter(Path(model_path), maps, len(images))]
    rows = run_in_threads([_make_run(run, spec, augmentation) for run in models], images)
    features = np.stack(rows) if rows else np.zeros((0, model.classes), np.float32)
    if not np.isfinite(features).all():
        raise StageError(
            f"the feature model '{Path(model_path).name}' gives values that are not finite"
        )
    return features


def _make_run(
    run: Run, spec: InputSpec, augmentation: CaptureAugmentation
) -> Callable[[Path], NDArray[np.float32]]:
    """Return what gives the features of an image file, in one buffer for all images of its
    thread.
    """
    pixels = np.empty((spec.size, spec.size, 3), np.float32)

    def describe_image(path: Path) -> NDArray[np.float32]:
        return run(spec.normalise(augmentation.apply(path, spec.size), pixels))

    return describe_image


def join_parts(
    parts: Sequence[Path], rows: NDArray[np.int64] | None = None
) -> NDArray[np.float32]:
    """Return all or some of the concatenated rows of parts (``.npy`` files, float32);
    one part is in memory at a time.

    Raises IndexError if a row is in no part.
    """
    shapes = [np.load(part, mmap_mode="r", allow_pickle=False).shape for part in parts]
    starts = np.cumsum([0, *(shape[0] for shape in shapes)])
    wanted = np.arange(starts[-1]) if rows is None else rows
    if len(wanted) and wanted.max() >= starts[-1]:
        raise IndexError(f"row {wanted.max()} of features in parts with {starts[-1]} rows")
    joined = np.empty((len(wanted), shapes[0][1]), np.float32)
    for part, start, end in zip(parts, starts, starts[1:], strict=False):
        places = np.flatnonzero((wanted >= start) & (wanted < end))
        joined[places] = np.load(part, allow_pickle=False)[wanted[places] - start]
    return joined


@dataclass(frozen=True)
class Augmentation:
    """Strengths of the random changes to training images."""

    crop: float = 0.7  # least share of an image's sides that a crop keeps
    # Largest change of brightness, contrast and saturation:
    # the factor is 1 - colour to 1 + colour.
    colour: float = 0.2
    # concentration of the Beta distribution for mixing pairs of images;
    # 0 for none (Zhang et al., "mixup", 2018)
    mixup: float = 0.1
    turn: float = 0.0  # largest tilt in degrees; half of the images are tilted


def augment_images(
    photos: tf.Tensor,
    targets: tf.Tensor,
    augmentation: Augmentation,
    seed: tf.Tensor,
    side: tf.Tensor | None = None,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Augment images (N, S, S, 3), RGB 0..255, and targets (N, C);
    equal seeds (2,) give equal changes.

    ``side`` is that of the returned images; None for S.
    """
    import tensorflow as tf

    seeds = tf.random.split(seed, 3)
    side = tf.shape(photos)[1] if side is None else side
    photos = _frame_images(photos, augmentation.crop, augmentation.turn, seeds[0], side)
    count = tf.shape(photos)[0]
    factors = 1.0 + augmentation.colour * tf.random.stateless_uniform(
        (3, count, 1, 1, 1), seeds[1], -1.0, 1.0
    )
    grey = tf.reduce_mean(photos, axis=3, keepdims=True)
    photos = grey + (photos - grey) * factors[0]
    mean = tf.reduce_mean(photos, axis=(1, 2, 3), keepdims=True)
    # Saturation, contrast, brightness, in this order:
    # the next factor works on what the last one left.
    photos = tf.clip_by_value((mean + (photos - mean) * factors[1]) * factors[2], 0.0, 255.0)
    if augmentation.mixup > 0:
        photos, targets = mix_images(photos, targets, augmentation.mixup, seeds[2])
    return photos, targets


def _frame_images(
    photos: tf.Tensor, least: float, turn: float, seed: tf.Tensor, side: tf.Tensor
) -> tf.Tensor:
    """Crop each image at a random place, size and tilt, mirror half of them, and resize;
    borders are mirrored.
    """
    import tensorflow as tf

    count = tf.shape(photos)[0]
    whole = tf.cast(tf.shape(photos)[1], tf.float32)
    drawn = tf.random.stateless_uniform((count, 7), seed)
    shares = least + (1.0 - least) * drawn[:, :2]
    centres = whole * (0.5 * shares + (1.0 - shares) * drawn[:, 2:4])
    scales = whole * shares / tf.cast(side, tf.float32)
    # A negative scale mirrors.
    across = tf.where(drawn[:, 4] < 0.5, -scales[:, 0], scales[:, 0])
    tilts = (2.0 * drawn[:, 6] - 1.0) * turn * math.pi / 180.0
    angles = tf.where(drawn[:, 5] < 0.5, tilts, 0.0)
    cosine = tf.cos(angles)
    sine = tf.sin(angles)
    middle = (tf.cast(side, tf.float32) - 1.0) / 2.0
    rows = (
        (across * cosine, -scales[:, 1] * sine, centres[:, 0] - 0.5),
        (across * sine, scales[:, 1] * cosine, centres[:, 1] - 0.5),
    )
    lines = []
    for right, down, at in rows:
        lines.append((right, down, at - middle * (right + down)))
    nothing = tf.zeros(count)
    transforms = tf.stack([*lines[0], *lines[1], nothing, nothing], axis=1)
    framed = tf.raw_ops.ImageProjectiveTransformV3(
        images=photos,
        transforms=transforms,
        output_shape=tf.stack([side, side]),
        fill_value=0.0,
        interpolation="BILINEAR",
        fill_mode="REFLECT",
    )
    return tf.ensure_shape(framed, (None, None, None, 3))


def change_pixels(
    photos: Pixels, augmentation: Augmentation, seed: Sequence[int]
) -> NDArray[np.float32]:
    """Augment images uint8 (N, S, S, 3) as :func:`augment_images` does, without mixing;
    equal seeds give equal changes.

    It serves maps that are computed once. For one image after the other, Pillow takes an eighth of
    the CPU time of a graph of TensorFlow. The result is float32, 0..255.
    """
    random = np.random.default_rng(list(seed))
    changed = np.empty(photos.shape, np.float32)
    for place, photo in enumerate(photos):
        changed[place] = _recolour_image(
            _reframe_image(photo, augmentation, random), augmentation.colour, random
        )
    return changed


def _reframe_image(
    photo: Pixels, augmentation: Augmentation, random: np.random.Generator
) -> Pixels:
    """Return a crop of one image at a random place, size and tilt, mirrored half of the time;
    borders are mirrored.
    """
    from PIL import Image

    side = len(photo)
    across, down = augmentation.crop + (1.0 - augmentation.crop) * random.random(2)
    left = (1.0 - across) * random.random()
    top = (1.0 - down) * random.random()
    mirrored, tilted = random.random(2) < 0.5
    angle = 0.0
    if tilted:
        angle = math.radians(random.uniform(-augmentation.turn, augmentation.turn))
    if angle:
        # A tilt of 20 degrees reads a sixth of the side beyond the border.
        margin = side // 4
        image = Image.fromarray(
            np.pad(photo, ((margin, margin), (margin, margin), (0, 0)), mode="reflect")
        )
        cosine = math.cos(angle)
        sine = math.sin(angle)
        middle = margin + side * (left + 0.5 * across), margin + side * (top + 0.5 * down)
        right = (across * cosine, across * sine)
        below = (-down * sine, down * cosine)
        # The corner of the crop lies half a row and half a column before its middle.
        start = []
        for axis in range(2):
            start.append(middle[axis] - 0.5 * side * (right[axis] + below[axis]))
        lines = (right[0], below[0], start[0], right[1], below[1], start[1])
        image = image.transform(
            (side, side), Image.Transform.AFFINE, lines, Image.Resampling.BILINEAR
        )
    else:
        box = side * left, side * top, side * (left + across), side * (top + down)
        image = Image.fromarray(photo).resize((side, side), Image.Resampling.BILINEAR, box)
    pixels = np.asarray(image)
    if mirrored:
        return pixels[:, ::-1]
    return pixels


def _recolour_image(
    photo: Pixels, colour: float, random: np.random.Generator
) -> NDArray[np.float32]:
    """Return one image with another saturation, contrast and brightness,
    by one product for each pixel.
    """
    saturation, contrast, brightness = 1.0 + colour * random.uniform(-1.0, 1.0, 3)
    to_grey = np.full((3, 3), (1.0 - saturation) / 3.0)
    by_channel = (to_grey + saturation * np.eye(3)) * contrast * brightness
    offset = float(photo.mean()) * (1.0 - contrast) * brightness
    pixels = photo.reshape(-1, 3).astype(np.float32) @ by_channel.astype(np.float32)
    pixels += np.float32(offset)
    np.clip(pixels, 0.0, 255.0, out=pixels)
    changed: NDArray[np.float32] = pixels.reshape(photo.shape)
    return changed


def mix_images(
    photos: tf.Tensor, targets: tf.Tensor, concentration: float, seed: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Mix each image, or its maps, and its target with those of the reversed batch,
    with one share for all.
    """
    import tensorflow as tf

    gammas = tf.random.stateless_gamma((2,), seed, concentration)
    share = gammas[0] / tf.maximum(gammas[0] + gammas[1], 1e-12)
    # The larger share stays with the image itself, so that its own target leads.
    share = tf.maximum(share, 1.0 - share)

    def blend(values: tf.Tensor) -> tf.Tensor:
        return share * values + (1.0 - share) * tf.reverse(values, axis=[0])

    return blend(photos), blend(targets)


class Batches:
    """Images of one size and their labels. They are decoded once into the file ``cache``;
    without it, at each use.
    """

    def __init__(
        self, images: Sequence[Path], labels: Sequence[int], size: int, cache: Path | None
    ) -> None:
        self._images = images
        self._size = size
        self.labels = np.asarray(labels, dtype=np.int64)
        self._decoded = (
            self._decode(cache)
            if cache and len(images) * size * size * 3 <= MAX_CACHE_BYTES
            else None
        )

    def __len__(self) -> int:
        return len(self._images)

    def epoch(
        self,
        indices: NDArray[np.int64],
        batch: int,
        capture: float = 0.0,
        seed: tuple[int, int] = (0, 0),
    ) -> Iterator[tuple[Pixels, NDArray[np.int64]]]:
        """Yield uint8 images (n, S, S, 3) and labels (n,) in the order of ``indices``,
        ``batch`` at a time.

        A share ``capture`` of the images gets a capture condition;
        the seed and each image's index draw which.
        """
        for start in range(0, len(indices), batch):
            part = indices[start : start + batch]
            if self._decoded is not None:
                images = np.array(self._decoded[part])
            else:
                images = np.stack([load(self._images[index], self._size) for index in part])
            for place, index in enumerate(part if capture > 0 else ()):
                # A generator for each image: what it gets does not depend
                # on the batch that it is in.
                draw = (*seed, int(index))
                if np.random.default_rng(draw).random() < capture:
                    images[place] = random_capture(images[place], draw)
            yield images, self.labels[part]

    def _decode(self, cache: Path) -> Pixels:
        shape = (len(self._images), self._size, self._size, 3)
        if not cache.exists():
            partial = cache.with_suffix(".partial")
            rows = np.lib.format.open_memmap(partial, mode="w+", dtype=np.uint8, shape=shape)
            for place, path in enumerate(self._images):
                rows[place] = load(path, self._size)
            rows.flush()
            # Decoded under another name first: a file that is there is whole.
            partial.replace(cache)
        decoded: Pixels = np.load(cache, mmap_mode="r", allow_pickle=False)
        # A file of other images or another size, from an earlier call with this folder.
        if decoded.shape != shape:
            cache.unlink()
            return self._decode(cache)
        return decoded

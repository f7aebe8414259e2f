"""Split a network at a layer through which all data passes, and keep the maps of the frozen lower part on disk.

The lower part runs once over the images, and the upper part learns on its maps. An epoch then costs only the upper
part.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from advisor.core import StageError
from advisor.isolation import usable_cores
from advisor.training._cut_maps import CutMaps
from advisor.training._features import Batches, Pixels, change_pixels
from advisor.training._finetune.finetuning import Finetuning
from advisor.training._finetune.network import convert_to_flatbuffer

if TYPE_CHECKING:
    import keras

Maps = NDArray[np.float16]
Floats = NDArray[np.float32]

MAX_BYTES = 2_000_000_000  # Largest size of the maps on disk. A lower cut with larger maps gives way to a higher one.
MARGIN = 1e-2  # Largest difference of maps of two graphs, over the standard deviation of their values
HALF_ROUNDING = 2e-3  # The same over the value itself: twice the rounding to float16
_COMPARED = 2  # Images whose maps are compared
_BATCH = 32
_SHARE = 0.25  # Largest share of a time limit that the maps may take; then there are fewer changed copies


@dataclass(frozen=True, eq=False)
class Halves:
    """A network in two parts that share its weights."""

    # ``keras.Model`` from images (n, S, S, 3), 0..255, to maps. Its weights stay as they are. If the head reads levels
    # below the cut, a row holds the flattened map, followed by the means of these levels.
    lower: keras.Model
    upper: keras.Model  # ``keras.Model`` from maps to logits (n, C), with the layers ``backbone`` and ``head``
    cut: tuple[int, ...] = ()  # shape of the map, (height, width, channels)
    means: tuple[int, ...] = ()  # columns of the features that have the means of the levels below the cut


def halve_network(model: keras.Model, rows: int, levels: Sequence[str] = ()) -> Halves:
    """Split a network, see :func:`.build_network`, below its lowest trained layer, or higher if the maps of ``rows``
    images and copies would not fit on disk. ``levels`` are the layers of the backbone whose means the head reads too.
    """
    import keras

    body = model.get_layer("backbone")
    features, *means_of_levels = body.outputs[0]._keras_history.operation.input if levels else body.outputs
    plain = keras.Model(body.input, features)
    place = {layer.name: number for number, layer in enumerate(plain.layers)}
    cut = plain.get_layer(_cut(plain, rows)).output
    below = [
        mean
        for mean, level in zip(means_of_levels, levels, strict=True)
        if place[level] < place[cut._keras_history[0].name]
    ]
    joined = keras.layers.Concatenate()([keras.layers.Flatten()(cut), *below]) if below else cut
    whole = keras.Input(body.input.shape[1:], name="pictures")
    lower = keras.Model(whole, keras.Model(body.input, joined)(model.get_layer("normal")(whole)))
    top = keras.Model([cut, *below], body.outputs[0], name="backbone")
    maps = keras.Input(joined.shape[1:], name="maps")
    inputs = [maps]
    if below:  # rows hold the map and the means one after another
        starts = np.cumsum([int(np.prod(cut.shape[1:])), *(mean.shape[-1] for mean in below)]).tolist()
        means = [maps[:, start:end] for start, end in pairwise(starts)]
        inputs = [keras.layers.Reshape(cut.shape[1:])(maps[:, : starts[0]]), *means]
    upper = keras.Model(maps, model.get_layer("head")(model.get_layer("standard")(top(inputs))))
    shape = tuple(int(side) for side in cut.shape[1:])
    return Halves(lower, upper, shape, _columns_of(int(features.shape[-1]), means_of_levels, below))


def _columns_of(last: int, means: Sequence[keras.KerasTensor], below: Sequence[keras.KerasTensor]) -> tuple[int, ...]:
    """Return the columns of some means in features of ``last`` values that are followed by all ``means``."""
    columns = list[int]()
    chosen = set(map(id, below))
    for mean in means:
        end = last + int(mean.shape[-1])
        if id(mean) in chosen:
            columns += range(last, end)
        last = end
    return tuple(columns)


def find_cuts(body: keras.Model) -> list[str]:
    """Return the layers through which all data passes, from the lowest to the highest, without input and output."""
    import keras

    # The layers, and sums or products of maps that are no layers.
    operations = body.operations
    place = {operation.name: number for number, operation in enumerate(operations)}
    last_use = [0] * len(place)
    for operation in operations[1:]:
        for source in keras.tree.flatten(operation.input):
            maker = place[source._keras_history.operation.name]
            last_use[maker] = max(last_use[maker], place[operation.name])
    passages = []
    reach = last_use[0]
    for number, operation in enumerate(operations[1:-1], start=1):
        if reach <= number and isinstance(operation, keras.layers.Layer):
            passages.append(operation.name)
        reach = max(reach, last_use[number])
    return passages


def _cut(body: keras.Model, rows: int) -> str:
    """Return the highest cut below all trained layers; the lowest one above it if its maps would not fit on disk."""
    place = {layer.name: number for number, layer in enumerate(body.layers)}
    first = next(number for number, layer in enumerate(body.layers) if layer.trainable)
    names = find_cuts(body)
    below = [name for name in names if place[name] < first]
    for name in (*below[-1:], *(name for name in names if place[name] >= first)):
        # Higher layers have smaller maps. What lies below such a cut is then frozen, although the recipe would train
        # it.
        if rows * 2 * int(np.prod(body.get_layer(name).output.shape[1:])) <= MAX_BYTES:
            return name
    raise StageError(
        f"{body.name}: the maps of {rows} images take more than {MAX_BYTES / 1e9:.0f} GB at every layer",
        "train on fewer images, or take --training finetune_top",
    )


@dataclass(frozen=True, eq=False)
class PlainMaps:
    """Maps of the unchanged images that the pass for their features has written, at the cut of a network."""

    halves: Halves
    features: Floats  # of the images, with those of all levels, float32 (N, F)
    of_cuts: Sequence[CutMaps]  # maps of the shape of the cut

    def fitting(self, images: Batches, run: Callable[[Floats], Floats]) -> Callable[[NDArray[np.int64]], Floats] | None:
        """Return what reads the maps of some images; None if none are those that ``run`` gives for the first images.

        A cut is known by its operators in a file, and the network was built anew, so a few values decide.
        """
        few = np.arange(min(_COMPARED, len(images)))
        pixels, _ = next(images.epoch(few, len(few)))
        expected = run(pixels.astype(np.float32))
        # Two graphs of one network round differently, and float16 rounds once more.
        margin = MARGIN * float(expected.std())
        for maps in self.of_cuts:
            read = partial(self._rows, maps)
            if np.allclose(read(few), expected, HALF_ROUNDING, margin):
                return read
        return None

    def _rows(self, maps: CutMaps, places: NDArray[np.int64]) -> Floats:
        rows = maps.rows(places).astype(np.float32)
        if not self.halves.means:
            return rows
        means = self.features[places][:, list(self.halves.means)]
        return np.concatenate([rows.reshape(len(rows), -1), means], axis=1)


class MapBatches:
    """The maps of images and of changed copies, float16, and their labels.

    They are written once into ``folder`` for an equal lower part and equal changes, and memory-mapped. One folder is
    for one list of images. If all copies would take too much of ``seconds``, there are fewer of them. ``plain`` are
    the maps of the unchanged images, if they are there; None to compute them.
    """

    def __init__(
        self,
        lower: keras.Model,
        images: Batches,
        hyperparameters: Finetuning,
        folder: Path,
        seconds: float | None = None,
        plain: PlainMaps | None = None,
    ) -> None:
        self._labels = images.labels
        self.copies = hyperparameters.copies
        cache = _find_earlier(lower, images, hyperparameters, folder, seconds)
        if cache is None:
            folder.mkdir(parents=True, exist_ok=True)
            maps = Computed(lower, images, hyperparameters, plain)
            self.copies = maps.affordable(seconds)
            cache = _file_of(lower, images, replace(hyperparameters, copies=self.copies), folder)
            # Renamed when it is whole: a killed training leaves no file that looks complete.
            partial = cache.with_suffix(".partial")
            shape = ((1 + self.copies) * len(images), *lower.output.shape[1:])
            rows = np.lib.format.open_memmap(partial, mode="w+", dtype=np.float16, shape=shape)
            for places, computed in maps.all(self.copies):
                rows[places] = computed
            rows.flush()
            partial.replace(cache)
        self._maps: Maps = np.load(cache, mmap_mode="r", allow_pickle=False)
        self.copies = len(self._maps) // len(images) - 1

    def epoch(
        self, indices: NDArray[np.int64], batch: int, changed: float = 0.0, seed: Sequence[int] = (0, 0)
    ) -> Iterator[tuple[Maps, NDArray[np.int64]]]:
        """Yield float16 maps (n, ...) and labels (n,) of images, of which a share ``changed`` is a changed copy."""
        # Apart from the generator that orders the images, which has the same seed without the 1.
        draws = np.random.default_rng([*seed, 1])
        copy = draws.integers(1, 1 + max(1, self.copies), len(indices)) * (draws.random(len(indices)) < changed)
        rows = indices + len(self._labels) * copy
        for start in range(0, len(indices), batch):
            yield np.array(self._maps[rows[start : start + batch]]), self._labels[indices[start : start + batch]]


def _find_earlier(
    lower: keras.Model, images: Batches, hyperparameters: Finetuning, folder: Path, seconds: float | None
) -> Path | None:
    """Return the file that was written before; with a time limit also one with fewer copies. None for none."""
    most = hyperparameters.copies
    # Without a limit only the full number counts, so that equal searches give equal networks.
    copies = range(most, (most if seconds is None else 0) - 1, -1)
    files = (_file_of(lower, images, replace(hyperparameters, copies=number), folder) for number in copies)
    return next((file for file in files if file.exists()), None)


def _file_of(lower: keras.Model, images: Batches, hyperparameters: Finetuning, folder: Path) -> Path:
    drawn = asdict(replace(hyperparameters.augmentation, mixup=0.0)), hyperparameters.capture, hyperparameters.seed
    known = [lower.output.shape, len(images), hyperparameters.copies, drawn]
    # The weights of the frozen layers are a part of the key: the same images give other maps in another network.
    key = hashlib.sha256(json.dumps(known, sort_keys=True).encode())
    for weight in lower.get_weights():
        key.update(weight.tobytes())
    return folder / f"maps-{key.hexdigest()[:16]}.npy"


class Computed:
    """Computes maps, some images in each thread. LiteRT takes a third of TensorFlow's time; a GPU takes less.

    ``plain`` are maps of the unchanged images that were there before; None to compute them.
    """

    def __init__(
        self, lower: keras.Model, images: Batches, hyperparameters: Finetuning, plain: PlainMaps | None = None
    ) -> None:
        import tensorflow as tf

        self._images = images
        self._hyperparameters = hyperparameters
        self._threads = usable_cores()
        self._idle = SimpleQueue[Callable[[Floats], Floats]]()
        on_gpu = bool(tf.config.list_physical_devices("GPU"))
        data = b"" if on_gpu else _one_at_a_time(lower)
        for _ in range(self._threads):
            self._idle.put(_run_in_tensorflow(lower) if on_gpu else _run_in_litert(data))
        self._read_plain = None
        if plain is not None:
            run = self._idle.get()
            self._read_plain = plain.fitting(images, run)
            self._idle.put(run)

    def affordable(self, seconds: float | None) -> int:
        """Return the number of copies whose maps take a small share of a time limit, beside those of the images."""
        copies = self._hyperparameters.copies
        if seconds is None or not copies:
            return copies
        few = np.arange(min(_BATCH, len(self._images)))
        self._of(few[:2], 1)  # compiles
        began = time.monotonic()
        self._of(few, 1)
        # Passes over the unchanged images.
        plain_passes = 1 if self._read_plain is None else 0
        each_s = (time.monotonic() - began) * len(self._images) / ((1 + plain_passes) * len(few) * self._threads)
        return int(np.clip(_SHARE * seconds // each_s - plain_passes, 0, copies))

    def all(self, copies: int) -> Iterator[tuple[NDArray[np.int64], Floats]]:
        """Yield rows and their maps: those of the images, then of each copy, in the order of the images."""
        every = np.arange(len(self._images))
        parts = [every[start : start + _BATCH] for start in range(0, len(every), _BATCH)]
        with ThreadPoolExecutor(self._threads) as pool:
            for rows_and_maps in pool.map(lambda part: self._of(part, copies), parts):
                yield from rows_and_maps

    def _of(self, part: NDArray[np.int64], copies: int) -> list[tuple[NDArray[np.int64], Floats]]:
        """Return the rows and maps of some images and their copies; each image is read once."""
        run = self._idle.get()
        seed = self._hyperparameters.seed
        capture = self._hyperparameters.capture
        try:
            plain, _ = next(self._images.epoch(part, len(part)))
            rows_and_maps = []
            for copy in range(1 + copies):
                pixels = plain
                # The first copy is the image itself, which the deployed network sees.
                if copy and capture:
                    pixels, _ = next(self._images.epoch(part, len(part), capture, (seed, copy)))
                rows = part + copy * len(self._images)
                if copy == 0 and self._read_plain is not None:
                    maps = self._read_plain(part)
                else:
                    maps = run(self._change_images(pixels, copy, (seed, int(rows[0]))))
                rows_and_maps.append((rows, maps))
            return rows_and_maps
        finally:
            self._idle.put(run)

    def _change_images(self, pixels: Pixels, copy: int, seed: tuple[int, int]) -> Floats:
        """Return images, or a changed copy of them if ``copy`` is not 0."""
        if not copy:
            return pixels.astype(np.float32)
        return change_pixels(pixels, self._hyperparameters.augmentation, seed)


def _one_at_a_time(lower: keras.Model) -> bytes:
    import keras

    single = keras.Input(lower.input.shape[1:], batch_size=1)
    return convert_to_flatbuffer(keras.Model(single, lower(single)))


def _run_in_litert(data: bytes) -> Callable[[Floats], Floats]:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=data, num_threads=1)
    interpreter.allocate_tensors()
    place, output = (
        details[0]["index"] for details in (interpreter.get_input_details(), interpreter.get_output_details())
    )

    def run(images: Floats) -> Floats:
        maps = []
        for image in images:
            interpreter.set_tensor(place, image[None])
            interpreter.invoke()
            maps.append(interpreter.get_tensor(output)[0])
        return np.stack(maps)

    return run


def _run_in_tensorflow(lower: keras.Model) -> Callable[[Floats], Floats]:
    import tensorflow as tf

    compiled = tf.function(lambda images: lower(images, training=False), autograph=False, reduce_retracing=True)
    return lambda images: np.asarray(compiled(tf.constant(images)))

"""Keep the maps of the frozen lower part of a network on disk, for the training of its upper part.

The lower part runs once over the images and their changed copies, and the upper part
(`halves.py`) learns on its maps. An epoch then costs only the upper part. `finetune.py` reads
:class:`MapBatches`; the training that ships reads the maps of the compared one. The names of the
files are hashes of the lower part and of the changes of the images; a folder is for one list of
images and one :data:`~advisor.training._finetune.finetune.FINETUNE_VERSION`.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from advisor.measurement import host
from advisor.training._augmentation import change_pixels
from advisor.training._batches import Batches
from advisor.training._cut_maps import CutMaps
from advisor.training._features import Pixels
from advisor.training._finetune.finetuning import Finetuning
from advisor.training._finetune.halves import Halves
from advisor.training._finetune.network import convert_to_flatbuffer

if TYPE_CHECKING:
    import keras

Maps = NDArray[np.float16]
Floats = NDArray[np.float32]

# Largest difference of maps of two graphs, over the standard deviation of their values.
MARGIN = 1e-2
# The same over the value itself: twice the rounding to float16.
HALF_ROUNDING = 2e-3
# Images whose maps are compared.
_COMPARED = 2
_BATCH = 32
# Largest share of a time limit that the maps may take; then there are fewer changed copies.
_SHARE = 0.25


@dataclass(frozen=True, eq=False)
class PlainMaps:
    """Maps of the unchanged images at a cut, written by the pass for their features."""

    halves: Halves
    features: Floats  # of the images, with those of all levels, float32 (N, F)
    of_cuts: Sequence[CutMaps]  # maps of the shape of the cut

    def find_reader(
        self, images: Batches, run: Callable[[Floats], Floats]
    ) -> Callable[[NDArray[np.int64]], Floats] | None:
        """Return a function that reads the maps of some images; None if no file has them.

        ``run`` gives the maps of the first images, to compare. A cut is known by its operators in
        a file, and the network was built anew, so a few values decide.
        """
        first = np.arange(min(_COMPARED, len(images)))
        pixels, _ = next(images.epoch(first, len(first)))
        expected = run(pixels.astype(np.float32))
        # Two graphs of one network round differently, and float16 rounds once more.
        margin = MARGIN * float(expected.std())
        for maps in self.of_cuts:
            read = partial(self._read_rows, maps)
            if np.allclose(read(first), expected, HALF_ROUNDING, margin):
                return read
        return None

    def _read_rows(self, maps: CutMaps, places: NDArray[np.int64]) -> Floats:
        rows = maps.rows(places).astype(np.float32)
        if not self.halves.means:
            return rows
        means = self.features[places][:, list(self.halves.means)]
        return np.concatenate([rows.reshape(len(rows), -1), means], axis=1)


class MapBatches:
    """The maps of images and of changed copies, float16, and their labels.

    They are written once into ``folder`` for an equal lower part and equal changes, and
    memory-mapped. One folder is for one list of images. If all copies would take too much of
    ``seconds``, there are fewer of them. ``plain`` are the maps of the unchanged images, if
    they are there; None to compute them. ``changing`` are the images that have changed copies;
    None for all.
    """

    def __init__(
        self,
        lower: keras.Model,
        images: Batches,
        hyperparameters: Finetuning,
        folder: Path,
        seconds: float | None = None,
        plain: PlainMaps | None = None,
        changing: NDArray[np.int64] | None = None,
    ) -> None:
        self._labels = images.labels
        self.copies = hyperparameters.copies
        self._changes = np.ones(len(images), bool)
        if changing is not None:
            self._changes[:] = False
            self._changes[changing] = True
        file_of = partial(_name_file, lower, images, hyperparameters, folder, self._changes)
        # With a time limit, a file with fewer copies serves too. Without one, equal searches must
        # give equal networks.
        fewest = self.copies if seconds is None else 0
        earlier = map(file_of, range(self.copies, fewest - 1, -1))
        cache = next((file for file in earlier if file.exists()), None)
        if cache is None:
            folder.mkdir(parents=True, exist_ok=True)
            maps = Computed(lower, images, hyperparameters, plain, self._changes)
            copies = maps.count_affordable(seconds)
            cache = file_of(copies)
            shape = ((1 + copies) * len(images), *lower.output.shape[1:])
            _write_maps(cache, shape, maps.all(copies))
        self._maps: Maps = np.load(cache, mmap_mode="r", allow_pickle=False)
        self.copies = len(self._maps) // len(images) - 1

    def epoch(
        self,
        indices: NDArray[np.int64],
        batch: int,
        changed: float = 0.0,
        seed: Sequence[int] = (0, 0),
    ) -> Iterator[tuple[Maps, NDArray[np.int64]]]:
        """Yield float16 maps (n, ...) and labels (n,) of images.

        A share ``changed`` of them is a changed copy.
        """
        # Apart from the generator that orders the images, which has the same seed without the 1.
        draws = np.random.default_rng([*seed, 1])
        copies = draws.integers(1, 1 + max(1, self.copies), len(indices))
        # Copy 0 is the image itself.
        copies *= draws.random(len(indices)) < changed
        copies *= self._changes[indices]
        rows = indices + len(self._labels) * copies
        for start in range(0, len(indices), batch):
            part = slice(start, start + batch)
            yield np.array(self._maps[rows[part]]), self._labels[indices[part]]


def _write_maps(
    file: Path, shape: tuple[int, ...], parts: Iterable[tuple[NDArray[np.int64], Floats]]
) -> None:
    """Write maps, given in parts with their rows, as float16."""
    # Renamed when it is whole: a killed training leaves no file that looks complete.
    unfinished = file.with_suffix(".partial")
    rows = np.lib.format.open_memmap(unfinished, mode="w+", dtype=np.float16, shape=shape)
    for places, computed in parts:
        rows[places] = computed
    rows.flush()
    unfinished.replace(file)


def _name_file(
    lower: keras.Model,
    images: Batches,
    hyperparameters: Finetuning,
    folder: Path,
    changes: NDArray[np.bool_],
    copies: int,
) -> Path:
    # Images are mixed when the maps are read, so that the maps do not depend on it.
    augmentation = asdict(replace(hyperparameters.augmentation, mixup=0.0))
    changes_drawn = augmentation, hyperparameters.capture, hyperparameters.seed
    parts = [lower.output.shape, len(images), copies, changes_drawn]
    # The weights of the frozen layers are a part of the key: another network gives other maps.
    key = hashlib.sha256(json.dumps(parts, sort_keys=True).encode())
    if not changes.all():
        key.update(changes.tobytes())
    for weight in lower.get_weights():
        key.update(weight.tobytes())
    return folder / f"maps-{key.hexdigest()[:16]}.npy"


class Computed:
    """Computes maps, some images in each thread.

    LiteRT takes a third of TensorFlow's time; a GPU takes less. ``plain`` are maps of the
    unchanged images that were there before; None to compute them. ``changes`` (N,) says which
    images have changed copies; None for all.
    """

    def __init__(
        self,
        lower: keras.Model,
        images: Batches,
        hyperparameters: Finetuning,
        plain: PlainMaps | None = None,
        changes: NDArray[np.bool_] | None = None,
    ) -> None:
        import tensorflow as tf

        self._images = images
        self._changes = np.ones(len(images), bool) if changes is None else changes
        self._hyperparameters = hyperparameters
        self._threads = host.describe().cores
        self._idle = SimpleQueue[Callable[[Floats], Floats]]()
        on_gpu = bool(tf.config.list_physical_devices("GPU"))
        data = b"" if on_gpu else _convert_for_one_image(lower)
        for _ in range(self._threads):
            self._idle.put(_run_in_tensorflow(lower) if on_gpu else _run_in_litert(data))
        self._read_plain = None
        if plain is not None:
            run = self._idle.get()
            self._read_plain = plain.find_reader(images, run)
            self._idle.put(run)

    def count_affordable(self, seconds: float | None) -> int:
        """Return the number of copies whose maps take a small share of a time limit.

        The maps of the images themselves count too.
        """
        copies = self._hyperparameters.copies
        if seconds is None or not copies:
            return copies
        changing = np.flatnonzero(self._changes)
        first = changing[:_BATCH]
        # The first call compiles.
        self._compute_part(first[:2], 1)
        began = time.monotonic()
        self._compute_part(first, 1)
        # Passes over the unchanged images: their maps may be there already.
        plain_passes = 1 if self._read_plain is None else 0
        image_s = (time.monotonic() - began) / ((1 + plain_passes) * len(first) * self._threads)
        left_s = _SHARE * seconds - plain_passes * image_s * len(self._images)
        return int(np.clip(left_s // (image_s * len(changing)), 0, copies))

    def all(self, copies: int) -> Iterator[tuple[NDArray[np.int64], Floats]]:
        """Yield rows and their maps, of the images and of each copy, part after part."""
        places = np.arange(len(self._images))
        parts = []
        for start in range(0, len(places), _BATCH):
            parts.append(places[start : start + _BATCH])
        with ThreadPoolExecutor(self._threads) as pool:
            for rows_and_maps in pool.map(lambda part: self._compute_part(part, copies), parts):
                yield from rows_and_maps

    def _compute_part(
        self, part: NDArray[np.int64], copies: int
    ) -> list[tuple[NDArray[np.int64], Floats]]:
        """Return the rows and maps of some images and their copies; each image is read once."""
        run = self._idle.get()
        seed = self._hyperparameters.seed
        capture = self._hyperparameters.capture
        changing = part[self._changes[part]]
        rows_and_maps = []
        try:
            if self._read_plain is None:
                plain, _ = next(self._images.epoch(part, len(part)))
                rows_and_maps.append((part, run(plain.astype(np.float32))))
                plain = plain[self._changes[part]]
            else:
                rows_and_maps.append((part, self._read_plain(part)))
                plain = self._read_images(changing if copies else changing[:0])
            rounds = 1 + copies if len(changing) else 1
            for copy in range(1, rounds):
                pixels = plain
                if capture:
                    pixels = self._read_images(changing, capture, (seed, copy))
                rows = changing + copy * len(self._images)
                changed = change_pixels(
                    pixels, self._hyperparameters.augmentation, (seed, int(rows[0]))
                )
                rows_and_maps.append((rows, run(changed)))
            return rows_and_maps
        finally:
            self._idle.put(run)

    def _read_images(
        self, places: NDArray[np.int64], capture: float = 0.0, seed: tuple[int, int] = (0, 0)
    ) -> Pixels:
        """Return some images, of which a share ``capture`` gets a capture condition."""
        batches = self._images.epoch(places, max(1, len(places)), capture, seed)
        return next((pixels for pixels, _ in batches), np.zeros((0, 0, 0, 3), np.uint8))


def _convert_for_one_image(lower: keras.Model) -> bytes:
    import keras

    single = keras.Input(lower.input.shape[1:], batch_size=1)
    return convert_to_flatbuffer(keras.Model(single, lower(single)))


def _run_in_litert(data: bytes) -> Callable[[Floats], Floats]:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=data, num_threads=1)
    interpreter.allocate_tensors()
    place = interpreter.get_input_details()[0]["index"]
    output = interpreter.get_output_details()[0]["index"]

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

    compiled = tf.function(
        lambda images: lower(images, training=False), autograph=False, reduce_retracing=True
    )
    return lambda images: np.asarray(compiled(tf.constant(images)))

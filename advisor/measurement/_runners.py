"""Run a ``.tflite`` file with named outputs over images, in several threads.

Tasks derive their own :class:`Runner` and read its outputs. An answer does not depend on the
number of threads.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from advisor.core import RuntimeRefusal, StageError
from advisor.datasets import STAYING, InputSpec, draw_captures
from advisor.isolation import agent, usable_cores
from advisor.measurement._other_images import Floats
from advisor.measurement._processes import existing_model
from advisor.tflite import Metadata, quantize

Item = TypeVar("Item")
Answer = TypeVar("Answer")

# Images for which a further thread is worth loading the file once more.
LEAST_PART = 32


def count_threads(images: int) -> int:
    """Return how many threads a file is run in over so many images:
    at most one for each core, and few.
    """
    return max(1, min(usable_cores(for_job=True), images // LEAST_PART))


def run_in_threads(
    runs: Sequence[Callable[[Item], Answer]], items: Sequence[Item]
) -> list[Answer]:
    """Return the answer to each item;
    each of the functions, which do the same, has a thread and a share of the items.

    LiteRT computes an answer with one thread and without Python's lock,
    so it does not depend on their number.
    """
    answers: list[Any] = [None] * len(items)

    def run_share(first: int) -> None:
        for place in range(first, len(items), len(runs)):
            answers[place] = runs[first](items[place])

    with ThreadPoolExecutor(len(runs)) as pool:
        # The list has the errors raised.
        list(pool.map(run_share, range(len(runs))))
    return answers


class Runner(Generic[Answer]):
    """A loaded file with named outputs; call it with the path of an image.

    The ``.tflite`` file has one image input (1, size, size, 3), float or quantised. UsageError if
    it is missing, RuntimeRefusal if the runtime cannot load it, StageError if it has other
    outputs.
    """

    outputs: tuple[str, ...]
    kind = "such a model"  # for errors

    def __init__(self, model: Path | str, view: InputSpec) -> None:
        path = existing_model(model)
        self._path = path
        self._run: Any = self._load()
        inputs = self._run.get_input_details()
        outputs = self._run.get_output_details()
        if len(inputs) != 1 or set(outputs) != set(self.outputs):
            raise StageError(
                f"{path.name}: the outputs {', '.join(outputs)} are not those of {self.kind}"
            )
        ((self._name, self._input),) = inputs.items()
        self._view = view

    def _load(self) -> Any:
        from ai_edge_litert.interpreter import Interpreter

        try:
            return Interpreter(model_path=str(self._path), num_threads=1).get_signature_runner()
        except (ValueError, RuntimeError) as error:
            raise RuntimeRefusal(
                f"{self._path.name}: LiteRT cannot load the model: {agent.one_line(error)}"
            ) from error

    def read_labels(self) -> tuple[str, ...]:
        """Return the labels in the file's metadata, in the order of its classes; none without."""
        metadata = Metadata.read(self._path.read_bytes(), self._path.name)
        return tuple(metadata.labels) if metadata else ()

    def _copy(self) -> Self:
        """Return a runner of the same file for another thread."""
        other = copy.copy(self)
        other._run = self._load()
        return other

    def over(self, images: Sequence[Path], captured: bool = False) -> Iterator[Answer]:
        """Yield the answer to each image as it is,
        or under each of :data:`advisor.datasets.STAYING`.
        """
        if not captured:
            others = [self._copy() for _ in range(1, count_threads(len(images)))]
            return iter(run_in_threads([self, *others], images))
        captured_pixels = chain.from_iterable(
            draw_captures(image, self._view.size, STAYING) for image in images
        )
        return (self.answer_for(self._view.normalise(pixels)) for pixels in captured_pixels)

    def __call__(self, path: Path) -> Answer:
        """Return the answer to an image;
        StageError if it cannot be read, RuntimeRefusal if the runtime fails.
        """
        return self.answer_for(self._view.read(path))

    def answer_for(self, array: Floats) -> Answer:
        """Return the answer to a normalised image, float32 (size, size, 3)."""
        image = quantize(array[None], self._input)
        try:
            outputs = self._run(**{self._name: image})
        except (ValueError, RuntimeError) as error:
            raise RuntimeRefusal(
                f"LiteRT cannot run the model: {agent.one_line(error)}"
            ) from error
        return self.read(outputs)

    def read(self, outputs: Mapping[str, Any]) -> Answer:
        """Return the answer in the outputs: by default the only one, without the batch."""
        (only,) = outputs.values()
        answer: Answer = only[0]
        return answer

"""Make files of the recipe ``mixed_int8``: int8 with the costliest operators in float.

As few operators stay float as the limit of accuracy allows. The recipe tries forms and compares
each with the float model on images. Equal inputs must give equal files, so work is counted in
estimated seconds and not by the clock, unless the user limits the time. The notes are stored with
a run, and ``float_places`` is read back for a similar model.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.compression._quantization.quantizer import (
    eight_bit_rules,
    fitting_images,
    quantize_model,
)
from advisor.compression._recipes.base import Compressed, Needs, Recipe, RecipeInputs
from advisor.compression._recipes.byte_grids import BYTES
from advisor.compression._recipes.retrained import prepare_model
from advisor.core import UnsupportedRecipe
from advisor.measurement import predict_arrays
from advisor.tflite import Model, count, read

MOST_IMAGES = 500
"""Images to compare on, at most. With 500, a drop of 0.5 points has a 95 % interval of 0.6."""

SMALLEST_PROBABILITY = 1e-3
"""Floor of a probability before its logarithm: integer scores have steps of 1/256."""

DEFAULT_DROP_POINTS = 0.5
"""Points that may be lost if no limit was given."""

RUN = 3
"""Operators left in float at a time. A single one still reads and writes integers and keeps almost
all of its error (MobileNetV1 0.25: at most 1 % of the divergence for any one operator, 58 % for
the first three together).
"""

MOST_SHARE = 0.5
"""Largest share of the operators that may stay float."""

RANKING_IMAGES = 64
RANKING_SHARE = 0.4
"""Largest share of the work for ranking; runs that were not reached come last, in their order."""

MOST_S = 600.0
"""Work for all trials, in estimated seconds.

The estimate replaces the clock: equal inputs must give equal files.
"""

OPERATOR_S = 0.015
MACS_A_SECOND = 2e10
"""The quantizer's time for an operator (MobileNetV1 0.25: 0.7 s), and speed of a run."""

CONVERSIONS = frozenset({"QUANTIZE", "DEQUANTIZE"})


@dataclass(frozen=True)
class Deviation:
    """Difference of a compressed file from its float model.

    Points of top-1 that it loses; without labels, the share in % of images with another answer.
    The divergence is the mean Kullback-Leibler divergence of its probabilities from the float
    ones, in nats.
    """

    drop_points: float
    divergence: float


class FloatComparison:
    """Compares compressed files with one float model on the same images.

    The images are normalised, float32 (n, S, S, 3).
    """

    def __init__(
        self, model: bytes, images: NDArray[np.float32], labels: tuple[int, ...] | None
    ) -> None:
        self._images = images
        self._labels = labels
        self._floats = predict_arrays(model, images)

    def __len__(self) -> int:
        return len(self._images)

    def __call__(self, form: bytes) -> Deviation:
        """Return how far the compressed file ``form`` is from the float model.

        StageError is raised if the runtime cannot run it.
        """
        probabilities = predict_arrays(form, self._images)
        floats = self._floats
        answers = probabilities.argmax(axis=1)
        float_answers = floats.argmax(axis=1)
        if self._labels is None:
            drop = 100.0 * float((answers != float_answers).mean())
        else:
            float_accuracy = (float_answers == self._labels).mean()
            drop = 100.0 * float(float_accuracy - (answers == self._labels).mean())
        float_logs = np.log(np.maximum(floats, SMALLEST_PROBABILITY))
        logs = np.log(np.maximum(probabilities, SMALLEST_PROBABILITY))
        divergences = (floats * (float_logs - logs)).sum(axis=1)
        return Deviation(drop, float(divergences.mean()))


def _choose_comparison(model: bytes, inputs: RecipeInputs) -> FloatComparison:
    """Return a comparison on the validation images, or without labels on calibration images.

    Calibration images must fit the model.
    """
    images = inputs.images
    if images is None or not images.validation_paths:
        return FloatComparison(model, fitting_images(model, inputs.calibration), None)
    arrays, labels = images.read_validation(MOST_IMAGES)
    return FloatComparison(model, arrays, labels)


@dataclass(frozen=True)
class OperatorChoice:
    """The operators left in float, by their index in the graph, and the file's deviation."""

    floats: frozenset[int]
    deviation: Deviation
    float_work: int
    data: bytes

    def or_better(self, challenger: OperatorChoice, limit: float) -> OperatorChoice:
        """Return the better of two trials.

        Within the limit, that is the one with less float work, outside it the one that loses less.
        """
        drop = self.deviation.drop_points
        challenger_drop = challenger.deviation.drop_points
        if drop <= limit and challenger_drop <= limit:
            better = (self.float_work, drop) < (challenger.float_work, challenger_drop)
            return self if better else challenger
        # The divergence decides between equal drops.
        loss = (drop, self.deviation.divergence)
        challenger_loss = (challenger_drop, challenger.deviation.divergence)
        return self if loss < challenger_loss else challenger


class Mixed(Recipe):
    """The recipe ``mixed_int8``."""

    name = "mixed_int8"
    description = "int8 with the operators that lose most in float, as few as --max-drop allows"
    needs_calibration = True
    grids = BYTES
    needs = Needs.SCORING
    version = 3
    after = "int8"

    def convert(self, model: bytes, inputs: RecipeInputs, /) -> Compressed:
        """Return the file with the least float work within the limit, or the most accurate."""
        search = _Search(model, inputs)
        if inputs.decided is None:
            return search.run()
        return search.repeat_choice(inputs.decided)


class _Search:
    """Ranks runs of operators, then leaves them in float one after another."""

    def __init__(self, model: bytes, inputs: RecipeInputs) -> None:
        prepared, observation = prepare_model(model, inputs, BYTES)
        self._prepared = prepared
        self._model = read(self._prepared)
        self._ranges = observation.compute_ranges()
        images = fitting_images(model, inputs.calibration)
        self._comparison = _choose_comparison(model, inputs)
        self._ranker = FloatComparison(
            model, images[:: max(1, len(images) // RANKING_IMAGES)], None
        )
        self._limit = DEFAULT_DROP_POINTS
        if inputs.max_drop_points is not None:
            self._limit = inputs.max_drop_points
        self._tried: dict[frozenset[int], OperatorChoice] = {}
        cost = count(self._model)
        self._macs = cost.macs
        self._form_s = OPERATOR_S * len(self._model.operators)
        self._spent_s = 0.0
        self._began = time.monotonic()
        self._seconds = inputs.seconds

    def run(self) -> Compressed:
        int8 = self._try_floats(frozenset())
        best = int8
        # Often int8 alone is within the limit, and then one trial is enough.
        if int8.deviation.drop_points > self._limit:
            best = self._remove_operators(self._add_runs(int8))
        return Compressed(best.data, self._make_notes(best, int8))

    def repeat_choice(self, decided: Mapping[str, Any]) -> Compressed:
        """Return the file with the operators in float that were chosen for a similar model."""
        # The other model may have more operators.
        places = range(len(self._model.operators))
        floats = frozenset(places).intersection(decided.get("float_places", ()))
        return Compressed(self._make_form(floats), decided)

    def _add_runs(self, best: OperatorChoice) -> OperatorChoice:
        """Put runs into float, the costliest first, until the drop is within the limit."""
        floats: frozenset[int] = frozenset()
        most = max(RUN, int(MOST_SHARE * len(self._model.operators)))
        for run in self._rank_runs():
            if self._is_late() or best.deviation.drop_points <= self._limit:
                break
            # Neighbouring runs overlap. One that adds nothing would only cost a trial.
            if not run <= floats and len(floats | run) <= most:
                floats |= run
                best = self._try_floats(floats).or_better(best, self._limit)
        return best

    def _remove_operators(self, best: OperatorChoice) -> OperatorChoice:
        """Put operators back into integers while the drop stays within the limit."""
        if best.deviation.drop_points > self._limit:
            return best
        floats = best.floats

        def rank(index: int) -> tuple[int, int]:
            float_neighbours = (index - 1 in floats) + (index + 1 in floats)
            return float_neighbours, -index

        # The ends of runs first: an operator between two float ones would add two conversions as
        # an integer.
        for index in sorted(floats, key=rank):
            if self._is_late():
                break
            if index in best.floats:
                best = self._try_floats(best.floats - {index}).or_better(best, self._limit)
        return best

    def _rank_runs(self) -> list[frozenset[int]]:
        """Return runs of neighbouring operators, those first that cost most as integers."""
        count = len(self._model.operators)
        starts = range(max(1, count - RUN + 1))
        runs = [frozenset(range(start, min(start + RUN, count))) for start in starts]
        divergences: dict[frozenset[int], float] = {}
        for run in runs:
            if self._is_late(RANKING_SHARE):
                break
            self._count_spent(len(self._ranker))
            # Some operators cannot stay float beside integers.
            # Such a run is not ranked and comes last.
            with suppress(UnsupportedRecipe):
                divergences[run] = self._ranker(self._make_form(run)).divergence
        return sorted(runs, key=lambda run: divergences.get(run, float("inf")))

    def _make_form(self, floats: Collection[int]) -> bytes:
        names = []
        for index in sorted(floats):
            output = self._model.operators[index].outputs[0]
            names.append(self._model.tensors[output].name)
        return quantize_model(self._prepared, eight_bit_rules(names), self._ranges)

    def _try_floats(self, floats: frozenset[int]) -> OperatorChoice:
        if floats not in self._tried:
            self._count_spent(len(self._comparison))
            data = self._make_form(floats)
            self._tried[floats] = OperatorChoice(
                floats, self._comparison(data), count_float_work(read(data)), data
            )
        return self._tried[floats]

    def _count_spent(self, images: int) -> None:
        self._spent_s += self._form_s + images * self._macs / MACS_A_SECOND

    def _is_late(self, share: float = 1.0) -> bool:
        """Return whether a share of the work is done, or of the time if the user limits it."""
        late = self._seconds is not None and time.monotonic() - self._began > share * self._seconds
        return late or self._spent_s > share * MOST_S

    def _make_notes(self, best: OperatorChoice, int8: OperatorChoice) -> dict[str, Any]:
        float_macs = 0
        for cost in count(self._model).operators:
            if cost.index in best.floats:
                float_macs += cost.macs
        places = sorted(best.floats)
        return {
            "float_operators": [_describe_operator(self._model, index) for index in places],
            "float_places": places,
            "drop_points": round(best.deviation.drop_points, 2),
            "int8_drop_points": round(int8.deviation.drop_points, 2),
            "max_drop_points": self._limit,
            "within_max_drop": best.deviation.drop_points <= self._limit,
            "float_share": round(float_macs / max(1, self._macs), 4),
            "judged_on": len(self._comparison),
            "tried": len(self._tried),
        }


def count_float_work(model: Model) -> int:
    """Return the number of operations that int8 does not have.

    These are float multiply-accumulates, float values, and converted values. The number stands for
    the latency, which is never measured twice the same: a file must depend on its inputs alone.
    """
    work = 0
    for operator, cost in zip(model.operators, count(model).operators, strict=True):
        outputs = [model.tensors[index] for index in operator.outputs]
        if operator.name in CONVERSIONS or any(tensor.dtype == "float32" for tensor in outputs):
            work += cost.macs + sum(tensor.elements for tensor in outputs)
    return work


def _describe_operator(model: Model, index: int) -> str:
    operator = model.operators[index]
    return f"{index} {operator.name} {model.tensors[operator.outputs[0]].shape}"

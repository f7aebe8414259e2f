"""The recipe ``mixed_int8``: int8 with those operators in float that cost most accuracy, as few as possible."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from advisor.compression.quantization.grid import BYTES
from advisor.compression.quantization.quantizer import eight_bit_rules, fitting_images, quantize
from advisor.compression.recipes.base import Compressed, Needs, Recipe, RecipeInputs
from advisor.compression.recipes.comparison import Deviation, FloatComparison, as_file, comparison_for
from advisor.compression.recipes.post_training import prepare
from advisor.core.errors import UnsupportedRecipe
from advisor.tflite.model import Model, read

DEFAULT_DROP_POINTS = 0.5
"""Points that may be lost if no limit was given."""

RUN = 3
"""Operators left in float at a time. A single one still reads and writes integers and keeps almost all of its error
(MobileNetV1 0.25: at most 1 % of the divergence for any one operator, 58 % for the first three together)."""

MOST_SHARE = 0.5
"""Largest share of the operators that may stay float."""

RANKING_IMAGES = 64
RANKING_SHARE = 0.4
"""Largest share of the time for ranking; runs that were not reached come last, in their order."""


@dataclass(frozen=True)
class Trial:
    """One choice of operators.

    Attributes:
        floats: operators left in float, by their index in the graph.
        deviation: how far it is from the float model.
        latency_ms: least CPU time of a run at one thread, here.
        data: the file.
    """

    floats: frozenset[int]
    deviation: Deviation
    latency_ms: float
    data: bytes

    def better_than(self, other: Trial, limit: float) -> bool:
        """Tell whether this trial is better: the faster one within the limit, outside it the one that loses less."""
        own, others = self.deviation.drop_points, other.deviation.drop_points
        if own <= limit and others <= limit:
            return (self.latency_ms, own) < (other.latency_ms, others)
        return (own, self.deviation.divergence) < (others, other.deviation.divergence)


class Mixed(Recipe):
    """The recipe ``mixed_int8``."""

    name = "mixed_int8"
    description = "int8 with the operators that lose most in float, as few as --max-drop allows"
    needs_calibration = True
    grids = BYTES
    needs = Needs.SCORING
    version = 2
    after = "int8"

    def convert(self, model: bytes, inputs: RecipeInputs, /) -> Compressed:
        """Return the fastest file within the limit, or the one that loses least.

        Raises:
            StageError: calibration images are missing or have another shape than the model's input.
            UnsupportedRecipe: the quantizer refuses the model.
        """
        search = _Search(model, inputs)
        return search.run() if inputs.decided is None else search.again(inputs.decided)


class _Search:
    """Ranks runs of operators, then leaves them in float one after another."""

    def __init__(self, model: bytes, inputs: RecipeInputs) -> None:
        self._prepared, observation = prepare(model, inputs, BYTES)
        self._model, self._ranges = read(self._prepared), observation.ranges()
        images = fitting_images(model, inputs.calibration)
        self._comparison = comparison_for(model, inputs)
        self._ranker = FloatComparison(model, images[:: max(1, len(images) // RANKING_IMAGES)], None)
        self._limit = DEFAULT_DROP_POINTS if inputs.max_drop_points is None else inputs.max_drop_points
        self._tried: dict[frozenset[int], Trial] = {}
        self._began = time.monotonic()
        self._deadline = self._began + inputs.seconds

    def run(self) -> Compressed:
        """Return the best trial."""
        best = plain = self._try(frozenset())
        if plain.deviation.drop_points > self._limit:
            best = self._trimmed(self._grown(plain))
        return Compressed(best.data, self._notes(best, plain))

    def again(self, decided: Mapping[str, Any]) -> Compressed:
        """Return the file with the operators in float that were chosen for a similar model."""
        count = len(self._model.operators)
        floats = frozenset(index for index in decided.get("float_places", ()) if 0 <= index < count)
        return Compressed(self._form(floats), decided)

    def _grown(self, best: Trial) -> Trial:
        """Put the costliest runs into float, one after another, until the drop is within the limit."""
        floats: frozenset[int] = frozenset()
        most = max(RUN, int(MOST_SHARE * len(self._model.operators)))
        for run in self._ranked():
            if self._late() or best.deviation.drop_points <= self._limit:
                break
            if not run <= floats and len(floats | run) <= most:
                floats |= run
                best = self._better(best, self._try(floats))
        return best

    def _trimmed(self, best: Trial) -> Trial:
        """Put operators back into integers while the drop stays within the limit, the ends of runs first."""
        if best.deviation.drop_points > self._limit:
            return best
        for index in sorted(best.floats, key=lambda index: (_neighbours(index, best.floats), -index)):
            if self._late():
                break
            if index in best.floats:
                best = self._better(best, self._try(best.floats - {index}))
        return best

    def _better(self, best: Trial, other: Trial) -> Trial:
        return other if other.better_than(best, self._limit) else best

    def _ranked(self) -> list[frozenset[int]]:
        """Return runs of neighbouring operators, those first that cost most as integers."""
        count = len(self._model.operators)
        runs = [frozenset(range(start, min(start + RUN, count))) for start in range(max(1, count - RUN + 1))]
        until = self._began + RANKING_SHARE * (self._deadline - self._began)
        left: dict[frozenset[int], float] = {}
        for run in runs:
            if time.monotonic() > until:
                break
            left[run] = self._divergence(run)
        return sorted(runs, key=lambda run: left.get(run, float("inf")))

    def _divergence(self, run: frozenset[int]) -> float:
        try:
            return self._ranker(self._form(run)).divergence
        except UnsupportedRecipe:
            return float("inf")

    def _form(self, floats: Collection[int]) -> bytes:
        names = [self._model.tensors[self._model.operators[index].outputs[0]].name for index in sorted(floats)]
        return quantize(self._prepared, eight_bit_rules(names), self._ranges)

    def _try(self, floats: frozenset[int]) -> Trial:
        if floats not in self._tried:
            data = self._form(floats)
            self._tried[floats] = Trial(floats, self._comparison(data), latency_ms(data), data)
        return self._tried[floats]

    def _late(self) -> bool:
        return time.monotonic() > self._deadline

    def _notes(self, best: Trial, plain: Trial) -> dict[str, Any]:
        """Return what stayed in float, and what that cost."""
        return {
            "float_operators": [_described(self._model, index) for index in sorted(best.floats)],
            "float_places": sorted(best.floats),
            "drop_points": round(best.deviation.drop_points, 2),
            "int8_drop_points": round(plain.deviation.drop_points, 2),
            "max_drop_points": self._limit,
            "within_max_drop": best.deviation.drop_points <= self._limit,
            "latency_ms": round(best.latency_ms, 3),
            "int8_latency_ms": round(plain.latency_ms, 3),
            "judged_on": len(self._comparison),
            "tried": len(self._tried),
        }


def latency_ms(data: bytes) -> float:
    """Return the least CPU time of one run at one thread, in ms."""
    from advisor.measurement.latency.timing import least_cpu_ms

    with as_file(data) as path:
        return least_cpu_ms(path)


def _neighbours(index: int, floats: Collection[int]) -> int:
    return (index - 1 in floats) + (index + 1 in floats)


def _described(model: Model, index: int) -> str:
    operator = model.operators[index]
    return f"{index} {operator.name} {model.tensors[operator.outputs[0]].shape}"

"""int8 with the operators that cost most left in float: as few of them as keep the drop within the limit."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from advisor.compression.quantization import rules
from advisor.compression.quantization.correction import Grids
from advisor.compression.quantization.quantizer import fitting_images, quantize
from advisor.compression.recipes.base import Recipe, Rung
from advisor.compression.recipes.comparison import Judge, Judgement, judge_of
from advisor.compression.recipes.inputs import Compressed, RecipeInputs
from advisor.compression.recipes.post_training import Prepared, prepare
from advisor.core.errors import UnsupportedRecipe
from advisor.tflite.model import Model, read

DEFAULT_DROP_POINTS = 0.5
"""What may be lost where no limit was given."""

RUN = 3
"""Operators left in float at a time: one alone still takes and gives integers, and keeps almost all of its error
(MobileNetV1 0.25: at most 1 % of the divergence for any one operator, 58 % for the first three together)."""

MOST_SHARE = 0.5
"""Of the operators, what may stay float: with more of them, it is a float model with some integers."""

RANKING_IMAGES = 64
RANKING_SHARE = 0.4
"""Of the time, what ranking may take; runs that were not reached come last, in their order."""


@dataclass(frozen=True)
class Trial:
    """One choice of operators.

    Attributes:
        floats: operators left in float, by their place in the graph.
        judgement: how far it is from the float model.
        latency_ms: least CPU time of a run at one thread, here.
        data: the file.
    """

    floats: frozenset[int]
    judgement: Judgement
    latency_ms: float
    data: bytes

    def better_than(self, other: Trial, limit: float) -> bool:
        """Within the limit the faster is better; outside it, the one that loses less."""
        own, others = self.judgement.drop_points, other.judgement.drop_points
        if own <= limit and others <= limit:
            return (self.latency_ms, own) < (other.latency_ms, others)
        return (own, self.judgement.divergence) < (others, other.judgement.divergence)


class Mixed(Recipe):
    """The recipe ``mixed_int8``.

    Args:
        grids: the values that weights are stored as.
    """

    name = "mixed_int8"
    description = "int8 with the operators that cost most left in float, as few as --max-drop allows"
    needs_calibration = True
    rung = Rung.SCORED
    version = 2
    after = "int8"

    def __init__(self, grids: Grids) -> None:
        self._grids = grids

    def convert(self, model: bytes, material: RecipeInputs, /) -> Compressed:
        """Return the fastest choice that was found within the limit, else the one that loses least.

        Raises:
            StageError: calibration images are missing or do not fit.
            UnsupportedRecipe: the quantizer refuses the model.
        """
        limit = DEFAULT_DROP_POINTS if material.max_drop_points is None else material.max_drop_points
        inputs = fitting_images(model, material.calibration)
        search = _Search(
            prepare(model, material, self._grids),
            judge_of(model, material),
            Judge(model, inputs[:: max(1, len(inputs) // RANKING_IMAGES)], None),
            limit,
            time.monotonic() + material.seconds,
        )
        return search.run() if material.decided is None else search.again(material.decided)


class _Search:
    """Ranks runs of operators, then leaves them in float one after another."""

    def __init__(self, prepared: Prepared, judge: Judge, ranker: Judge, limit: float, deadline: float) -> None:
        self._model, self._prepared = read(prepared.model), prepared
        self._spans = prepared.spans()
        self._judge, self._ranker, self._limit = judge, ranker, limit
        self._began, self._deadline = time.monotonic(), deadline
        self._tried: dict[frozenset[int], Trial] = {}

    def run(self) -> Compressed:
        """Return the best trial."""
        best = plain = self._try(frozenset())
        if plain.judgement.drop_points > self._limit:
            best = self._trimmed(self._grown(plain))
        return Compressed(best.data, self._notes(best, plain))

    def again(self, decided: Mapping[str, Any]) -> Compressed:
        """Return the choice that was made for a like model."""
        count = len(self._model.operators)
        floats = frozenset(place for place in decided.get("float_places", ()) if 0 <= place < count)
        return Compressed(self._form(floats), decided)

    def _grown(self, best: Trial) -> Trial:
        """Leave the costliest runs in float, one more at a time, until the limit holds."""
        floats: frozenset[int] = frozenset()
        most = max(RUN, int(MOST_SHARE * len(self._model.operators)))
        for run in self._ranked():
            if self._late() or best.judgement.drop_points <= self._limit:
                break
            if not run <= floats and len(floats | run) <= most:
                floats |= run
                best = self._better(best, self._try(floats))
        return best

    def _trimmed(self, best: Trial) -> Trial:
        """Put back into integers what the limit does not need, the ends of runs first: that saves latency."""
        if best.judgement.drop_points > self._limit:
            return best
        for place in sorted(best.floats, key=lambda place: (_neighbours(place, best.floats), -place)):
            if self._late():
                break
            if place in best.floats:
                best = self._better(best, self._try(best.floats - {place}))
        return best

    def _better(self, best: Trial, other: Trial) -> Trial:
        return other if other.better_than(best, self._limit) else best

    def _ranked(self) -> list[frozenset[int]]:
        """Return runs of neighbouring operators, those first whose integers cost most."""
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
        names = [self._model.tensors[self._model.operators[place].outputs[0]].name for place in sorted(floats)]
        return quantize(self._prepared.model, rules.eight_bits(names), self._spans)

    def _try(self, floats: frozenset[int]) -> Trial:
        if floats not in self._tried:
            data = self._form(floats)
            self._tried[floats] = Trial(floats, self._judge(data), latency_ms(data), data)
        return self._tried[floats]

    def _late(self) -> bool:
        return time.monotonic() > self._deadline

    def _notes(self, best: Trial, plain: Trial) -> dict[str, Any]:
        """Return what was left in float, and what that cost."""
        return {
            "float_operators": [_described(self._model, place) for place in sorted(best.floats)],
            "float_places": sorted(best.floats),
            "drop_points": round(best.judgement.drop_points, 2),
            "int8_drop_points": round(plain.judgement.drop_points, 2),
            "max_drop_points": self._limit,
            "within_max_drop": best.judgement.drop_points <= self._limit,
            "latency_ms": round(best.latency_ms, 3),
            "int8_latency_ms": round(plain.latency_ms, 3),
            "judged_on": len(self._judge),
            "tried": len(self._tried),
        }


def latency_ms(data: bytes) -> float:
    """Return the least CPU time of a run of a file's bytes at one thread."""
    from advisor.measurement.latency.screen import least_cpu_ms

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tflite"
        path.write_bytes(data)
        return least_cpu_ms(path)


def _neighbours(place: int, floats: Collection[int]) -> int:
    return (place - 1 in floats) + (place + 1 in floats)


def _described(model: Model, place: int) -> str:
    operator = model.operators[place]
    return f"{place} {operator.name} {model.tensors[operator.outputs[0]].shape}"

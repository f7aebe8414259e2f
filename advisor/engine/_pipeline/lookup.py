"""Look up which stages of a graph earlier searches have kept, and what they gave.

The preview calls it to show known figures and the work that is left. A search within a time limit
asks what is left to do (:class:`CachedCards`), and one that has its answer asks which stages a
further file would need (``_afterwards.py``). The walker shares :func:`list_cached_folders`, so
both find the same results.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from advisor.catalog import Card
from advisor.core import AdvisorError, Quantity
from advisor.engine._pipeline.graph import VariantStages, with_all_before
from advisor.engine._pipeline.materials import DAMAGED, Materials, Workload
from advisor.engine._pipeline.stage import Results, Stage, StageName
from advisor.store import find_changed_file

Result = TypeVar("Result")

Point = tuple[str, int]  # Compression recipe and thread count


@dataclass(frozen=True)
class CachedResults:
    """Results of one card that earlier searches have kept:
    finished stages, and figures measured on this machine.
    """

    done: frozenset[Stage[Any]] = frozenset()
    latency_p90: Mapping[Point, Quantity] = field(default_factory=dict)
    latency: Mapping[Point, Quantity] = field(default_factory=dict)
    size_bytes: Mapping[str, int] = field(default_factory=dict)


class Lookup:
    """Looks up the cached results of a graph; nothing is run and nothing is written."""

    def __init__(self, materials: Materials) -> None:
        self._materials = materials
        self._known: dict[Stage[Any], object] = {}

    def find(self, stage: Stage[Result]) -> Result | None:
        """Return the result of a stage; None if it is not cached or does not apply."""
        if stage not in self._known:
            self._known[stage] = self._find(stage)
        return cast("Result | None", self._known[stage])

    def done(self, stages: Iterable[Stage[Any]]) -> frozenset[Stage[Any]]:
        """Return the given stages, and the stages that they need, if they are cached."""
        return frozenset(
            stage for stage in with_all_before(stages) if self.find(stage) is not None
        )

    def of_card(self, card: Card, workload: Workload, remeasure: bool = False) -> CachedResults:
        """Return what is cached of a card that has weights on this machine;
        with ``remeasure``, its timings count as missing.
        """
        variants = []
        evaluation_stages = list[Stage[Any]]()
        for training, compression in workload.variants_of(card):
            variant = VariantStages(card, training, compression, workload)
            variants.append(variant)
            evaluation_stages += variant.evaluation
        done = self.done(evaluation_stages)
        # The search that scored a file has judged its finalists, which nearly all files are.
        judged = set[Stage[Any]]()
        for variant in variants:
            if variant.answers in done:
                judged.update(variant.judging)
        if remeasure:
            done = frozenset(stage for stage in done if stage.name is not StageName.TIMING)
        latency = dict[Point, Quantity]()
        latency_p90 = dict[Point, Quantity]()
        size_bytes = dict[str, int]()
        for variant in variants:  # the lightest training first, whose figures are kept
            form = variant.compression
            artefact = self.find(variant.ships)
            if artefact is not None:
                size_bytes.setdefault(form, artefact.size_bytes)
            timings = self.find(variant.timed) or {}
            for threads, timing in timings.items():
                if timing.latency is not None and timing.latency_p90 is not None:
                    latency.setdefault((form, threads), timing.latency)
                    latency_p90.setdefault((form, threads), timing.latency_p90)
        return CachedResults(done | judged, latency_p90, latency, size_bytes)

    def _find(self, stage: Stage[Any]) -> object | None:
        if stage.unsupported:
            return None
        before = {earlier: self.find(earlier) for earlier in stage.after}
        # The key of a stage needs the results of the stages before.
        if any(value is None for value in before.values()):
            return None
        with contextlib.suppress(AdvisorError, *DAMAGED):
            folders = list_cached_folders(stage, self._materials, Results(before))
            folder = next((folder for folder in folders if folder.is_dir()), None)
            if folder is None or find_changed_file(folder) is not None:
                return None
            return cast("object", stage.read(folder))
        return None


class CachedCards(Mapping[str, CachedResults]):
    """The cached results of cards, by the name of the card.

    A card is looked up when it is first asked for: to check the files of all takes seconds. With
    ``remeasure``, timings count as missing.
    """

    def __init__(
        self,
        cards: Sequence[Card],
        workload: Workload,
        materials: Materials,
        remeasure: bool = False,
    ) -> None:
        self._cards = {card.name: card for card in cards}
        self._workload = workload
        self._weights = materials.weights
        self._lookup = Lookup(materials)
        self._remeasure = remeasure
        self._results = dict[str, CachedResults]()

    def __getitem__(self, name: str) -> CachedResults:
        """Return what is cached of the card with a name."""
        if name not in self._results:
            card = self._cards[name]
            results = CachedResults()
            # Cards without weights on this machine have no results.
            if name in self._weights:
                results = self._lookup.of_card(card, self._workload, self._remeasure)
            self._results[name] = results
        return self._results[name]

    def __iter__(self) -> Iterator[str]:
        """Return the names of the cards."""
        return iter(self._cards)

    def __len__(self) -> int:
        """Return the number of cards."""
        return len(self._cards)

    def list_done(self) -> frozenset[Stage[Any]]:
        """Return the stages of all cards whose results are cached."""
        done = set[Stage[Any]]()
        for results in self.values():
            done.update(results.done)
        return frozenset(done)


def list_cached_folders(stage: Stage[Any], materials: Materials, results: Results) -> list[Path]:
    """Return the possible cache folders of a stage's result, the best first."""
    makers = [stage.inputs]
    if stage.also_kept_as is not None:
        makers.insert(0, stage.also_kept_as)
    return [materials.cache.folder(stage.folder, inputs(materials, results)) for inputs in makers]

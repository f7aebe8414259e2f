"""Model cards that were added or changed since a run; they are evaluated where nothing has to be trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from advisor.core.errors import AdvisorError
from advisor.core.evaluation import Evaluation
from advisor.engine.history.loaded_run import LoadedRun
from advisor.engine.question import Request, resolve
from advisor.engine.space.candidates import card_hash, chosen_cards
from advisor.store import RunFolder

Search = Callable[[Request], RunFolder]
"""Runs a search and returns its run folder. It is passed in, because the search uses this room."""


@dataclass(frozen=True)
class CardChanges:
    """How the catalogue differs from the one that a run used.

    Attributes:
        hashes: hash of every card that the question asks for, as it is now.
        added: names of cards that are new.
        changed: names of cards that the run evaluated and whose content is another.
        remark: why this is not known, or empty.
    """

    hashes: Mapping[str, str]
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    remark: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Added and changed cards."""
        return (*self.added, *self.changed)


def find_card_changes(run: LoadedRun) -> CardChanges:
    """Compare the cards that the run considered with the catalogue."""
    considered = run.manifest.get("cards")
    try:
        now = {card.name: card_hash(card) for card in chosen_cards(run.question)}
    except AdvisorError as error:
        return CardChanges({}, remark=f"the catalogue cannot be read: {error.message}")
    if not isinstance(considered, Mapping):
        return CardChanges(now, remark="the run does not say which cards it considered")
    evaluated = {evaluation.configuration.card for evaluation in run.evaluations}
    return CardChanges(
        now,
        added=tuple(name for name in now if name not in considered),
        changed=tuple(
            name for name in now if name in evaluated and name in considered and considered[name] != now[name]
        ),
    )


def needs_training(run: LoadedRun) -> bool:
    """True where a new card would have to be trained: the run has images."""
    return run.question.data is not None


def evaluate_cards(run: LoadedRun, names: Sequence[str], folder: Path, search: Search) -> RunFolder:
    """Search over some cards alone, and return the run with its evaluations and artefacts.

    Args:
        run: a run without images: nothing is trained.
        names: cards to evaluate.
        folder: takes the new run.
        search: runs the search.

    Raises:
        AdvisorError: no weights are available.
    """
    return search(resolve({**run.request.written, "candidates": list(names), "out": str(folder), "max_trials": 0}))


def merge_evaluations(earlier: Sequence[Evaluation], later: Sequence[Evaluation]) -> tuple[Evaluation, ...]:
    """Return all evaluations; of two with the same key, the later one."""
    by_key = {evaluation.configuration.key: evaluation for evaluation in (*earlier, *later)}
    return tuple(by_key.values())

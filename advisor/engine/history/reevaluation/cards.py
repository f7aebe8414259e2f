"""Model cards that were added or changed since a run; evaluated where nothing has to be trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from advisor.core.errors import AdvisorError
from advisor.core.evaluation import Evaluation
from advisor.engine.history.loaded_run import LoadedRun
from advisor.engine.pipeline.context import card_hash
from advisor.engine.question import resolve
from advisor.engine.space.candidates import chosen_cards
from advisor.store import RunFolder


@dataclass(frozen=True)
class CardChanges:
    """What the catalogue says otherwise than it did.

    Attributes:
        hashes: hash of every card that the question asks for, as it is now.
        added: names of cards that were not there.
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


def card_changes(run: LoadedRun) -> CardChanges:
    """Hold the cards that the run considered against the catalogue."""
    then = run.manifest.get("cards")
    try:
        now = {card.name: card_hash(card) for card in chosen_cards(run.question)}
    except AdvisorError as error:
        return CardChanges({}, remark=f"the catalogue could not be asked: {error.message}")
    if not isinstance(then, Mapping):
        return CardChanges(now, remark="the run did not note the cards that it considered")
    evaluated = {evaluation.configuration.card for evaluation in run.evaluations}
    return CardChanges(
        now,
        added=tuple(name for name in now if name not in then),
        changed=tuple(name for name in now if name in evaluated and then.get(name, now[name]) != now[name]),
    )


def needs_search(run: LoadedRun) -> bool:
    """True where a new card would have to be trained."""
    return run.question.data is not None


def evaluate_cards(run: LoadedRun, names: Sequence[str], folder: Path) -> RunFolder:
    """Search over ``names`` alone, in ``folder``, and return the run: its evaluations and artefacts.

    Args:
        run: a run without pictures: nothing is trained.
        names: cards to evaluate.
        folder: takes the run.

    Raises:
        AdvisorError: no weights can be had.
    """
    from advisor.engine.progress import Progress
    from advisor.engine.run import run_search

    request = resolve({**run.request.written, "candidates": list(names), "out": str(folder), "max_trials": 0})
    return run_search(request, Progress(False)).run


def merged(former: Sequence[Evaluation], newer: Sequence[Evaluation]) -> tuple[Evaluation, ...]:
    """Return all evaluations, the newer one of each key."""
    by_key = {evaluation.configuration.key: evaluation for evaluation in (*former, *newer)}
    return tuple(by_key.values())

"""What is being done, what is left and when it will be over; quiet where nobody watches."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

from advisor.core.evaluation import Evaluation, Status
from advisor.search.plan import Plan

if TYPE_CHECKING:
    from tqdm import tqdm


class Progress:
    """A bar over the configurations, weighted by what each is expected to cost, with the stage that runs now.

    Args:
        shown: show it; by default where standard error is a terminal.
    """

    def __init__(self, shown: bool | None = None) -> None:
        self._shown = sys.stderr.isatty() if shown is None else shown
        self._lock = threading.Lock()
        self._bar: tqdm[Any] | None = None
        self._prices: dict[str, float] = {}
        self._running: dict[str, None] = {}
        self._done = self._total = 0

    def say(self, text: str) -> None:
        """Tell what is being done before or beside the evaluations."""
        with self._lock:
            if self._shown:
                self._open().set_postfix_str(text, refresh=True)

    def start(self, plan: Plan, done: int) -> None:
        """Begin with ``plan``, of which ``done`` configurations are done already."""
        self._prices = {
            f"{card.name}/{recipe}": plan.price_s(card, recipe) / len(plan.threads)
            for card in plan.cards
            for recipe in plan.recipes
        }
        self._done, self._total = done, plan.size
        with self._lock:
            if self._shown:
                bar = self._open()
                bar.reset(total=round(sum(self._prices.values()) * len(plan.threads), 3))
                self._describe(bar)

    def stage(self, name: str, subject: str, event: str) -> None:
        """Take note of a stage that started, is done or was found in the cache; ``name`` is not shown."""
        del name
        with self._lock:
            if event == "started":
                self._running[subject] = None
            else:
                self._running.pop(subject, None)
            if self._shown:
                self._open().set_postfix_str(" | ".join(list(self._running)[:2]) or "measuring", refresh=True)

    def evaluated(self, evaluation: Evaluation) -> None:
        """Take note of a configuration that is finished."""
        configuration = evaluation.configuration
        with self._lock:
            self._done += 1
            if not self._shown:
                return
            bar = self._open()
            bar.update(self._prices.get(f"{configuration.card}/{configuration.compression}", 0.0))
            self._describe(bar)
            if evaluation.status is Status.FAILED:
                bar.write(f"failed  {configuration.key}: {evaluation.reason}", file=sys.stderr)

    def close(self) -> None:
        """Take the bar away."""
        with self._lock:
            if self._bar is not None:
                self._bar.close()
                self._bar = None

    def _describe(self, bar: tqdm[Any]) -> None:
        bar.set_description_str(f"{self._done} of {self._total} evaluated", refresh=False)

    def _open(self) -> tqdm[Any]:
        if self._bar is None:
            from tqdm import tqdm

            self._bar = tqdm(
                total=1,
                file=sys.stderr,
                leave=False,
                dynamic_ncols=True,
                smoothing=0.05,
                bar_format="{desc} {percentage:3.0f}% |{bar}| {elapsed}, about {remaining} left {postfix}",
            )
            self._bar.set_description_str("preparing", refresh=False)
        return self._bar

"""Follow a search: the current work, the remaining work and the remaining time, and the answer so far."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from types import TracebackType

from advisor.core.evaluation import Configuration, Evaluation, Status
from advisor.core.units import show_seconds
from advisor.engine.display import Display
from advisor.engine.pipeline.events import EventKind, StageEvent
from advisor.engine.space.plan import Plan
from advisor.store import RunFolder

PLANNED_SPEED = 2.0
"""Seconds of work that a search is expected to do in one second, before its speed is known."""

TRUST_S = 20.0
"""Seconds of finished work that weigh as much as the plan's estimate in the estimate of what is left."""

TICK_S = 1.0
"""Seconds after which the time left is computed again."""


class Progress:
    """Counts the stages, weighted by their expected seconds, and shows the running ones and the time left.

    It is a context manager: at its end the display is closed.

    Args:
        display: where it is shown; None for nowhere.
        answer: writes the answer so far of a run, and returns it in words.
    """

    def __init__(self, display: Display | None = None, answer: Callable[[RunFolder], str] = lambda _run: "") -> None:
        self._display, self._answer_of = display, answer
        self._lock = threading.RLock()
        self._running: dict[str, str] = {}
        self._partly: dict[str, float] = {}
        self._saying = self._answer = ""
        self._evaluated = self._configurations = 0
        self._started = time.monotonic()
        self._done_s = self._total_s = self._worked_s = 0.0
        self._plan: Plan | None = None
        self._part = 1.0
        self._skipped, self._deferred = set[Configuration](), frozenset[Configuration]()
        self._closed = threading.Event()

    def __enter__(self) -> Progress:
        if self._display is not None:
            threading.Thread(target=self._tick, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def say(self, text: str) -> None:
        """Show a step that is no evaluation."""
        with self._lock:
            self._saying = text
            self._show()

    def start(self, plan: Plan, done: int) -> None:
        """Start with ``plan``, of which ``done`` configurations are already done."""
        with self._lock:
            self._evaluated, self._configurations = done, plan.size
            self._started, self._saying = time.monotonic(), ""
            self._plan, self._part = plan, 1 - done / plan.size
            self._reduce_total()

    def answer(self, run: RunFolder) -> None:
        """Write the answer so far of a run, and show it if it has changed."""
        text = self._answer_of(run)
        with self._lock:
            if text != self._answer:
                self._tell(text)
            self._answer = text

    def stage(self, event: StageEvent) -> None:
        """Record an event of a stage."""
        subject = event.stage.subject
        seconds = self._plan.costs.seconds(event.stage) if self._plan is not None else 0.0
        with self._lock:
            if event.kind is EventKind.STARTED:
                self._running[subject] = ""
            elif event.kind is EventKind.WAITING:
                self._running[subject] = f" (waits for the same work in another search, {event.holder})"
            elif event.kind is EventKind.EPOCH:
                self._epoch(subject, seconds, *event.epochs)
            else:
                self._running.pop(subject, None)
                self._advance(seconds - self._partly.pop(subject, 0.0), worked=event.kind is EventKind.DONE)
            self._show()

    def _epoch(self, subject: str, seconds: float, done: int, epochs: int) -> None:
        """Add the finished share of a long stage."""
        reached = seconds * done / epochs
        self._running[subject] = f" (epoch {done} of {epochs})"
        self._advance(reached - self._partly.get(subject, 0.0), worked=True)
        self._partly[subject] = reached

    def _advance(self, weight: float, worked: bool) -> None:
        self._worked_s += weight if worked else 0.0
        self._done_s += max(0.0, min(weight, self._left_s()))

    def evaluated(self, evaluation: Evaluation) -> None:
        """Record a finished configuration, and show a failure at once."""
        with self._lock:
            self._evaluated += 1
            if evaluation.status is Status.SKIPPED:
                self._skipped.add(evaluation.configuration)
                self._reduce_total()
            if evaluation.status is Status.FAILED:
                self._tell(f"failed  {evaluation.configuration.key}: {evaluation.reason}")
            self._show()

    def deferred(self, configurations: Collection[Configuration]) -> None:
        """Exclude deferred configurations from the remaining work; a reconsidered one counts again."""
        with self._lock:
            if self._deferred != frozenset(configurations):
                self._deferred = frozenset(configurations)
                self._reduce_total()
                self._show()

    def _reduce_total(self) -> None:
        """Subtract the stages that only skipped and deferred configurations need from the total."""
        if self._plan is not None and self._display is not None:
            self._total_s = max(self._done_s, self._part * self._plan.expected_s(self._skipped | self._deferred))

    def close(self) -> None:
        """Close the display; what comes later is not shown."""
        self._closed.set()
        with self._lock:
            if self._display is not None:
                self._display.close()
            self._display = None

    def _tick(self) -> None:
        while not self._closed.wait(TICK_S):
            with self._lock:
                self._show()

    def _tell(self, line: str) -> None:
        if self._display is not None:
            self._display.tell(line)

    def _show(self) -> None:
        if self._display is None:
            return
        running = [f"{subject}{more}" for subject, more in self._running.items()]
        now = self._saying or " | ".join(running[:2]) or ("waiting" if self._configurations else "starting")
        if not self._configurations:
            self._display.status(now, 0.0)
            return
        left = f"about {show_seconds(self._seconds_left())} left"
        line = f"{self._evaluated} of {self._configurations} evaluated, {left}: {now}"
        self._display.status(line, self._done_s / self._total_s if self._total_s else 1.0)

    def _left_s(self) -> float:
        return max(0.0, self._total_s - self._done_s)

    def _seconds_left(self) -> float:
        """Return the cost of the remaining work, divided by the speed so far; at first, by the planned speed."""
        elapsed = time.monotonic() - self._started
        speed = (self._worked_s + TRUST_S) / (elapsed + TRUST_S / PLANNED_SPEED)
        return self._left_s() / speed

"""Show the current work, the remaining work and the remaining time; silent if standard error is no terminal."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from advisor.core.evaluation import Configuration, Evaluation, Status
from advisor.core.units import show_seconds
from advisor.engine.pipeline.events import EventKind, StageEvent
from advisor.engine.space.plan import Plan

if TYPE_CHECKING:
    from tqdm import tqdm

PLANNED_SPEED = 2.0
"""Seconds of work that a search is expected to do in one second, before its speed is known."""

TRUST_S = 20.0
"""Seconds of finished work that weigh as much as the plan's estimate in the estimate of what is left."""


class Progress:
    """A bar over the stages, weighted by their expected seconds, with the running stages and the time left.

    Args:
        shown: show the bar; by default only if standard error is a terminal.
    """

    def __init__(self, shown: bool | None = None) -> None:
        self._shown = sys.stderr.isatty() if shown is None else shown
        self._lock = threading.RLock()
        self._bar: tqdm[Any] | None = None
        self._running: dict[str, str] = {}
        self._partly: dict[str, float] = {}
        self._saying = ""
        self._evaluated = self._configurations = 0
        self._started = time.monotonic()
        self._worked_s = 0.0
        self._plan: Plan | None = None
        self._part = 1.0
        self._skipped, self._deferred = set[Configuration](), frozenset[Configuration]()
        self._closed = threading.Event()

    def say(self, text: str) -> None:
        """Show a step that is no evaluation."""
        with self._lock:
            self._saying = text
            self._show()

    def start(self, plan: Plan, done: int) -> None:
        """Start with ``plan``, of which ``done`` configurations are already done."""
        total = plan.expected_s()
        with self._lock:
            self._evaluated, self._configurations = done, plan.size
            self._started, self._saying = time.monotonic(), ""
            self._plan, self._part = plan, 1 - done / plan.size
            if self._shown:
                self._open().reset(total=total * self._part)
                threading.Thread(target=self._tick, daemon=True).start()

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
        if self._shown:
            self._open().update(max(0.0, min(weight, self._left_s())))

    def evaluated(self, evaluation: Evaluation) -> None:
        """Record a finished configuration, and show a failure at once."""
        with self._lock:
            self._evaluated += 1
            if evaluation.status is Status.SKIPPED:
                self._skipped.add(evaluation.configuration)
                self._reduce_total()
            if self._shown and evaluation.status is Status.FAILED:
                self._open().write(f"failed  {evaluation.configuration.key}: {evaluation.reason}", file=sys.stderr)
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
        if self._shown and self._plan is not None:
            bar = self._open()
            bar.total = max(bar.n, self._part * self._plan.expected_s(self._skipped | self._deferred), 1e-9)

    def close(self) -> None:
        """Remove the bar."""
        self._closed.set()
        with self._lock:
            if self._bar is not None:
                self._bar.close()
                self._bar = None
            self._shown = False

    def _tick(self) -> None:
        while not self._closed.wait(1.0):
            with self._lock:
                self._show()

    def _show(self) -> None:
        if not self._shown:
            return
        bar = self._open()
        running = [f"{subject}{more}" for subject, more in self._running.items()]
        now = self._saying or " | ".join(running[:2]) or "waiting"
        if not self._configurations:
            bar.set_description_str(now, refresh=True)
            return
        left = f"about {show_seconds(self._seconds_left())} left"
        bar.set_description_str(f"{self._evaluated} of {self._configurations} evaluated, {left}: {now}", refresh=True)

    def _left_s(self) -> float:
        bar = self._bar
        return max(0.0, bar.total - bar.n) if bar is not None and bar.total else 0.0

    def _seconds_left(self) -> float:
        """Return the cost of the remaining work, divided by the speed so far; at first, by the planned speed."""
        elapsed = time.monotonic() - self._started
        speed = (self._worked_s + TRUST_S) / (elapsed + TRUST_S / PLANNED_SPEED)
        return self._left_s() / speed

    def _open(self) -> tqdm[Any]:
        if self._bar is None:
            from tqdm import tqdm

            form = "{percentage:3.0f}% |{bar:20}| {elapsed} {desc}"
            self._bar = tqdm(total=1.0, file=sys.stderr, leave=False, dynamic_ncols=True, bar_format=form)
        return self._bar

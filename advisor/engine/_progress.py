"""Show a search while it runs: the current work, the time left, and the answer so far.

The search and its rooms tell ``Progress`` what happens, from any thread. A ``Display`` shows it: a
bar, lines of a log, or the cell of a notebook, which is passed in. Nothing here changes what a
search does.
"""

from __future__ import annotations

import contextlib
import math
import os
import shlex
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Collection, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Never, Protocol

from advisor.core import Configuration, Evaluation, Status, show_seconds
from advisor.engine._pipeline.cost_calibration import CostCalibration, MachineLoad
from advisor.engine._pipeline.stage_events import EventKind, StageEvent
from advisor.engine._remaining import FILE, Remaining, Snapshot, write_snapshot
from advisor.engine._space.plan import Plan
from advisor.store import RunFolder

if TYPE_CHECKING:
    from tqdm import tqdm


STARTING = "starting"
"""The text before a search has read its question."""

EVERY_S = 30.0
"""Seconds after which a log gets the next line about the current work."""

BUSY = 2.0
"""Slowdown from which on a person is told that other programs keep the machine busy."""

CHOOSING = "choosing what comes next"
"""The text while nothing runs."""

TICK_S = 1.0
"""Seconds after which the time left is computed again."""

KEPT_S = 2.0
"""Seconds between two moments that are written to the run."""

REST = 20.0
"""Seconds until the next event is shown for each second that showing one took.
A large plan has thousands of events.
"""


class Display(Protocol):
    """Shows a search to a person."""

    def status(self, line: str, share: float) -> None:
        """Show the current work in place of the last, and the share (0-1) that is done."""

    def tell(self, line: str) -> None:
        """Show a line that stays."""

    def close(self) -> None:
        """End: nothing is shown any more."""


class Bar:
    """A bar on standard error, with the lines that stay above it."""

    @cached_property
    def _bar(self) -> tqdm[Never]:
        from tqdm import tqdm

        # A terminal of 80 columns cuts what is longer:
        # the words say more than a wide bar and the time that is over.
        form = "{percentage:3.0f}% |{bar:5}| {desc}"
        return tqdm(total=1.0, file=sys.stderr, leave=False, dynamic_ncols=True, bar_format=form)

    def status(self, line: str, share: float) -> None:
        """Move the bar."""
        self._bar.n = share
        self._bar.set_description_str(line, refresh=True)

    def tell(self, line: str) -> None:
        """Write above the bar, folded between words."""
        # While a search runs, standard output is a file, which has no width.
        width = 0
        with contextlib.suppress(OSError, ValueError):
            width = os.get_terminal_size(sys.stderr.fileno()).columns
        width = width or shutil.get_terminal_size().columns
        lines = textwrap.wrap(
            line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )
        self._bar.write("\n".join(lines), file=sys.stderr)

    def close(self) -> None:
        """Remove the bar, if there is one."""
        # The bar is made when it is first shown. Asking for it here would make one to close it.
        bar = self.__dict__.pop("_bar", None)
        if bar is not None:
            bar.close()


class Lines:
    """Lines on standard error, each with the time since the start;
    the current work every :data:`EVERY_S` seconds.
    """

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._last: float | None = None
        self._starts = False

    def status(self, line: str, share: float) -> None:
        """Write that the search starts, then the first line,
        and then one whenever nothing was written for a while.
        """
        if line == STARTING:
            if not self._starts:
                self._starts = True
                self.tell(line)
                self._last = None
        elif self._last is None or time.monotonic() - self._last >= EVERY_S:
            self.tell(line)

    def tell(self, line: str) -> None:
        """Write a line."""
        self._last = time.monotonic()
        # A log that cannot be written does not end the search.
        with contextlib.suppress(OSError, ValueError):
            print(
                f"[{show_seconds(self._last - self._started)}] {line}", file=sys.stderr, flush=True
            )

    def close(self) -> None:
        """Do nothing."""


def make_display() -> Display:
    """Return the display for standard error."""
    return Bar() if sys.stderr.isatty() else Lines()


class Progress:
    """Counts the stages, weighted by their expected seconds,
    and shows the running ones and the time left.

    At its end the display (None for nowhere) is closed. ``answer`` writes the answer so far and
    returns it in words. All methods may be called from any thread.
    """

    def __init__(
        self, display: Display | None = None, answer: Callable[[RunFolder], str] = lambda _run: ""
    ) -> None:
        self._display = display
        self._answer_of = answer
        self._lock = threading.RLock()
        self._running: dict[str, str] = {}
        self._spare: dict[str, str] = {}  # what runs on the time that the others leave
        self._saying = ""
        self._answer = ""
        self._evaluated = 0
        self._configurations = 0
        self._remaining: Remaining | None = None
        self._load = MachineLoad()
        self._has_told_load = False
        self._run: RunFolder | None = None
        self._folder: Path | None = None  # that of the run, also after its end
        self._began = 0.0
        self._ends = math.inf
        self._quiet_until = 0.0
        self._kept_until = 0.0
        self._closed = threading.Event()

    def __enter__(self) -> Progress:
        threading.Thread(target=self._tick, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        # Nothing follows a second interrupt: no answer says how to go on.
        if kind is KeyboardInterrupt and self._folder is not None:
            self.tell(
                "ended at once, without an answer; finished evaluations are kept. To continue:"
            )
            self.tell(f"  advisor search --resume {shlex.quote(str(self._folder))}")
        self.close()

    def say(self, text: str) -> None:
        """Show a step that is no evaluation."""
        with self._lock:
            self._saying = text
            self._show()

    def say_start(self) -> None:
        """Show that the search starts, before it has read its question."""
        self.say(STARTING)

    def tell(self, text: str) -> None:
        """Show a line that stays."""
        with self._lock:
            if self._display is not None:
                self._display.tell(text)

    @contextlib.contextmanager
    def kept_in(self, run: RunFolder) -> Iterator[None]:
        """Also write what is shown to a run, for the block;
        the file of a search that ended in order is removed.
        """
        with self._lock:
            self._run = run
            self._folder = run.path
            self._show()
        try:
            yield
        finally:
            with self._lock:
                self._run = None
                (run.path / FILE).unlink(missing_ok=True)

    def start(
        self,
        plan: Plan,
        done: Collection[Configuration],
        calibration: CostCalibration,
        limit_s: float | None = None,
    ) -> None:
        """Start with ``plan``, of which ``done`` needs no work,
        ``limit_s`` seconds before the time limit if any.

        ``calibration`` says what stages cost here.
        """
        with self._lock:
            self._began = time.monotonic()
            # The limit counts from the start of the command,
            # so less of it is left here than the user wrote.
            self._ends = self._began + (math.inf if limit_s is None else limit_s)
            self._evaluated = len(done)
            self._configurations = plan.size
            self._saying = ""
            self._remaining = Remaining(plan, done, time.monotonic(), calibration)

    def answer(self, run: RunFolder) -> None:
        """Write the answer so far of a run, and show it if it has changed."""
        text = self._answer_of(run)
        with self._lock:
            if text != self._answer:
                self.tell(text)
            self._answer = text

    def stage(self, event: StageEvent, spare: bool = False) -> None:
        """Record an event of a stage; it may run on the ``spare`` time that the others leave."""
        subject = event.stage.subject
        with self._lock:
            running = self._spare if spare else self._running
            if event.kind is EventKind.STARTED:
                running[subject] = ""
            elif event.kind is EventKind.WAITING:
                running[subject] = f" (waits for {event.waits_for})"
            elif event.kind is EventKind.EPOCH:
                done, epochs = event.epochs
                running[subject] = f" (epoch {done} of {epochs})" if done else ""
            elif event.kind is EventKind.CRASHED:
                self.tell(f"{subject} crashed, and goes on from what it kept")
            else:
                self._running.pop(subject, None)
                self._spare.pop(subject, None)
            # A measurement stops the jobs, so its seconds say nothing
            # of how busy other programs keep the machine.
            is_job = event.kind is EventKind.DONE and not event.stage.resources.alone
            if is_job and not spare:
                self._load.note(event.cpu_s, event.seconds)
                self._tell_load()
            if self._remaining is not None:
                self._remaining.note(event, time.monotonic(), spare)
            self._show_event()

    def _tell_load(self) -> None:
        """Say once that other programs keep the machine busy:
        a narrow terminal cuts the line that moves.
        """
        slowdown = self._load.slowdown
        if slowdown >= BUSY and not self._has_told_load:
            self._has_told_load = True
            self.tell(
                f"other programs keep the machine busy: work takes {slowdown:.1f} times as long"
            )

    @contextlib.contextmanager
    def doing(self, subject: str) -> Iterator[None]:
        """Show work that is no stage, such as a measurement on another device, for the block."""
        with self._lock:
            self._running[subject] = ""
            self._show_event()
        try:
            yield
        finally:
            with self._lock:
                self._running.pop(subject, None)

    def evaluated(self, evaluation: Evaluation) -> None:
        """Record a finished configuration, and show a failure at once.

        One that was skipped is not evaluated: the answer counts the same configurations.
        """
        is_made = evaluation.status is not Status.SKIPPED
        with self._lock:
            self._evaluated += is_made
            if self._remaining is not None:
                self._remaining.evaluated(evaluation.configuration, is_made)
            if evaluation.status is Status.FAILED:
                self.tell(f"failed  {evaluation.configuration.key}: {evaluation.reason}")
            self._show_event()

    def deferred(self, configurations: Collection[Configuration]) -> None:
        """Exclude configurations that are not expected to start from the time left,
        until they are expected again.
        """
        with self._lock:
            if self._remaining is not None:
                self._remaining.defer(configurations)
            self._show_event()

    def close(self) -> None:
        """Close the display; what comes later is not shown."""
        self._closed.set()
        with self._lock:
            if self._display is not None:
                self._display.close()
            self._display = None

    def _tick(self) -> None:
        """Show the time left again and again, until the end."""
        while not self._closed.wait(TICK_S):
            with self._lock:
                self._show()

    def _show_event(self) -> None:
        """Show the search after an event, unless the last one was shown just now."""
        started = time.monotonic()
        if started >= self._quiet_until:
            self._show()
            ended = time.monotonic()
            # Showing an event takes time from the search,
            # so the pause after it grows with what it took.
            self._quiet_until = ended + REST * (ended - started)

    def _show(self) -> None:
        """Show the search now, and write the moment to the run."""
        if self._display is None and self._run is None:
            return
        snapshot = self._take_snapshot()
        if self._display is not None:
            self._display.status(snapshot.line, snapshot.share)
        if self._run is not None and time.monotonic() >= self._kept_until:
            self._kept_until = time.monotonic() + KEPT_S
            # A full disk ends the search where it keeps results.
            with contextlib.suppress(OSError):
                write_snapshot(self._run, snapshot)

    def _describe_work(self) -> str:
        """Return the current work in words."""
        if self._saying:
            return self._saying
        running = [
            f"{subject}{more}" for subject, more in (*self._running.items(), *self._spare.items())
        ]
        if running:
            return " | ".join(running[:2])
        return STARTING if self._remaining is None else CHOOSING

    def _take_snapshot(self) -> Snapshot:
        now = self._describe_work()
        if self._remaining is None:
            return Snapshot(now)
        left_s = self._remaining.seconds(time.monotonic())
        share = self._remaining.share()
        until_limit_s = self._ends - time.monotonic()
        limited = until_limit_s < left_s
        if limited:
            left_s = max(0.0, until_limit_s)
            share = 1.0 - max(0.0, until_limit_s) / (self._ends - self._began)
        # A search may evaluate configurations that the plan had skipped,
        # if nothing meets the budget.
        whole = max(self._evaluated, self._configurations)
        return Snapshot(now, self._evaluated, whole, left_s, share, limited)

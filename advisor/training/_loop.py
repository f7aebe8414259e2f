"""Run a training batch after batch, epoch after epoch, until it or its time is over.

`_finetune/`, `_on_maps/` and `_flatgraph/` each implement :class:`Training` and call
:func:`run_training`. :class:`Timer` is the time limit that a search gives them, and :class:`Adam`
the moments of the optimizer that they share. If equal batches give other weights, raise the
versions of all three (``docs/extend-stages.md``, "Which version to raise").
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    import tensorflow as tf

Batch = TypeVar("Batch")

LOOK_S = 1.0  # Least seconds between two looks at the speed of a training
RECENT_CPU_S = 10.0
"""CPU seconds of a training after which an earlier look at its speed counts half.

It is also the weight of the speed that was planned.
"""

STILL = 0.05
"""CPU seconds of a second below which a training was stopped, for instance for a measurement."""

SLOWEST = 4.0
"""Most times that the work after a training is taken to last longer than planned.

Other jobs take their turns in between.
"""


class Training(Protocol[Batch]):
    """A training that :func:`run_training` performs."""

    def goes_on(self) -> bool:
        """Return whether to begin another epoch."""

    def batches(self) -> Iterable[Batch]:
        """Return the batches of the next epoch."""

    def is_late(self) -> bool:
        """Return whether to end the epoch before its next batch."""

    def step(self, batch: Batch, place: int) -> Any:
        """Train on batch number ``place`` of the epoch, counted from 0, and return its loss."""

    def end_epoch(self, losses: Sequence[Any]) -> None:
        """Take the losses of the epoch, which has one step or more."""


def run_training(training: Training[Batch]) -> None:
    """Train epoch after epoch.

    Each has at least one step, so that a training without time has a result too.
    """
    while training.goes_on():
        losses: list[Any] = []
        for batch in training.batches():
            if training.is_late() and losses:
                break
            losses.append(training.step(batch, len(losses)))
        training.end_epoch(losses)


@dataclass(frozen=True)
class Reserve:
    """The time that a search keeps for the work after a training, such as its int8 file.

    It is ``seconds`` by the clock if a CPU second of the training takes ``wall_s`` seconds. Where
    that takes longer, because other programs came, the work after it does so, too.
    """

    seconds: float
    wall_s: float


class _Load:
    """Measures how many times longer than planned the work of this process takes.

    Recent seconds count most.
    """

    def __init__(self, planned_wall_s: float) -> None:
        self._planned_wall_s = planned_wall_s
        self.restart()

    def restart(self) -> None:
        """Take the plan as true until the next looks."""
        self._looked_at = time.monotonic()
        self._used_s = time.process_time()
        self._wall_s = RECENT_CPU_S * self._planned_wall_s
        self._cpu_s = RECENT_CPU_S

    def read_slowdown(self) -> float:
        """Return how many times longer than planned work takes now, from 1 to :data:`SLOWEST`."""
        wall_s = time.monotonic() - self._looked_at
        if wall_s >= LOOK_S:
            cpu_s = time.process_time() - self._used_s
            self._looked_at += wall_s
            self._used_s += cpu_s
            if cpu_s >= STILL * wall_s:
                remaining = 0.5 ** (cpu_s / RECENT_CPU_S)
                self._wall_s = remaining * self._wall_s + wall_s
                self._cpu_s = remaining * self._cpu_s + cpu_s
        return min(max(self._wall_s / self._cpu_s / self._planned_wall_s, 1.0), SLOWEST)


class Timer:
    """The time limit of a training that begins now; ``seconds`` is None for none.

    The limit ends earlier where the work after the training, for which it has a ``reserve``, takes
    longer than planned.
    """

    def __init__(self, seconds: float | None, reserve: Reserve | None = None) -> None:
        self.began = self._since = time.monotonic()
        self._ends = math.inf if seconds is None else self._since + seconds
        self._reserve_s = reserve.seconds if reserve else 0.0
        self._load = _Load(reserve.wall_s) if reserve else None

    def restart_share(self) -> None:
        """Count the share of the time from now on; the end stays.

        The work before, such as making the graph, used fewer cores than the steps, so it says
        nothing about their speed.
        """
        self._since = time.monotonic()
        if self._load:
            self._load.restart()

    def extend_limit(self, seconds: float) -> None:
        """Let the limit end the training ``seconds`` after its beginning."""
        self._ends = self.began + seconds

    def is_over(self, more_s: float = 0.0) -> bool:
        """Return whether the limit is over before so many further seconds."""
        return time.monotonic() + more_s > self._compute_end()

    def compute_share_spent(self, reserved_s: float = 0.0) -> float:
        """Return the spent share of the time without ``reserved_s`` at its end; 0 for no limit."""
        whole_s = self._compute_end() - reserved_s - self._since
        if math.isinf(whole_s):
            return 0.0
        return (time.monotonic() - self._since) / max(whole_s, 1e-9)

    def _compute_end(self) -> float:
        """Return the end, in seconds of the monotonic clock, as fast as the machine is now."""
        if self._load is None:
            return self._ends
        return self._ends - self._reserve_s * (self._load.read_slowdown() - 1.0)


class Adam:
    """The moments of Adam (Kingma and Ba, "Adam", 2015), of gradients with a common norm below 1.

    The caller takes the step, as weight decay and rates differ. Keras' Adam has neither a rate for
    each weight nor decay towards a start. ``moments`` are the running means of the gradient and of
    its square, for each weight.
    """

    def __init__(self, weights: Iterable[tf.Tensor]) -> None:
        import tensorflow as tf

        self.moments = []
        for weight in weights:
            first = tf.Variable(tf.zeros_like(weight), trainable=False)
            second = tf.Variable(tf.zeros_like(weight), trainable=False)
            self.moments.append((first, second))

    def take(
        self, gradients: Sequence[tf.Tensor], number: tf.Tensor
    ) -> list[tuple[tf.Tensor, tf.Tensor]]:
        """Take the gradients of step ``number``, counted from 1; return a mean and size a weight.

        The caller's step is the rate times mean over size.
        """
        import tensorflow as tf

        clipped, _ = tf.clip_by_global_norm(list(map(tf.convert_to_tensor, gradients)), 1.0)
        means = []
        for gradient, (first, second) in zip(clipped, self.moments, strict=True):
            first.assign(0.9 * first + 0.1 * gradient)
            second.assign(0.999 * second + 0.001 * tf.square(gradient))
            # Both start from 0, and the divisions make up for that in the first steps.
            mean = first / (1.0 - 0.9**number)
            size = tf.sqrt(second / (1.0 - 0.999**number)) + 1e-8
            means.append((mean, size))
        return means

"""Tasks that Ray runs on its nodes, and the switches that pause trainers during a measurement."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from advisor.engine.execution import node
from advisor.engine.execution.node import Arguments, Bundle, CallResult
from advisor.isolation import Limits, Pause
from advisor.measurement.host import Host, describe

LOOKS_EVERY_S = 0.3
"""How often a trainer on another machine checks its switch."""

PACKAGES = ("advisor", "ai-edge-litert", "numpy", "tensorflow")


class Switches:
    """An actor that knows which trainers must pause and which of them have paused."""

    def __init__(self) -> None:
        self._wanted: dict[str, bool] = {}
        self._seen: dict[str, bool] = {}

    def want(self, trainer: str, stopped: bool) -> None:
        """Tell a trainer to pause, or to continue."""
        self._wanted[trainer] = stopped

    def look(self, trainer: str, stopped: bool) -> bool:
        """Note whether a trainer is paused, and return whether it must be."""
        self._seen[trainer] = stopped
        return self._wanted.get(trainer, False)

    def drop(self, trainer: str) -> None:
        """Forget a trainer that has finished."""
        self._wanted.pop(trainer, None)
        self._seen.pop(trainer, None)

    def all_followed(self) -> bool:
        """Return True if every trainer has followed its switch."""
        return all(stopped == self._wanted.get(trainer, False) for trainer, stopped in self._seen.items())


def job(
    kind: str,
    function: str,
    session: str,
    arguments: Arguments,
    bundles: Mapping[str, object],
    limits: Limits | None,
    switches: Any,
    trainer: str,
) -> CallResult:
    """Run a function, given by name, in a child process of this node; a job with a ``trainer`` name can be paused."""
    pause = Pause()
    with _watched(pause, switches, trainer) if trainer else contextlib.nullcontext():
        call = node.in_child(kind, function, limits, pause)
        return replace(node.work(call, session, arguments, bundles, _fetch), peak_bytes=node.peak_bytes(kind))


def measurement(
    function: Callable[..., object], session: str, arguments: Arguments, bundles: Mapping[str, object]
) -> CallResult:
    """Call a measuring function on this node, which has the device."""
    return node.work(lambda given: function(*given), session, arguments, bundles, _fetch)


def versions() -> dict[str, str]:
    """Return the package versions of this node."""
    return {package: version(package) for package in PACKAGES}


def host() -> Host:
    """Describe this node."""
    return describe()


def tidy(session: str) -> None:
    """Delete the files of a search on this node."""
    node.tidy(session)


def _fetch(reference: object) -> Bundle:
    import ray

    bundle: Bundle = ray.get(reference)
    return bundle


@contextlib.contextmanager
def _watched(pause: Pause, switches: Any, trainer: str) -> Iterator[None]:
    """Pause and resume the job as its switch says, as long as the job runs."""
    import ray

    over = threading.Event()

    def follow(stopped: bool) -> bool:
        """Follow the switch, report it, and return whether the trainer is paused."""
        wanted = bool(ray.get(switches.look.remote(trainer, stopped)))
        if wanted != stopped:
            (pause.pause if wanted else pause.resume)()
            ray.get(switches.look.remote(trainer, wanted))
        return wanted

    def watch(stopped: bool) -> None:
        while not over.wait(LOOKS_EVERY_S):
            stopped = follow(stopped)

    # Report before the job starts, because a measurement waits for every trainer that has reported.
    begins = follow(False)
    thread = threading.Thread(target=watch, args=(begins,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


STOPS = signal.SIGSTOP
"""The signal that pauses a trainer; every other signal lets it continue."""

"""The cluster's side: tasks that Ray runs on its nodes, and the switches that stop trainers for a measurement."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from advisor.engine.execution import node
from advisor.engine.execution.node import Outcome
from advisor.isolation import Limits, Pause
from advisor.measurement.host import Host, describe

LOOKS_EVERY_S = 0.3
"""How often a trainer on another machine looks at its switch."""

PACKAGES = ("advisor", "ai-edge-litert", "numpy", "tensorflow")


class Switches:
    """An actor: which trainers are to stand still, and which of them do."""

    def __init__(self) -> None:
        self._wanted: dict[str, bool] = {}
        self._seen: dict[str, bool] = {}

    def want(self, trainer: str, stopped: bool) -> None:
        """Ask a trainer to stop, or to go on."""
        self._wanted[trainer] = stopped

    def look(self, trainer: str, stopped: bool) -> bool:
        """Take note of how a trainer is, and return how it is to be."""
        self._seen[trainer] = stopped
        return self._wanted.get(trainer, False)

    def drop(self, trainer: str) -> None:
        """Forget a trainer that is done."""
        self._wanted.pop(trainer, None)
        self._seen.pop(trainer, None)

    def settled(self) -> bool:
        """True where every trainer is as it is to be."""
        return all(stopped == self._wanted.get(trainer, False) for trainer, stopped in self._seen.items())


def job(
    kind: str,
    function: str,
    session: str,
    arguments: tuple[Any, ...],
    bundles: Mapping[str, Any],
    limits: Limits | None,
    switches: Any,
    trainer: str,
) -> Outcome:
    """Run a job by name in a child of a node; where ``trainer`` names one, it can be stopped for a while."""
    pause = Pause()
    with _watched(pause, switches, trainer) if trainer else contextlib.nullcontext():
        call = node.in_child(kind, function, limits, pause)
        return replace(node.work(call, session, arguments, bundles, _fetch), peak_bytes=node.peak_bytes(kind))


def measurement(
    function: Callable[..., Any], session: str, arguments: tuple[Any, ...], bundles: Mapping[str, Any]
) -> Outcome:
    """Call a measurement on the node that has the device."""
    return node.work(lambda given: function(*given), session, arguments, bundles, _fetch)


def versions() -> dict[str, str]:
    """Return what is installed on a node."""
    return {package: version(package) for package in PACKAGES}


def host() -> Host:
    """Return the machine that a node is."""
    return describe()


def tidy(session: str) -> None:
    """Take away what a search left on a node."""
    node.tidy(session)


def _fetch(reference: Any) -> Any:
    import ray

    return ray.get(reference)


@contextlib.contextmanager
def _watched(pause: Pause, switches: Any, trainer: str) -> Iterator[None]:
    """Hold a pause to its switch for as long as the job runs."""
    import ray

    over = threading.Event()

    def follow(stopped: bool) -> bool:
        """Do as the switch says, say so, and return whether the trainer stands still."""
        wanted = bool(ray.get(switches.look.remote(trainer, stopped)))
        if wanted != stopped:
            (pause.pause if wanted else pause.resume)()
            ray.get(switches.look.remote(trainer, wanted))
        return wanted

    def watch(stopped: bool) -> None:
        while not over.wait(LOOKS_EVERY_S):
            stopped = follow(stopped)

    # The first look comes before the job: a measurement waits for every trainer that was seen.
    begins = follow(False)
    thread = threading.Thread(target=watch, args=(begins,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


STOPS = signal.SIGSTOP
"""The signal of a pause; every other one lets the trainer go on."""

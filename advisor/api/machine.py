"""Check of this machine for what a search needs, with a hint for each thing that is missing."""

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version

from advisor.core.errors import AdvisorError
from advisor.core.units import show_bytes

PACKAGES = ("tensorflow", "keras", "ai-edge-litert", "ai-edge-quantizer", "optuna", "scikit-image")
MEMORY_BYTES = 4_000_000_000
"""A child process that converts or scores takes up to 3 GB; the rest is for the parent and the system."""

DISK_BYTES = 3_000_000_000
"""The weights and results of a search with the default cards took 1.2 GB."""


class State(StrEnum):
    """The outcome of a check."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True)
class Check:
    """One checked property of the machine.

    Attributes:
        name: what was checked.
        state: the outcome.
        found: what was found.
        hint: what to do about it; empty if nothing is wrong.
    """

    name: str
    state: State
    found: str
    hint: str = ""


def doctor(*, run_model: bool = True) -> tuple[Check, ...]:
    """Check this machine for what a search needs: packages, memory, disk, weights, load.

    Args:
        run_model: also start a child process that loads the runtime (about a second).
    """
    checks: list[Callable[[], Iterator[Check]]] = [_python, _packages, _machine, _cache, _weights]
    if run_model:
        checks.append(_runtime)
    return tuple(row for check in checks for row in check())


def _check(name: str, good: bool, found: str, hint: str, otherwise: State = State.WARNING) -> Check:
    """Return the check of a property that is good, or else needs the hint."""
    return Check(name, State.OK, found) if good else Check(name, otherwise, found, hint)


def _python() -> Iterator[Check]:
    found = ".".join(map(str, sys.version_info[:3]))
    fits = (3, 11) <= sys.version_info[:2] <= (3, 13)
    yield _check("python", fits, found, "use Python 3.11, 3.12 or 3.13", State.FAILED)


def _packages() -> Iterator[Check]:
    for package in PACKAGES:
        try:
            yield Check(package, State.OK, version(package))
        except PackageNotFoundError:
            yield Check(package, State.FAILED, "not installed", f"install it: pip install {package}")


def _machine() -> Iterator[Check]:
    import psutil

    from advisor.measurement import host

    yield Check("processor", State.OK, str(host.describe()))
    free = psutil.virtual_memory().available
    hint = f"a search may need {show_bytes(MEMORY_BYTES)}: close other programs"
    yield _check("free memory", free >= MEMORY_BYTES, show_bytes(free), hint)
    load = psutil.getloadavg()[0] / (psutil.cpu_count() or 1)
    yield _check(
        "load a core", load < 0.5, f"{load:.2f}", "timings will be marked as contended: end other programs first"
    )


def _cache() -> Iterator[Check]:
    from advisor.store import cache_root

    root = cache_root()
    try:
        root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=root):
            pass
    except OSError as error:
        yield Check("cache", State.FAILED, f"{root}: {error.strerror}", "name another folder with ADVISOR_CACHE_DIR")
        return
    free = shutil.disk_usage(root).free
    hint = f"a search may need {show_bytes(DISK_BYTES)}; name another disk with ADVISOR_CACHE_DIR"
    yield _check("cache", free >= DISK_BYTES, f"{root}, {show_bytes(free)} free", hint)


def _weights() -> Iterator[Check]:
    from advisor.catalog.catalogue import load_catalogue
    from advisor.catalog.weights.fetching import locate
    from advisor.downloads.files import FetchOptions

    cards = load_catalogue().values()
    here = [card.name for card in cards if locate(card, FetchOptions(offline=True))]
    found = f"{len(here)} of {len(cards)} cards have their weights on this machine"
    hint = "the first search fetches them; without a network: run advisor catalog fetch on another machine"
    yield _check("weights", bool(here), found, hint)


def _runtime() -> Iterator[Check]:
    from advisor.isolation import CallLimits, ChildPool, Scratch

    with Scratch() as folder, ChildPool(folder / "log.txt") as pool:
        try:
            pool.call("ai_edge_litert.interpreter:OpResolverType", 0, limits=CallLimits(seconds=60))
            network = pool.call("advisor.isolation.child:has_network")
        except AdvisorError as error:
            yield Check("child process", State.FAILED, error.message, "reinstall ai-edge-litert")
            return
    confined = "this system lets it have a network" if network else "it has no network"
    yield Check("child process", State.OK, f"the runtime loads in a child process; {confined}")

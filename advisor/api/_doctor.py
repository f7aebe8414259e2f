"""The public function :func:`doctor`: check this machine, or check a run.

Does the machine have what a search needs, and is the run as it was written? ``advisor doctor``
prints the checks, and its exit code follows from their states. Each ``_check_...`` yields the
checks of one topic; nothing is fetched or changed.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from advisor.core import AdvisorError, show_bytes
from advisor.store import RunFolder

PACKAGES = ("ai-edge-litert", "ai-edge-quantizer", "optuna", "scikit-image")
TRAINING = ("tensorflow", "keras")
MEMORY_BYTES = 4_000_000_000
"""A child process that converts or scores takes up to 3 GB;
the rest is for the parent and the system.
"""

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


def doctor(run: str | Path | None = None, *, run_model: bool = True) -> tuple[Check, ...]:
    """Check this machine for what a search needs: packages, memory, disk, weights, load.
    Or check a run.

    Args:
        run: a run folder: check its lines, files and hashes, and recompute accuracies, sizes and
            counts instead.
        run_model: also start a child process that loads the runtime (about a second).

    Raises:
        UsageError: no run folder.
    """
    if run is not None:
        return _check_run(RunFolder.open(Path(run)))
    checks = [
        *_check_packages(),
        *_check_training(),
        *_check_machine(),
        *_check_cache(),
        *_check_weights(),
    ]
    if run_model:
        checks += _check_runtime()
    return tuple(checks)


def _check_run(run: RunFolder) -> tuple[Check, ...]:
    """Return a check for each thing of a run that does not fit, or one that says that all does."""
    from advisor.engine import find_contradictions
    from advisor.store import Problem

    checks = []
    for problem in (*Problem.list_in_run(run), *find_contradictions(run)):
        # A run of a version without hashes is not wrong: it only cannot prove itself.
        state = State.WARNING if problem.is_old else State.FAILED
        checks.append(Check(problem.file, state, problem.what))
    if not checks:
        whole = "every line, file and figure is as it was written"
        checks.append(Check("run folder", State.OK, whole))
    return tuple(checks)


def _make_check(
    name: str,
    good: bool,
    figure: str,
    hint: str,
    otherwise: State = State.WARNING,
) -> Check:
    """Return the check of a property that is good, or else needs the hint."""
    if good:
        return Check(name, State.OK, figure)
    return Check(name, otherwise, figure, hint)


def _check_packages() -> Iterator[Check]:
    python = ".".join(map(str, sys.version_info[:3]))
    fits = (3, 11) <= sys.version_info[:2] <= (3, 14)
    yield _make_check("python", fits, python, "use Python 3.11 to 3.14", State.FAILED)
    for package in PACKAGES:
        try:
            yield Check(package, State.OK, version(package))
        except PackageNotFoundError:
            yield Check(
                package, State.FAILED, "not installed", f"install it: pip install {package}"
            )


def _check_training() -> Iterator[Check]:
    from advisor.core import install_extra
    from advisor.devices import find_version

    # Looked up in the metadata of the packages: importing TensorFlow takes 10 s.
    versions = []
    for package in TRAINING:
        installed = find_version(package)
        if installed:
            versions.append(f"{package} {installed}")
    hint = f"fine-tuning, boxes and masks need it: {install_extra('train')}"
    yield _make_check(
        "training", len(versions) == len(TRAINING), ", ".join(versions) or "not installed", hint
    )


def _check_machine() -> Iterator[Check]:
    import psutil

    from advisor.measurement import host

    yield Check("processor", State.OK, str(host.describe()))
    free = psutil.virtual_memory().available
    hint = f"a search may need {show_bytes(MEMORY_BYTES)}: close other programs"
    yield _make_check("free memory", free >= MEMORY_BYTES, show_bytes(free), hint)
    # A load counts waiting processes of the whole machine,
    # so it says something only beside its cores.
    load = psutil.getloadavg()[0] / (psutil.cpu_count() or 1)
    hint = "timings will be marked as contended: end other programs first"
    yield _make_check("load a core", load < 0.5, f"{load:.2f}", hint)


def _check_cache() -> Iterator[Check]:
    from advisor.store import cache_root

    root = cache_root()
    try:
        root.mkdir(parents=True, exist_ok=True)
        # Permissions do not tell all: a disk may be full or mounted to be read only.
        with tempfile.TemporaryFile(dir=root):
            pass
    except OSError as error:
        yield Check(
            "cache",
            State.FAILED,
            f"{root}: {error.strerror}",
            "name another folder with ADVISOR_CACHE_DIR",
        )
        return
    free = shutil.disk_usage(root).free
    hint = f"a search may need {show_bytes(DISK_BYTES)}; name another disk with ADVISOR_CACHE_DIR"
    yield _make_check("cache", free >= DISK_BYTES, f"{root}, {show_bytes(free)} free", hint)


def _check_weights() -> Iterator[Check]:
    from advisor.catalog import Catalogue, locate_weights
    from advisor.store import FetchOptions

    cards = Catalogue.load().values()
    # Offline, because a check of the machine must fetch nothing.
    on_disk = [card.name for card in cards if locate_weights(card, FetchOptions(offline=True))]
    count = f"{len(on_disk)} of {len(cards)} cards have their weights on this machine"
    hint = (
        "the first search fetches them; without a network: run advisor catalog fetch --all on"
        " another machine"
    )
    yield _make_check("weights", bool(on_disk), count, hint)


def _check_runtime() -> Iterator[Check]:
    from advisor.measurement import host

    try:
        network = host.try_runtime()
    except AdvisorError as error:
        yield Check("child process", State.FAILED, error.message, "reinstall ai-edge-litert")
        return
    confined = "this system lets it have a network" if network else "it has no network"
    yield Check("child process", State.OK, f"the runtime loads in a child process; {confined}")

"""What the user asks, as written, and what it means: resolved and validated before anything is spent."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from advisor.core import units
from advisor.core.budget import Budget
from advisor.core.chance import CONFIDENCE
from advisor.core.errors import UsageError, nearest
from advisor.core.figures import HOST
from advisor.core.licences import parse_licences
from advisor.core.preference import BALANCED, Preference, parse_preference
from advisor.core.training import HEAD, NONE, in_order
from advisor.search.storage import without_password
from advisor.search.valid import ROBUST as ROBUST
from advisor.search.valid import validate
from advisor.store.yamlfile import read_yaml

NEVER = "never"

LEAST_GAIN = 0.005
LARGE_SPACE = 100
"""Smaller spaces are searched to their end: that takes minutes, and the whole table is worth having."""

FREE_ON_RESUME = (
    "time_limit",
    "max_trials",
    "stop_below",
    "offline",
    "mirror",
    "remeasure",
    "storage",
    "out",
    "learn_from",
    "executor",
    "workers",
    "shared_folder",
)
"""Options that a resumed run may be given anew: they do not change the question."""


@dataclass(frozen=True)
class Request:
    """One question, with the units that the user wrote; the properties give base units.

    Attributes:
        task: ``image-classification``.
        budget: upper limit of the latency (its 90th percentile), such as ``50ms``.
        size_budget: upper limit of the artefact's size, such as ``5MB``.
        memory_budget: upper limit of the peak private memory, such as ``100MB``.
        max_drop: points that an artefact may lose against its float32 form, such as ``1pt``.
        min_accuracy: lower limit of top-1, such as ``85%``.
        data: folder of the team's pictures, in any layout; empty for none.
        device: where it is to run: ``host``, names of device profiles (``galaxy-s24``, ``galaxy-s24:qnn-npu``), or
            several joined by commas: one answer for each, and one for all.
        profiles: the team's own folders of device profiles.
        must_run_on: devices that the pick must run on as well, within the latency budget.
        licence: licences that are taken: ``permissive``, SPDX identifiers, or both joined by commas; empty for any.
        objective: what candidates are compared by: ``accuracy``, or ``robust-accuracy``, the mean over capture
            conditions.
        prefer: what counts among those that meet the budget: ``balanced``, ``accuracy``, ``latency``, ``size``, or
            weights such as ``accuracy=2,latency=1``; empty for ``balanced``.
        confidence: the probability with which a predicted latency must meet the budget, such as ``90%``, the default.
        candidates: names, families and globs of model cards; empty for all whose weights can be had.
        training: names of training recipes; empty for ``head`` with pictures and ``none`` without.
        tune_training: fine-tunings a card that a study of their knobs may take; 0 for the recipe's own knobs.
        compressions: names of compression recipes; empty for the default five.
        threads: CPU thread counts; empty for 1 and all cores.
        catalog: the team's own catalogue files.
        sampler: ``advisor``, ``tpe``, ``nsga2``, ``gp`` (needs PyTorch) or ``random``.
        time_limit: stop after, such as ``10min``; empty for none.
        max_trials: stop after so many configurations; 0 for none.
        seed: seed of the split, of training and of the sampler.
        out: folder of the runs.
        offline: never open a connection.
        mirror: folder or address that holds weights, asked before all others.
        remeasure: time again what an earlier run has timed on this machine.
        storage: where the Optuna study is kept: ``journal`` or ``sqlite`` in the run folder, or ``postgresql://...``.
        executor: where the work runs: ``local``, ``ray`` or ``ray://host:port``.
        workers: how many jobs run side by side at most; 0 for one a core.
        shared_folder: of a Ray cluster, what every node sees under the same name; empty to send files through the
            object store.
        stop_below: stop when an hour more is expected to add less than this share of the front's hypervolume, such as
            ``0.5%``; ``never``; empty for 0.5 % in spaces of 100 configurations and more.
        learn_from: earlier runs, or folders of runs, whose results order this search.
    """

    task: str = "image-classification"
    budget: str = ""
    size_budget: str = ""
    memory_budget: str = ""
    max_drop: str = ""
    min_accuracy: str = ""
    data: str = ""
    device: str = "host"
    profiles: tuple[str, ...] = ()
    must_run_on: tuple[str, ...] = ()
    licence: str = ""
    objective: str = "accuracy"
    prefer: str = ""
    confidence: str = ""
    candidates: tuple[str, ...] = ()
    training: tuple[str, ...] = ()
    tune_training: int = 0
    compressions: tuple[str, ...] = ()
    threads: tuple[int, ...] = ()
    catalog: tuple[str, ...] = ()
    sampler: str = "advisor"
    time_limit: str = ""
    max_trials: int = 0
    seed: int = 0
    out: str = "runs"
    offline: bool = False
    mirror: str = ""
    remeasure: bool = False
    storage: str = "journal"
    stop_below: str = ""
    learn_from: tuple[str, ...] = ()
    executor: str = "local"
    workers: int = 0
    shared_folder: str = ""

    @property
    def limits(self) -> Budget:
        """The budget in base units."""
        return Budget(
            latency_ms=units.milliseconds(self.budget, "--budget") if self.budget else None,
            size_bytes=units.size_bytes(self.size_budget, "--size-budget") if self.size_budget else None,
            max_drop_points=units.points(self.max_drop, "--max-drop") if self.max_drop else None,
            min_accuracy=units.percent(self.min_accuracy, "--min-accuracy") if self.min_accuracy else None,
            memory_bytes=units.size_bytes(self.memory_budget, "--memory-budget") if self.memory_budget else None,
            licence=parse_licences(self.licence),
            must_run_on=self.must_run_on,
            confidence=self._confidence,
        )

    @property
    def _confidence(self) -> float:
        if not self.confidence:
            return CONFIDENCE
        share = units.percent(self.confidence, "--confidence") / 100
        if not 0.5 <= share <= 0.99:
            raise UsageError(
                f"--confidence: '{self.confidence}' is not between 50% and 99%",
                "predictions are calibrated up to 99%: write for example --confidence 90%",
            )
        return share

    @property
    def preference(self) -> Preference:
        """What counts among the candidates that meet the budget."""
        return parse_preference(self.prefer) if self.prefer else BALANCED

    @property
    def devices(self) -> tuple[str, ...]:
        """Where it is to run, each once, in the order given."""
        names = (part.strip() for part in self.device.split(","))
        return tuple(dict.fromkeys(name for name in names if name)) or (HOST,)

    @property
    def trainings(self) -> tuple[str, ...]:
        """The training recipes, the lightest first; fine-tuning starts from a head, which is therefore among them."""
        if not self.data:
            return (NONE,)
        return in_order((HEAD, *self.training))

    @property
    def time_limit_s(self) -> float | None:
        """The time limit in seconds, or None."""
        return units.seconds(self.time_limit, "--time-limit") if self.time_limit else None

    def least_gain(self, configurations: int) -> float | None:
        """Return the share of the hypervolume below which an hour more is not worth it, or None to go on to the end.

        Args:
            configurations: size of the search space.
        """
        if self.stop_below:
            return None if self.stop_below == NEVER else units.percent(self.stop_below, "--stop-below") / 100
        return LEAST_GAIN if self.sampler == "advisor" and configurations >= LARGE_SPACE else None

    @property
    def cores(self) -> int:
        """How many jobs run side by side on this machine."""
        return self.workers or usable_cores()

    @property
    def thread_counts(self) -> tuple[int, ...]:
        """The CPU thread counts to measure, ascending."""
        return tuple(sorted(set(self.threads or (1, usable_cores()))))

    def to_dict(self) -> dict[str, Any]:
        """Return the request with the keys and values of a request file; a password is not among them."""
        values = {**asdict(self), "storage": without_password(self.storage)}
        return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


def usable_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def resolve(options: Mapping[str, Any], file: Path | None = None) -> Request:
    """Join flags, a request file and the defaults (in this order of weight) into a validated request.

    Args:
        options: what was given, by the names of :class:`Request`'s attributes; None values are not given.
        file: YAML with the same keys.

    Raises:
        UsageError: an unknown key, a wrong type, a value without unit or not above zero, a contradiction.
    """
    values: dict[str, Any] = dict(_read_file(file)) if file else {}
    values.update({key: value for key, value in options.items() if value is not None})
    known = {field.name: field for field in fields(Request)}
    for key in values:
        if key not in known:
            raise UsageError(f"unknown option '{key}'{nearest(key, known)}", f"options: {', '.join(known)}")
    request = Request(**{key: _typed(key, value, getattr(Request, key)) for key, value in values.items()})
    validate(request)
    return request


def resolve_resumed(
    stored: Mapping[str, Any], options: Mapping[str, Any], file: Path | None = None, extend: str | None = None
) -> Request:
    """Return the request of a run that goes on: its own, with what may be given anew.

    Args:
        stored: the run's request.
        options: what was given; None values are not given.
        file: YAML with the same keys.
        extend: a new time limit, from now.

    Raises:
        UsageError: an option that differs from the run's own, or as :func:`resolve`.
    """
    own = resolve({key: value for key, value in stored.items() if key != "schema_version"})
    given = {key: value for key, value in options.items() if value is not None}
    values = {**(dict(_read_file(file)) if file else {}), **given}
    wanted = resolve({**own.to_dict(), **values})
    for key in values:
        if key not in FREE_ON_RESUME and getattr(wanted, key) != getattr(own, key):
            _refuse_other(key, getattr(own, key), getattr(wanted, key))
    if without_password(wanted.storage) != own.to_dict()["storage"]:
        _refuse_other("storage", own.to_dict()["storage"], without_password(wanted.storage))
    changed = replace(wanted, out=own.out)
    return replace(changed, time_limit=extend) if extend and units.seconds(extend, "--extend") else changed


def _refuse_other(key: str, own: Any, wanted: Any) -> None:
    shown = [", ".join(map(str, value)) if isinstance(value, tuple) else str(value) for value in (own, wanted)]
    option = f"--{key.replace('_', '-')}"
    raise UsageError(
        f"--resume: the run was begun with {f'{option} {shown[0]}' if shown[0] else f'no {option}'}, not {shown[1]}",
        "leave it out to go on with the run's own question; start a new run for another one (what is done is reused), "
        "or decide again under other limits with advisor report",
    )


def _read_file(file: Path) -> Mapping[str, Any]:
    try:
        values = read_yaml(file).values
    except UsageError as error:
        raise UsageError(f"--request: {error.message}", "give the path of a YAML file; see docs/search.md") from None
    if not isinstance(values, dict):
        raise UsageError(f"--request: '{file}' holds no keys", "write for example: budget: 50ms")
    return {str(key).replace("-", "_"): value for key, value in values.items() if key != "schema_version"}


def _typed(key: str, value: Any, default: Any) -> Any:
    if isinstance(default, tuple):
        items = [value] if isinstance(value, str | int | Path) else list(value)
        return tuple(_thread(item) if key == "threads" else str(item) for item in items)
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise UsageError(f"{key}: '{value}' is neither true nor false", f"write {key}: true")
        return value
    if isinstance(default, int):
        return _whole(key, value)
    if isinstance(value, Mapping | list | tuple | bool):
        raise UsageError(f"{key}: '{value}' is not one value", f"write for example {key}: {default or '...'}")
    return str(value)


def _whole(key: str, value: Any) -> int:
    try:
        number = int(str(value))
    except ValueError:
        raise UsageError(f"{key}: '{value}' is not a whole number", f"write for example {key}: 1") from None
    if number < 0:
        raise UsageError(f"{key}: {number} is below zero", f"write for example {key}: 1")
    return number


def _thread(item: Any) -> int:
    if str(item) == "all":
        return usable_cores()
    count = _whole("threads", item)
    if not 1 <= count <= 64:
        raise UsageError(f"threads: {count} is not between 1 and 64", "write for example --threads 1 --threads all")
    return count

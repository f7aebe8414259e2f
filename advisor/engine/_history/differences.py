"""Find what differs between two runs besides figures, and which figures differ by more than
noise.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import asdict, dataclass, replace
from typing import Any

from advisor.core import Evaluation, Quantity, Status, show_figure
from advisor.engine._history.loaded_run import LoadedRun
from advisor.engine._history.run_inputs import read_section
from advisor.engine._pipeline.stage import StageName
from advisor.engine._question import QUESTION_OPTIONS
from advisor.store import sha256_json

_HOST_FACTS = ("cpu", "cores", "memory_bytes", "system", "fingerprint")

FIGURES = ("accuracy", "holdout_accuracy", "latency", "latency_p90", "size", "memory", "drop")

BETTER_UP = frozenset({"accuracy", "holdout_accuracy"})
"""Figures of which more is better; of all others, less is better."""

THRESHOLDS: Mapping[str, tuple[float, float]] = {
    "accuracy": (0.005, 0.5),
    "holdout_accuracy": (0.005, 0.5),
    "latency": (0.05, 0.1),
    "latency_p90": (0.05, 0.1),
    "size": (0.01, 10_000),
    "memory": (0.10, 1_000_000),
    "drop": (0.0, 0.5),
}
"""By figure, the share and the amount in its unit (points, ms, bytes)
that a difference must exceed to count.

Undisturbed timings of one file differ by 5 % from process to process; published accuracies of one
model differ by half a point from source to source.
"""


@dataclass(frozen=True)
class Difference:
    """One thing that differs between two runs.

    Attributes:
        topic: ``run folder`` (what does not prove itself), ``question``, ``data``, ``catalogue``,
            ``devices``, ``versions`` or ``candidates``.
        what: its name.
        before: its value in the earlier run, empty where it had none.
        after: its value in the later run, empty where it has none.
    """

    topic: str
    what: str
    before: str
    after: str


def find_differences(before: LoadedRun, after: LoadedRun) -> tuple[Difference, ...]:
    """Return everything that differs between two runs besides figures.

    A card of one of them is one difference, and so is a device of one of them.
    """
    cards = _list_cards(before)
    other_cards = _list_cards(after)
    devices = _list_devices(before) & _list_devices(after)
    differences = [
        *_rows("run folder", _problems(before), _problems(after)),
        *_rows("question", _question(before), _question(after)),
        *_rows("data", _data(before), _data(after)),
    ]
    for difference in _rows("catalogue", _catalogue(before), _catalogue(after)):
        # A card of one run alone would differ in every fact of the catalogue.
        # It is one difference, below.
        if difference.before and difference.after:
            differences.append(difference)
    differences += _rows("devices", _devices(before), _devices(after))
    differences += _rows("versions", _versions(before), _versions(after))
    first = _describe_consideration(cards, other_cards, "first")
    second = _describe_consideration(other_cards, cards, "second")
    differences += _rows("candidates", first, second)
    shared = cards & other_cards
    differences += _rows(
        "candidates", _forms(before, shared, devices), _forms(after, shared, devices)
    )
    return tuple(differences)


def _rows(topic: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterable[Difference]:
    for what in dict.fromkeys([*before, *after]):
        if before.get(what, "") != after.get(what, ""):
            yield Difference(topic, what, before.get(what, ""), after.get(what, ""))


def _list_devices(run: LoadedRun) -> set[str]:
    return {evaluation.configuration.target.device for evaluation in run.evaluations}


def _list_cards(run: LoadedRun) -> set[str]:
    evaluated = {evaluation.configuration.card for evaluation in run.evaluations}
    return evaluated.union(read_section(run.manifest, "cards"))


def _problems(run: LoadedRun) -> dict[str, str]:
    return {str(problem): problem.kind for problem in run.problems}


def _versions(run: LoadedRun) -> dict[str, str]:
    versions = {"advisor": run.manifest.get("advisor"), **read_section(run.manifest, "versions")}
    return {name: _text(version) for name, version in versions.items()}


def _question(run: LoadedRun) -> dict[str, str]:
    values = {name: _text(run.request.written[name]) for name in QUESTION_OPTIONS}
    costs = ""
    if values["costs"]:
        costs = sha256_json(values["costs"])[:16]
    return {
        **values,
        "prefer": str(run.question.preference),
        "metric": run.question.metric,
        "costs": costs,
    }


def _data(run: LoadedRun) -> dict[str, str]:
    counts = read_section(run.dataset, "pictures_per_class")
    classes = {f"images of '{name}'": str(count) for name, count in counts.items()}
    facts = dict(classes)
    for name in ("train", "validation", "holdout", "fingerprint"):
        text = _text(run.dataset.get(name))
        if text:
            facts[name] = text[:16]
    return facts


def _catalogue(run: LoadedRun) -> dict[str, str]:
    """Return the facts of each card: the hash of its content, its weights, its size."""
    inputs = {}
    for name, digest in read_section(run.manifest, "cards").items():
        inputs[f"card {name}"] = str(digest)[:16]
    for name, file in read_section(run.manifest, "weights").items():
        inputs[f"weights of {name}"] = (
            str(file.get("sha256", ""))[:16] if isinstance(file, Mapping) else str(file)
        )
    for evaluation in run.evaluations:
        # The hash of the weights stands above already, from the manifest.
        facts = replace(evaluation.card_facts, weights=None)
        card = evaluation.configuration.card
        inputs |= {
            f"{name} of {card}": _text(value)
            for name, value in asdict(facts).items()
            if value is not None
        }
    return inputs


def _devices(run: LoadedRun) -> dict[str, str]:
    host = read_section(run.manifest, "host")
    facts = {f"host {name}": _text(host.get(name)) for name in _HOST_FACTS}
    targets = {
        (e.configuration.target.device, e.configuration.target.accelerator)
        for e in run.evaluations
    }
    hashes = {}
    for name, value in read_section(run.manifest, "devices").items():
        hashes[f"profile {name}"] = str(value)[:16]
    devices = {
        f"device {device}, {accelerator}": "evaluated" for device, accelerator in sorted(targets)
    }
    return {**facts, **hashes, **devices}


def _describe_consideration(names: Set[str], others: Set[str], ordinal: str) -> dict[str, str]:
    """Return what a run says of each card that only one of two runs considered;
    ``ordinal`` names it.
    """
    absent = f"not a candidate in the {ordinal} run"
    return {
        **dict.fromkeys(sorted(names - others), "candidate"),
        **dict.fromkeys(sorted(others - names), absent),
    }


def _forms(run: LoadedRun, cards: Set[str], devices: Set[str]) -> dict[str, str]:
    """Return the status of each configuration of ``cards`` on ``devices``."""
    forms = {}
    for evaluation in run.evaluations:
        configuration = evaluation.configuration
        if configuration.card in cards and configuration.target.device in devices:
            reason = ""
            if evaluation.status is not Status.OK:
                reason = f": {evaluation.reason}"
            # Of two searches that their limits ended, the limits differ, and nothing of the file.
            is_left = evaluation.stage == StageName.STOP
            forms[configuration.name] = (
                "not reached" if is_left else f"{evaluation.status}{reason}"
            )
    return forms


def _text(value: object) -> str:
    if value is None or value == "" or value == []:
        return ""
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(value)


@dataclass(frozen=True)
class Delta:
    """One figure of one configuration, before and after.

    Attributes:
        figure: one of :data:`FIGURES`.
        before: the earlier figure, None where it was unknown.
        after: the later figure, None where it is unknown.
        counts: the difference is beyond the noise.
        why: why it counts or does not.
    """

    figure: str
    before: Quantity | None
    after: Quantity | None
    counts: bool
    why: str

    @property
    def worse(self) -> bool:
        """True where the difference counts and the later figure is worse;
        a figure that became unknown is worse.
        """
        if not self.counts or self.before is None:
            return False
        if self.after is None:
            return True
        return (self.after.value < self.before.value) == (self.figure in BETTER_UP)


def compare_figure(
    figure: str, before: Quantity | None, after: Quantity | None, distinct: bool | None = None
) -> Delta:
    """Compare one figure with its earlier value;
    ``distinct`` is a paired test's result, None to compare intervals.
    """
    if before is None or after is None:
        return Delta(
            figure,
            before,
            after,
            before is not after,
            "known on one side only" if before or after else "",
        )
    amount = abs(after.value - before.value)
    share, least = THRESHOLDS[figure]
    why = ""
    if amount <= least:
        why = f"not more than {show_figure(figure, least)}"
    elif amount <= share * abs(before.value):
        why = f"not more than {100 * share:g} %"
    elif distinct is False:
        why = "no significant difference on the same images"
    elif distinct is None and before.overlaps(after):
        why = "the intervals overlap"
    return Delta(figure, before, after, not why, why or "beyond the noise")


def compare_figures(before: Evaluation, after: Evaluation) -> tuple[Delta, ...]:
    """Compare every figure of a configuration with its earlier value.

    A latency that was measured on a busy machine never counts. The 90th percentile has no
    interval, so it counts only where the median does.
    """
    deltas = {
        name: compare_figure(name, getattr(before, name), getattr(after, name)) for name in FIGURES
    }
    # A figure that is known in one run only would otherwise count as changed.
    if before.holdout_accuracy is None or after.holdout_accuracy is None:
        deltas["holdout_accuracy"] = replace(
            deltas["holdout_accuracy"], counts=False, why="known of finalists only"
        )
    if before.contended or after.contended:
        for name in ("latency", "latency_p90"):
            deltas[name] = replace(
                deltas[name], counts=False, why="measured while the machine was busy"
            )
    # The median has an interval and the 90th percentile has none,
    # so the median says whether the file got slower.
    elif deltas["latency_p90"].counts and not deltas["latency"].counts:
        deltas["latency_p90"] = replace(
            deltas["latency_p90"], counts=False, why="the median has not changed"
        )
    return tuple(deltas.values())


def without_noise(after: Evaluation, changes: tuple[Delta, ...]) -> Evaluation:
    """Return ``after`` with the earlier figure wherever the difference does not count."""
    unchanged: dict[str, Any] = {
        change.figure: change.before for change in changes if not change.counts
    }
    return replace(after, **unchanged)

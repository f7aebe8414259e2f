"""Find what differs between two runs besides figures, and which figures differ beyond noise.

``compare.py`` asks for both: ``find_differences`` lists questions, images, cards, devices and
versions, and ``compare_figures`` makes a ``Delta`` of each figure of a configuration.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import asdict, dataclass, replace
from typing import Any

from advisor.core import Evaluation, Provenance, Quantity, Status, show_figure
from advisor.engine._history.loaded_run import LoadedRun
from advisor.engine._history.run_inputs import read_section
from advisor.engine._pipeline.stage import StageName
from advisor.engine._question import QUESTION_OPTIONS
from advisor.store import sha256_json

_HOST_FACTS = ("cpu", "cores", "memory_bytes", "system", "fingerprint")

FIGURES = ("accuracy", "holdout_accuracy", "latency", "latency_p90", "size", "memory", "drop")

BETTER_UP = frozenset({"accuracy", "holdout_accuracy"})
"""Figures of which more is better; of all others, less is better."""

EXPECTED = frozenset({Provenance.PREDICTED, Provenance.ESTIMATED})
"""Origins of figures that a later measurement corrects. A published figure is of other images."""

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
    differences = list[Difference]()
    differences += _compare_facts("run folder", _list_problems(before), _list_problems(after))
    differences += _compare_facts(
        "question", _describe_question(before), _describe_question(after)
    )
    differences += _compare_facts("data", _describe_data(before), _describe_data(after))
    for difference in _compare_facts("catalogue", _describe_cards(before), _describe_cards(after)):
        # A card of one run alone would differ in every fact of the catalogue.
        # It is one difference, below.
        if difference.before and difference.after:
            differences.append(difference)
    differences += _compare_facts("devices", _describe_devices(before), _describe_devices(after))
    differences += _compare_facts("versions", _list_versions(before), _list_versions(after))
    cards = _list_cards(before)
    other_cards = _list_cards(after)
    first = _describe_consideration(cards, other_cards, "first")
    second = _describe_consideration(other_cards, cards, "second")
    differences += _compare_facts("candidates", first, second)
    shared = cards & other_cards
    devices = _list_devices(before) & _list_devices(after)
    states_before = _describe_states(before, shared, devices)
    states_after = _describe_states(after, shared, devices)
    differences += _compare_facts("candidates", states_before, states_after)
    return tuple(differences)


def _compare_facts(
    topic: str, before: Mapping[str, str], after: Mapping[str, str]
) -> Iterable[Difference]:
    """Yield the facts that differ, by their names; a fact of one run is empty in the other."""
    for what in dict.fromkeys([*before, *after]):
        if before.get(what, "") != after.get(what, ""):
            yield Difference(topic, what, before.get(what, ""), after.get(what, ""))


def _list_devices(run: LoadedRun) -> set[str]:
    return {evaluation.configuration.target.device for evaluation in run.evaluations}


def _list_cards(run: LoadedRun) -> set[str]:
    evaluated = {evaluation.configuration.card for evaluation in run.evaluations}
    return evaluated.union(read_section(run.manifest, "cards"))


def _list_problems(run: LoadedRun) -> dict[str, str]:
    return {str(problem): problem.kind for problem in run.problems}


def _list_versions(run: LoadedRun) -> dict[str, str]:
    versions = {"advisor": run.manifest.get("advisor"), **read_section(run.manifest, "versions")}
    return {name: _text(version) for name, version in versions.items()}


def _describe_question(run: LoadedRun) -> dict[str, str]:
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


def _describe_data(run: LoadedRun) -> dict[str, str]:
    facts = {}
    for name, count in read_section(run.dataset, "pictures_per_class").items():
        facts[f"images of '{name}'"] = str(count)
    for name in ("train", "validation", "holdout", "fingerprint"):
        text = _text(run.dataset.get(name))
        if text:
            facts[name] = text[:16]
    return facts


def _describe_cards(run: LoadedRun) -> dict[str, str]:
    """Return the facts of each card: the hash of its content, its weights, its size."""
    facts = {}
    for name, digest in read_section(run.manifest, "cards").items():
        facts[f"card {name}"] = str(digest)[:16]
    for name, file in read_section(run.manifest, "weights").items():
        # Random weights have a text in place of a file.
        known = str(file.get("sha256", ""))[:16] if isinstance(file, Mapping) else str(file)
        facts[f"weights of {name}"] = known
    for evaluation in run.evaluations:
        card = evaluation.configuration.card
        # The hash of the weights stands above already, from the manifest.
        for name, value in asdict(replace(evaluation.card_facts, weights=None)).items():
            if value is not None:
                facts[f"{name} of {card}"] = _text(value)
    return facts


def _describe_devices(run: LoadedRun) -> dict[str, str]:
    host = read_section(run.manifest, "host")
    facts = {f"host {name}": _text(host.get(name)) for name in _HOST_FACTS}
    for name, value in read_section(run.manifest, "devices").items():
        facts[f"profile {name}"] = str(value)[:16]
    units = set()
    for evaluation in run.evaluations:
        target = evaluation.configuration.target
        units.add((target.device, target.accelerator))
    for device, accelerator in sorted(units):
        facts[f"device {device}, {accelerator}"] = "evaluated"
    return facts


def _describe_consideration(names: Set[str], others: Set[str], ordinal: str) -> dict[str, str]:
    """Return what a run says of each card that only one of two runs considered;
    ``ordinal`` names it.
    """
    absent = f"not a candidate in the {ordinal} run"
    return {
        **dict.fromkeys(sorted(names - others), "candidate"),
        **dict.fromkeys(sorted(others - names), absent),
    }


def _describe_states(run: LoadedRun, cards: Set[str], devices: Set[str]) -> dict[str, str]:
    """Return the status of each configuration of ``cards`` on ``devices``, with its reason."""
    states = {}
    for evaluation in run.evaluations:
        configuration = evaluation.configuration
        if configuration.card not in cards or configuration.target.device not in devices:
            continue
        state = str(evaluation.status)
        # Of two searches that their limits ended, the limits differ, and nothing of the file.
        if evaluation.stage == StageName.STOP:
            state = "not reached"
        elif evaluation.status is not Status.OK:
            state = f"{evaluation.status}: {evaluation.reason}"
        states[configuration.name] = state
    return states


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
        """True where the difference counts and the file got worse by it;
        a figure that became unknown is worse.
        """
        return self.poorer and not self.corrected

    @property
    def poorer(self) -> bool:
        """True where the difference counts and the later figure is the less good one."""
        if not self.counts or self.before is None:
            return False
        if self.after is None:
            return True
        return (self.after.value < self.before.value) == (self.figure in BETTER_UP)

    @property
    def corrected(self) -> bool:
        """True where the difference counts and a measurement took the place of an expectation:
        the figure was wrong, and nothing says that the file changed.
        """
        if not self.counts or self.before is None or self.after is None:
            return False
        was_expected = self.before.provenance in EXPECTED
        return was_expected and self.after.provenance is Provenance.MEASURED

    def show(self, name: str) -> str:
        """Return the two values in words, with the ``name`` of the file:
        ``latency of a int8 20.0 ms -> 30.0 ms``.
        """
        values = []
        for quantity in (self.before, self.after):
            text = "unknown" if quantity is None else show_figure(self.figure, quantity.value)
            # Of a correction, the reader must see which of the two was measured.
            if self.corrected and quantity is not None:
                text = f"{text} {quantity.provenance}"
            values.append(text)
        return f"{self.figure.replace('_', ' ')} of {name} {' -> '.join(values)}"


def compare_figure(
    figure: str, before: Quantity | None, after: Quantity | None, distinct: bool | None = None
) -> Delta:
    """Compare one figure with its earlier value;
    ``distinct`` is a paired test's result, None to compare intervals.
    """
    if before is None or after is None:
        why = "known on one side only" if before or after else ""
        return Delta(figure, before, after, counts=before is not after, why=why)
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
    return Delta(figure, before, after, counts=not why, why=why or "beyond the noise")


def compare_figures(before: Evaluation, after: Evaluation) -> tuple[Delta, ...]:
    """Compare every figure of a configuration with its earlier value.

    A latency that was measured on a busy machine never counts. The 90th percentile has no
    interval, so it counts only where the median does.
    """
    deltas = {}
    for name in FIGURES:
        deltas[name] = compare_figure(name, getattr(before, name), getattr(after, name))
    not_counted = dict[str, str]()
    # A figure that is known in one run only would otherwise count as changed.
    if before.holdout_accuracy is None or after.holdout_accuracy is None:
        not_counted["holdout_accuracy"] = "known of finalists only"
    if before.contended or after.contended:
        not_counted["latency"] = "measured while the machine was busy"
        not_counted["latency_p90"] = "measured while the machine was busy"
    # The median has an interval and the 90th percentile has none,
    # so the median says whether the file got slower.
    elif deltas["latency_p90"].counts and not deltas["latency"].counts:
        not_counted["latency_p90"] = "the median has not changed"
    for name, why in not_counted.items():
        deltas[name] = replace(deltas[name], counts=False, why=why)
    return tuple(deltas.values())


def without_noise(after: Evaluation, deltas: tuple[Delta, ...]) -> Evaluation:
    """Return ``after`` with the earlier figure wherever the difference does not count."""
    unchanged = dict[str, Any]()
    for delta in deltas:
        if not delta.counts:
            unchanged[delta.figure] = delta.before
    return replace(after, **unchanged)

"""Configurations, evaluations, the figures that they are ranked by,
and their lines in ``evaluations.jsonl``.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import cache
from typing import Any, NamedTuple, TypeVar, get_args

from advisor.core import Metric
from advisor.core._codec import parse, parse_known, to_json, types_of, with_new_names
from advisor.core._evaluation_facts import (
    Agreement,
    CaptureAccuracy,
    CardFacts,
    DeviceFigures,
    FileFacts,
    HeadFacts,
    HoldoutPart,
    ImageAnswers,
    NewConditions,
    OnAllImages,
    RemoteFacts,
    TimingFacts,
    TuningFacts,
    UnknownFacts,
)
from advisor.core._forms import FileFeatures
from advisor.core._quantity import LatencyDistribution, Provenance, Quantity, show_probability
from advisor.core._training import recipe_of
from advisor.core._units import plural, show_bytes, show_ms, show_ms_interval

HOST = "host"

NOTICEABLE = 1.05
"""Ratio of two latencies, or of two sizes, from which an answer names the difference."""

_QUANTITIES = (
    "accuracy",
    "holdout_accuracy",
    "new_conditions",
    "latency",
    "latency_p90",
    "size",
    "memory",
    "drop",
)

_NAMES = {
    "file": "answers",
    "share": "agreement",
    "images": "agreement_images",
    "kept": "answers_kept",
    "recipe_notes": "compression",
    "by_condition": "robustness",
    "plain": "plain_accuracy",
    "holdout": "robust_accuracy",
}
"""Entries of ``details`` that have another name than the field."""

DETAILS: Mapping[str, str] = {
    "timing": "",
    "answers": "",
    "agreement": "",
    "file_facts": "",
    "card_facts": "",
    "file_features": "graph",
    "expectation": "expectation",
    "head": "head",
    "tuning": "tuning",
    "holdout_answers": "holdout",
    "holdout_drop": "holdout_drop",
    "holdout_part": "holdout_part",
    "capture": "",
    "latency_distribution": "latency_quantiles",
    "budget_probability": "budget_probability",
    "remote": "",
    "device_figures": "targets",
    "required_figures": "required_devices",
    "unknown": "unknown",
    "on_all": "on_all_images",
}
"""The entry of ``details`` for each field of an evaluation, in the order of a line; empty where
the fields of its facts are entries themselves.
"""


@dataclass(frozen=True, order=True)
class Target:
    """Device, runtime, accelerator and threads together: a latency belongs to all four."""

    device: str  #: name of the device profile, ``host`` for this machine
    runtime: str  #: runtime and version, such as ``ai-edge-litert==2.3.0``
    accelerator: str  #: ``cpu``, ``gpu``, ``npu``, ...
    threads: int  #: number of CPU threads


@dataclass(frozen=True, order=True)
class Configuration:
    """One point of the search space."""

    card: str  #: name of the model card, such as ``mobilenet_v2_1.0_224``
    training: str  #: training recipe: ``none`` (published weights as they are), ``head``, ...
    compression: str  #: compression recipe: ``float32``, ``int8``, ...
    target: Target  #: where it runs

    @property
    def key(self) -> str:
        """Readable identifier, unique within a run."""
        target = self.target
        place = f"{target.device}:{target.accelerator}x{target.threads}"
        return f"{self.card}/{self.training}/{self.compression}@{place}"

    @property
    def variant_name(self) -> str:
        """Training and compression in short: ``int8``, or ``finetune_top int8``."""
        return (
            self.compression
            if recipe_of(self.training).base
            else f"{self.training} {self.compression}"
        )

    @property
    def name(self) -> str:
        """The name for people: card, recipes and place."""
        target = self.target
        threads = plural(target.threads, "thread")
        place = (
            threads
            if target.device == HOST
            else f"{target.device} ({target.accelerator}, {threads})"
        )
        return f"{self.card} {self.variant_name} on {place}"


class Variant(NamedTuple):
    """The identity of one file: a card with its recipes, whatever device it runs on."""

    card: str
    training: str
    compression: str


class Status(StrEnum):
    """Result of evaluating a configuration."""

    OK = "ok"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Evaluation:
    """A configuration with its status and figures."""

    # Begins the reason of one that a search did not begin.
    # Runs keep the text, so it never changes.
    NOT_STARTED = "not started"

    configuration: Configuration  #: what was evaluated
    status: Status  #: ``ok``, ``failed`` or ``skipped``; the last two carry a ``reason``
    family: str = ""  #: the card's family, for colours and filters
    reason: str = ""  #: why it failed or was skipped
    #: the stage in which it failed or was skipped (``screen``, ``convert``, ``score``, ...),
    #: empty when ok.
    stage: str = ""
    #: the metric of the question in %, top-1 by default, for ranking: on the validation part where
    #: the user gave images, else as published. Higher is better.
    accuracy: Quantity | None = None
    #: the same of the artefact on the hold-out, which was used neither for training nor for
    #: selection: the accuracy to expect on images like these. Known of finalists only.
    holdout_accuracy: Quantity | None = None
    #: estimated top-1 in % on images of another visit, camera or day than those that were learnt
    #: from. By the user's own hold-out it is the hold-out's figure.
    new_conditions: Quantity | None = None
    latency: Quantity | None = None  #: median latency in ms, with its interval
    #: 90th percentile in ms, which is compared with the budget
    latency_p90: Quantity | None = None
    size: Quantity | None = None  #: bytes of the artefact
    memory: Quantity | None = None  #: peak private memory in bytes of a fresh process that ran it
    #: points of accuracy lost against the float32 artefact of the same card, with interval.
    drop: Quantity | None = None
    contended: bool = False  #: other programs used the machine during timing
    #: path of the ``.tflite`` relative to the run folder, empty where none was made
    artefact: str = ""
    artefact_sha256: str = ""  #: its hash
    # Two evaluations are equal where the figures above are: those below follow from them or
    # explain them. : what the model card says.
    card_facts: CardFacts = field(default_factory=CardFacts, compare=False)
    #: what is known of the file without running it.
    file_facts: FileFacts = field(default_factory=FileFacts, compare=False)
    #: what the file computes, None where it was not read.
    file_features: FileFeatures | None = field(default=None, compare=False)
    #: how the latency was measured, None where it was not measured.
    timing: TimingFacts | None = field(default=None, compare=False)
    #: how the file ran on a device that was measured over its connection.
    remote: RemoteFacts | None = field(default=None, compare=False)
    #: the predicted latency as a distribution, None where it was measured.
    latency_distribution: LatencyDistribution | None = field(default=None, compare=False)
    #: probability that the predicted latency meets the budget.
    budget_probability: float | None = field(default=None, compare=False)
    #: what is known of the card in new conditions; None without an estimate.
    expectation: NewConditions | None = field(default=None, compare=False)
    #: how the card's head was chosen, None where there is none or fine-tuning trained it further.
    head: HeadFacts | None = field(default=None, compare=False)
    #: how the network was fine-tuned, None where it was not, or where that is not known.
    tuning: TuningFacts | None = field(default=None, compare=False)
    #: the same loss on the hold-out, where the float32 artefact was run there too.
    holdout_drop: Quantity | None = field(default=None, compare=False)
    #: what the file answered on the validation part.
    answers: ImageAnswers = field(default_factory=ImageAnswers, compare=False)
    #: what it answered on the hold-out, None where it is no finalist.
    holdout_answers: ImageAnswers | None = field(default=None, compare=False)
    #: the part of the hold-out that it ran on; None if it ran on all of it, or on none.
    holdout_part: HoldoutPart | None = field(default=None, compare=False)
    #: how far it answers as its float32 file does, where there are no labelled images.
    agreement: Agreement | None = field(default=None, compare=False)
    #: its accuracy under capture conditions.
    capture: CaptureAccuracy = field(default_factory=CaptureAccuracy, compare=False)
    #: the same file on every device of the question, where it needs one model for several.
    device_figures: Mapping[str, DeviceFigures] = field(default_factory=dict, compare=False)
    #: the same file on the devices that it must run on as well, None where there are none.
    required_figures: Mapping[str, DeviceFigures] | None = field(default=None, compare=False)
    #: how it answers images of things that are none of its classes; None where this was not tried.
    unknown: UnknownFacts | None = field(default=None, compare=False)
    #: the file that ships instead if it is to learn from all images; None if there is none.
    on_all: OnAllImages | None = field(default=None, compare=False)

    @property
    def was_begun(self) -> bool:
        """False if the search ended, or had no time, before it began the configuration."""
        return not self.reason.startswith(self.NOT_STARTED)

    @property
    def variant(self) -> Variant:
        """The file that was evaluated: the configuration without the target."""
        configuration = self.configuration
        return Variant(configuration.card, configuration.training, configuration.compression)

    @property
    def network(self) -> tuple[str, str]:
        """Card and training: what the forms of one trained network share."""
        return self.variant[:2]

    @property
    def is_wholly_tuned(self) -> bool:
        """True if the network was fine-tuned for all of its epochs; False where that is not
        known.
        """
        tunes = recipe_of(self.configuration.training).tunes_backbone
        return tunes and self.tuning is not None and not self.tuning.shortened

    @property
    def accuracy_percent(self) -> float:
        """The accuracy in %, 0 where it is unknown."""
        return self.accuracy.value if self.accuracy else 0.0

    @property
    def latency_ms(self) -> float:
        """The median latency in ms, infinite where it is unknown."""
        return self.latency.value if self.latency else float("inf")

    @property
    def p90_ms(self) -> float:
        """The 90th percentile of the latency in ms, the median where only that is known."""
        return self.latency_p90.value if self.latency_p90 else self.latency_ms

    @property
    def size_bytes(self) -> float:
        """The bytes of the file, infinite where they are unknown."""
        return self.size.value if self.size else float("inf")

    def is_noticeably_faster_than(self, other: Evaluation) -> bool:
        """Return whether the median latency is so much shorter that an answer says so."""
        return other.latency_ms >= NOTICEABLE * self.latency_ms

    def is_noticeably_smaller_than(self, other: Evaluation) -> bool:
        """Return whether the file is so much smaller that an answer says so."""
        return other.size_bytes >= NOTICEABLE * self.size_bytes

    @property
    def in_unknown_conditions(self) -> bool:
        """True if nothing is known of another visit, camera or day, because the images name
        none.
        """
        facts = self.expectation
        known = self.new_conditions
        measured = known is not None and known.provenance is Provenance.MEASURED
        return facts is not None and not facts.grouped and not measured

    @property
    def name(self) -> str:
        """The name of its configuration for people."""
        return self.configuration.name

    @property
    def figures(self) -> DeviceFigures:
        """The figures of the file on the device of this evaluation."""
        latency = self.latency
        target = self.configuration.target
        reason = "" if self.status is Status.OK else self.reason
        return DeviceFigures(
            key=self.configuration.key,
            runtime=target.runtime,
            accelerator=target.accelerator,
            threads=target.threads,
            reason=reason,
            latency_ms=latency.value if latency else None,
            low_ms=latency.low if latency else None,
            high_ms=latency.high if latency else None,
            provenance=latency.provenance.value if latency else "",
            p90_ms=self.p90_ms if latency else None,
            budget_probability=self.budget_probability,
            source=latency.source if latency and self.remote else "",
        )

    def metric_on_parts(self, metric: str) -> tuple[Quantity | None, Quantity | None]:
        """Return a metric in % on validation and on the hold-out; None where it is not known."""
        holdout = self.holdout_answers
        return self.answers.metrics.get(metric), holdout.metrics.get(metric) if holdout else None

    @property
    def top1_on_parts(self) -> tuple[Quantity | None, Quantity | None]:
        """Top-1 in % (of detectors their figure) on plain images of both parts,
        whatever metric decides.
        """
        plain, judged = self.metric_on_parts(Metric.TOP1)
        return plain or self.capture.plain or self.accuracy, judged or self.holdout_accuracy

    def without_holdout(self) -> Evaluation:
        """Return the evaluation without its figures on the hold-out,
        for what must not look at them.
        """
        return replace(
            self,
            holdout_accuracy=None,
            holdout_drop=None,
            holdout_answers=None,
            holdout_part=None,
            capture=replace(self.capture, holdout=None),
        )

    def show_budget_probability(self, limit_ms: float) -> str:
        """Format the probability of meeting a limit: ``97 % sure to meet 50 ms``;
        empty for a measured latency.
        """
        probability = self.budget_probability
        if probability is None:
            return ""
        return f"{show_probability(probability)} sure to meet {show_ms(limit_ms)}"

    def to_json(self) -> dict[str, Any]:
        """Return the evaluation as a JSON object, as :meth:`from_json` reads it."""
        quantities = {name: getattr(self, name) for name in _QUANTITIES}
        return {
            "configuration": asdict(self.configuration),
            "status": self.status.value,
            **{name: getattr(self, name) for name in ("family", "reason", "stage")},
            **{
                name: to_json(quantity) if quantity else None
                for name, quantity in quantities.items()
            },
            **{name: getattr(self, name) for name in ("contended", "artefact", "artefact_sha256")},
            "details": _details(self),
            "key": self.configuration.key,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Evaluation:
        """Return the evaluation of a JSON object; damaged details are unknown.

        :func:`advisor.core.broken_rule` says which rule its values break. Raises KeyError,
        TypeError or ValueError: an entry other than the details is missing or damaged.
        """
        entries = {}
        for name, value in data.items():
            if name not in ("key", "before", "hash"):
                entries[name] = value
        details = entries.pop("details", {})
        evaluation: Evaluation = parse(Evaluation, entries)
        details = with_new_names(parse(Mapping[str, object], details))
        if not details:  # most of a search's rows are of skipped configurations
            return evaluation
        known = {}
        for name in DETAILS:
            value = _read(name, details)
            if value is not None:
                known[name] = value
        return replace(evaluation, **known)

    def describe_figures(self, with_p90: bool = False) -> str:
        """Return the name with the figures; a finalist has its accuracy on the hold-out too.

        ``with_p90`` adds the figure that a latency budget limits:
        it may order two files other than the median does.
        """
        top1 = f"{self.accuracy_percent:.1f} %"
        if self.holdout_accuracy is not None:
            top1 = f"{top1} on validation, {self.holdout_accuracy.value:.1f} % on the hold-out"
        p90 = f", p90 {show_ms(self.p90_ms)}" if with_p90 else ""
        return (
            f"{self.name} ({top1}, {show_latency(self.latency)}{p90},"
            f" {show_bytes(self.size_bytes)})"
        )


def show_latency(quantity: Quantity | None) -> str:
    """Format a latency; one that was not measured is marked and has its interval:
    ``predicted 11.8 ms [10.2-13.9]``.
    """
    if quantity is None or quantity.provenance not in (Provenance.PREDICTED, Provenance.PUBLISHED):
        return show_ms(quantity.value if quantity else float("inf"))
    return f"{quantity.provenance} {show_ms_interval(quantity.value, quantity.low, quantity.high)}"


def show_figure(figure: str, value: float) -> str:
    """Format a value of a figure (``latency``, ``latency_p90``, ``size``, ``memory``, ``drop``,
    ...) with its unit.
    """
    if figure.startswith("latency"):
        return show_ms(value)
    if figure in ("size", "memory"):
        return show_bytes(value)
    return f"{value:.1f} points" if figure.endswith("drop") else f"{value:.1f} %"


_T = TypeVar("_T", bound=Hashable)


def entry_name(field: str) -> str:
    """Return the name that a field of some facts has in ``details``."""
    return _NAMES.get(field, field)


@cache
def merged_facts() -> dict[str, type]:
    """Return the class of each field of an evaluation whose own fields are entries of
    ``details``.
    """
    types = types_of(Evaluation)
    classes = {}
    for name, entry in DETAILS.items():
        if not entry:
            # Of an optional field (``Facts | None``), the first argument is its class.
            classes[name] = next(iter(get_args(types[name])), types[name])
    return classes


def _require_unique_entries() -> None:
    """Refuse facts with a field of the same name (TypeError):
    they share ``details``, and one would overwrite it.
    """
    entries = [entry for entry in DETAILS.values() if entry]
    for kind in merged_facts().values():
        entries += map(entry_name, types_of(kind))
    repeated = sorted({entry for entry in entries if entries.count(entry) > 1})
    if repeated:
        raise TypeError(
            f"several facts of an evaluation write {', '.join(repeated)}: give the new field"
            " another name"
        )


def _details(evaluation: Evaluation) -> dict[str, Any]:
    empty = Evaluation(evaluation.configuration, evaluation.status)
    details = dict[str, Any]()
    for name, entry in DETAILS.items():
        value = getattr(evaluation, name)
        if value != getattr(empty, name):
            whole = isinstance(value, TimingFacts) and value.wall_ms is not None
            details |= (
                {entry: _write_value(value)} if entry else _name_entries(value, defaults=whole)
            )
    return details


def _write_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {device: _name_entries(figures, defaults=True) for device, figures in value.items()}
    if isinstance(value, int | float):
        return value
    if isinstance(value, LatencyDistribution):
        return value.milliseconds
    if isinstance(value, ImageAnswers):
        return _name_entries(value, defaults=False)
    return asdict(value) if isinstance(value, FileFeatures) else to_json(value)


def _name_entries(facts: object, defaults: bool) -> dict[str, Any]:
    return {entry_name(name): value for name, value in to_json(facts, defaults).items()}


def _read(name: str, details: Mapping[str, Any]) -> Any:
    """Return what ``details`` says about a field of an evaluation;
    None if that is unknown or damaged.
    """
    entry = DETAILS[name]
    value = details.get(entry) if entry else details
    if name == "holdout_answers":
        return (
            facts_from_json(ImageAnswers, value) if isinstance(value, Mapping) and value else None
        )
    if name == "latency_distribution":
        return LatencyDistribution.read(value)
    if name in ("device_figures", "required_figures"):
        return _devices(value)
    if entry:
        return parse_known({name: types_of(Evaluation)[name]}, {name: value}).get(name)
    with suppress(TypeError):
        facts: object = facts_from_json(merged_facts()[name], details)
        return None if facts == TimingFacts() else facts
    return None


def facts_from_json(kind: type[_T], details: Mapping[str, Any]) -> _T:
    """Return facts of the entry ``details``; damaged ones are unknown. Raises TypeError:
    a needed one is unknown.
    """
    entries = with_new_names(details)
    wanted = {name: entry_name(name) for name in types_of(kind)}
    named = {}
    for name, entry in wanted.items():
        if entry in entries:
            named[name] = entries[entry]
    return kind(**parse_known(types_of(kind), named))


def _devices(value: object) -> dict[str, DeviceFigures] | None:
    if not isinstance(value, Mapping):
        return None
    figures = {}
    for device, facts in value.items():
        if isinstance(facts, Mapping):
            figures[str(device)] = facts_from_json(DeviceFigures, facts)
    return figures


_require_unique_entries()

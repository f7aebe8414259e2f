"""One configuration with its result: status, figures and facts, and its line in a run's file.

A search makes an :class:`Evaluation` of each configuration that it tries. The decision ranks them,
the reports show them, and a run keeps each as a line of ``evaluations.jsonl``. The names in that
file are made here alone (:data:`DETAILS`, ``_NAMES``). Earlier runs have them, so they stay; a
name that must change gets an entry in ``_NEW_NAMES`` of ``_codec.py``.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar, get_args

from advisor.core import Metric
from advisor.core._codec import parse, parse_known, to_json, types_of, with_new_names
from advisor.core._configuration import Configuration, Variant
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
from advisor.core._quantity import (
    LatencyDistribution,
    Provenance,
    Quantity,
    show_latency,
    show_probability,
)
from advisor.core._training import recipe_of
from advisor.core._units import show_bytes, show_ms

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
    # Begins the reason of one whose answers to the images are known, and whose latency is not.
    NOT_TIMED = "not timed"

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
    # explain them.

    #: what the model card says.
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
        """False if the search ended, or had no time, before it began the configuration,
        or before it timed it.
        """
        return not self.reason.startswith((self.NOT_STARTED, self.NOT_TIMED))

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
        """True if the network was fine-tuned for all of its epochs; False if that is unknown."""
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
        """True if nothing is known of another visit, camera or day: the images name none."""
        facts = self.expectation
        accuracy = self.new_conditions
        is_measured = accuracy is not None and accuracy.provenance is Provenance.MEASURED
        return facts is not None and not facts.grouped and not is_measured

    @property
    def name(self) -> str:
        """The name of its configuration for people."""
        return self.configuration.name

    @property
    def figures(self) -> DeviceFigures:
        """The figures of the file on the device of this evaluation."""
        target = self.configuration.target
        figures = DeviceFigures(
            key=self.configuration.key,
            runtime=target.runtime,
            accelerator=target.accelerator,
            threads=target.threads,
            reason="" if self.status is Status.OK else self.reason,
            budget_probability=self.budget_probability,
        )
        latency = self.latency
        if latency is None:
            return figures
        return replace(
            figures,
            latency_ms=latency.value,
            low_ms=latency.low,
            high_ms=latency.high,
            provenance=latency.provenance.value,
            p90_ms=self.p90_ms,
            source=latency.source if self.remote else "",
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
        quantities = dict[str, Any]()
        for name in _QUANTITIES:
            quantity = getattr(self, name)
            quantities[name] = to_json(quantity) if quantity else None
        return {
            "configuration": asdict(self.configuration),
            "status": self.status.value,
            "family": self.family,
            "reason": self.reason,
            "stage": self.stage,
            **quantities,
            "contended": self.contended,
            "artefact": self.artefact,
            "artefact_sha256": self.artefact_sha256,
            "details": _write_details(self),
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
            # These are computed from the line, and chain it with the one before.
            if name not in ("key", "before", "hash"):
                entries[name] = value
        details = entries.pop("details", {})
        evaluation: Evaluation = parse(Evaluation, entries)
        details = with_new_names(parse(Mapping[str, object], details))
        if not details:  # most of a search's rows are of skipped configurations
            return evaluation
        facts = {}
        for name in DETAILS:
            value = _read_detail(name, details)
            if value is not None:
                facts[name] = value
        return replace(evaluation, **facts)

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


_T = TypeVar("_T", bound=Hashable)


def name_entry(field: str) -> str:
    """Return the name that a field of some facts has in ``details``."""
    return _NAMES.get(field, field)


@cache
def list_merged_facts() -> dict[str, type]:
    """Return the class of each field whose own fields are entries of ``details``."""
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
    for kind in list_merged_facts().values():
        entries += map(name_entry, types_of(kind))
    repeated = sorted({entry for entry in entries if entries.count(entry) > 1})
    if repeated:
        raise TypeError(
            f"several facts of an evaluation write {', '.join(repeated)}: give the new field"
            " another name"
        )


def _write_details(evaluation: Evaluation) -> dict[str, Any]:
    """Return the entry ``details``: each field that differs from its default."""
    empty = Evaluation(evaluation.configuration, evaluation.status)
    details = dict[str, Any]()
    for name, entry in DETAILS.items():
        value = getattr(evaluation, name)
        if value == getattr(empty, name):
            continue
        if entry:
            details[entry] = _write_value(value)
        else:
            # Runs have always had the empty entries of a timing of this machine, too.
            is_timed = isinstance(value, TimingFacts) and value.wall_ms is not None
            details |= _write_facts(value, defaults=is_timed)
    return details


def _write_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {device: _write_facts(figures, defaults=True) for device, figures in value.items()}
    if isinstance(value, int | float):
        return value
    if isinstance(value, LatencyDistribution):
        return value.milliseconds
    if isinstance(value, ImageAnswers):
        return _write_facts(value, defaults=False)
    if isinstance(value, FileFeatures):
        return asdict(value)
    return to_json(value)


def _write_facts(facts: object, defaults: bool) -> dict[str, Any]:
    """Return the fields of facts under the names of their entries."""
    return {name_entry(name): value for name, value in to_json(facts, defaults).items()}


def _read_detail(name: str, details: Mapping[str, Any]) -> Any:
    """Return what ``details`` says about a field of an evaluation;
    None if that is unknown or damaged.
    """
    entry = DETAILS[name]
    value = details.get(entry) if entry else details
    if name == "holdout_answers":
        if isinstance(value, Mapping) and value:
            return facts_from_json(ImageAnswers, value)
        return None
    if name == "latency_distribution":
        return LatencyDistribution.read(value)
    if name in ("device_figures", "required_figures"):
        return _read_device_figures(value)
    if entry:
        return parse_known({name: types_of(Evaluation)[name]}, {name: value}).get(name)
    with suppress(TypeError):
        facts: object = facts_from_json(list_merged_facts()[name], details)
        # Every entry of a timing has a default, so it reads as one where none was written.
        return None if facts == TimingFacts() else facts
    return None


def facts_from_json(kind: type[_T], details: Mapping[str, Any]) -> _T:
    """Return facts of the entry ``details``; damaged ones are unknown.

    Raises TypeError: a fact without a default is unknown.
    """
    entries = with_new_names(details)
    fields = {}
    for name in types_of(kind):
        entry = name_entry(name)
        if entry in entries:
            fields[name] = entries[entry]
    return kind(**parse_known(types_of(kind), fields))


def _read_device_figures(value: object) -> dict[str, DeviceFigures] | None:
    if not isinstance(value, Mapping):
        return None
    figures = {}
    for device, facts in value.items():
        if isinstance(facts, Mapping):
            figures[str(device)] = facts_from_json(DeviceFigures, facts)
    return figures


# At the import, so that a new field with a name that another class has fails every test.
_require_unique_entries()

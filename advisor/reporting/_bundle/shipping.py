"""Define what a task and an integration add to a bundle: the two protocols of the export.

A task gives one :class:`Shipping` (``ShippedTask.shipping``): templates, test vectors, and what an
app shows of an answer. An integration that is registered in ``advisor.bundle_parts`` is a
:class:`BundlePart`; it makes the files of one folder from an :class:`ExportedModel`. Packages of
others implement both protocols, so fields and methods are added and never renamed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, cast

from advisor.core import (
    Evaluation,
    ShippedThresholds,
    UsageError,
    list_registered,
    load_integration,
)
from advisor.reporting._bundle.model import ShippedModel, artefact_of
from advisor.reporting._bundle.vectors import Answering
from advisor.tflite import one_line

if TYPE_CHECKING:
    from advisor.engine import LoadedRun, Question

PARTS = "advisor.bundle_parts"
"""Entry points of :class:`BundlePart`: modules or objects, by the name of the target."""


@dataclass(frozen=True)
class Found:
    """A class of an image, or an object in it.

    Attributes:
        label: its class.
        score: its probability or score (0-1).
        box: top, left, bottom and right of an object in shares of the upright image, without area
            for a centre.
    """

    label: str
    score: float
    box: tuple[float, ...] = ()


def count_objects(objects: Sequence[Found], _least: float) -> str:
    """Return how many objects of each class were found, or nothing."""
    counts = Counter(result.label for result in objects)
    return ", ".join(f"{count} {label}" for label, count in counts.items()) or "nothing"


@dataclass(frozen=True)
class Page:
    """The part of a task in the page for browsers.

    Attributes:
        script: path of JavaScript in ``package`` with ``meaningOf(outputs, facts)``; empty if
            there is no page.
        facts: further facts for it.
        package: the package.
        title: the question that the page answers.
        counted: what its files tell apart, as one and as many; empty if the number of them says
            nothing.
        bars: what the figures of the bars are; empty for probabilities.
    """

    script: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    package: str = "advisor.reporting._bundle"
    title: str = "What is in the image?"
    counted: tuple[str, ...] = ("class", "classes")
    bars: str = ""


class ShippedTask(Protocol):
    """A task with a bundle."""

    def shipping(self) -> Shipping:
        """Return the content of the bundle; UsageError if there is none."""


def shipping_of(question: Question) -> Shipping:
    """Return the content of a bundle for the task of a question; UsageError if there is none."""
    return cast("ShippedTask", question.of_task).shipping()


@dataclass(frozen=True)
class Shipping:
    """Content of a bundle of one task. Each file of code has a template of its name.

    Attributes:
        does: purpose of its programs, as a verb with its object.
        answers: name of the model's answers.
        card: template of the model card.
        snippets: path of the code for each platform.
        answering: function that makes the expected answers of test vectors.
        found: function that reads what a photograph shows from the outputs, one array for each,
            the surest first.
        edgetpu: path of the program for a Coral Edge TPU; empty if there is none.
        coreml: there is a Core ML package.
        page: the page for browsers.
        least: score from which on objects are shown, if the evaluation chose none; None of a
            classifier.
        said: function that says the answer to a photograph in words, given what was found and the
            least score.
        layer: function that returns a PNG with a colour for each pixel, to lay over the
            photograph; None if pixels have no answer.
        package: package with the folder ``templates``; they may use those of
            ``advisor.reporting._bundle``.
    """

    does: str
    answers: str
    card: str
    snippets: Mapping[str, str]
    answering: Answering
    found: Callable[[Sequence[Any], ShippedModel], tuple[Found, ...]]
    edgetpu: str = ""
    coreml: bool = False
    page: Page = field(default_factory=Page)
    least: float | None = None
    said: Callable[[Sequence[Found], float], str] = count_objects
    layer: Callable[[Sequence[Any], ShippedModel], bytes] | None = None
    package: str = "advisor.reporting._bundle"

    def thresholds(self, evaluation: Evaluation) -> ShippedThresholds:
        """Return the scores from which on answers are shown,
        which the evaluation chose on the validation part.
        """
        boxes = evaluation.answers.boxes
        confidence = evaluation.answers.confidence
        if confidence is not None:
            thresholds = confidence.thresholds
            # The file of labels has one name a line, so a name has no line break.
            return replace(
                thresholds,
                by_class=_name_on_one_line(thresholds.by_class),
                recall=_name_on_one_line(thresholds.recall),
            )
        labels = evaluation.answers.label_thresholds
        if labels:
            return ShippedThresholds(self.least, _name_on_one_line(labels), several=True)
        threshold = self.least if boxes is None else round(boxes.threshold, 4)
        return ShippedThresholds(threshold)


def _name_on_one_line(scores: Mapping[str, float]) -> dict[str, float]:
    return {one_line(name): score for name, score in scores.items()}


@dataclass(frozen=True)
class ExportedModel:
    """The model that a bundle exports, with its run.

    Attributes:
        run: the run.
        shipping: content of a bundle of the run's task.
        evaluation: the exported evaluation.
        model: the shipped model.
        artefact: the file that the search made, unchanged; ``model.measured`` describes it.
        tiers: number of files for a fleet; 0 for the recommended number.
    """

    run: LoadedRun
    shipping: Shipping
    evaluation: Evaluation
    model: ShippedModel
    artefact: bytes
    tiers: int = 0

    @classmethod
    def of_evaluation(
        cls, run: LoadedRun, evaluation: Evaluation, unknown_class: bool
    ) -> ExportedModel:
        """Return the model of an evaluation as it ships.

        With ``unknown_class``, it is the file with one more class, which the search made of its
        pick.

        Raises:
            UsageError: there is no such file, or it is missing, changed or without weights.
        """
        artefact = artefact_of(run, evaluation)
        shipping = shipping_of(run.question)
        thresholds = shipping.thresholds(evaluation)
        if unknown_class:
            model = _prepare_with_unknown_class(run, evaluation, thresholds)
            # The class is one more of the judged file, not of the one that learnt from all images.
            judged = replace(evaluation, on_all=None)
            # The bundle keeps the measured file beside it: latency and memory are figures of that
            # one.
            return cls(run, shipping, judged, model, artefact)
        file = evaluation.artefact
        more = evaluation.on_all
        if more is not None and more.file:
            replacement = replace(evaluation, artefact=more.file, artefact_sha256=more.sha256)
            file = more.file
            artefact = artefact_of(run, replacement)
        model = ShippedModel.prepare(artefact, file, thresholds)
        return cls(run, shipping, evaluation, model, artefact)


def _prepare_with_unknown_class(
    run: LoadedRun, evaluation: Evaluation, thresholds: ShippedThresholds
) -> ShippedModel:
    """Return the model with a class for unknown things; UsageError if the search made none."""
    facts = evaluation.unknown
    if facts is None or not facts.file:
        raise UsageError(
            f"--unknown-class: {evaluation.configuration.key} has no file with a class for unknown"
            " things",
            "a search with --data makes one of its pick; leave --pick out, or search again",
        )
    replacement = replace(evaluation, artefact=facts.file, artefact_sha256=facts.sha256)
    model = ShippedModel.prepare(artefact_of(run, replacement), facts.file, thresholds)
    edit = (
        f"one more class, '{facts.label}', answers images of things that are none of the others;"
        " latency and memory were measured without it"
    )
    return replace(model, edits=(*model.edits, edit))


class BundlePart(Protocol):
    """Files of a bundle in the folder of the target's name."""

    CONTENT: str
    """Description of the files in the bundle's README; the words of the task are filled in."""

    WITH_UNKNOWN_CLASS: bool
    """The files can have a class for unknown things."""

    def check(self, shipping: Shipping) -> None:
        """Raise a ``UsageError`` if the task has no such files, or a package is not installed."""

    def files(self, exported: ExportedModel) -> Mapping[str, bytes]:
        """Return the files by their paths within the bundle.

        Raises:
            UsageError: the files cannot be made of this model.
        """


def parts_of(targets: Sequence[str]) -> dict[str, BundlePart]:
    """Return the parts among some targets, in alphabetical order."""
    return {
        name: load_integration(PARTS, name) for name in list_registered(PARTS) if name in targets
    }

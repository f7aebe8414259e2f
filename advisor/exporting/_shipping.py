"""Define the content of a bundle: the model that ships, and what a task and integrations add."""

from __future__ import annotations

import json
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
from advisor.exporting import check
from advisor.store import artefact_problem
from advisor.tflite import (
    Metadata,
    make_editable,
    one_line,
    open_model,
    read_description,
    write_description,
)

if TYPE_CHECKING:
    import numpy as np
    from ai_edge_litert import schema_py_generated as schema
    from numpy.typing import NDArray

    from advisor.engine import LoadedRun, Question

    Pixels = NDArray[np.uint8]
    Crops = Sequence[Callable[[], Pixels]]
else:
    # A face has its names at run time too; numpy is not imported for two of them.
    Pixels = Crops = Any


NO_THRESHOLD = ShippedThresholds()
THRESHOLD = "the metadata states the score from which on answers are shown:"

COUNT = 6
SEED = 20
TOLERANCES = (0.02, 0.05, 0.1)
"""Largest differences of a probability, a score or an edge (in shares of the image) that the
checker accepts. Other processors add in another order, and kernels of a quantized model round
differently: probabilities of an int8 MobileNetV2 differed by 0.010 between two runtimes, scores of
an int8 detector with it by 0.06 between two kernels.
"""

LOOKED_AT = 5 * COUNT
"""Crops that a detector's vectors are chosen from, those with the highest scores."""

PARTS = "advisor.bundle_parts"
"""Entry points of :class:`BundlePart`: modules or objects, by the name of the target."""


@dataclass(frozen=True)
class ShippedModel:
    """The model of a bundle.

    Attributes:
        content: the ``.tflite``; identical to the measured artefact where ``edits`` is empty.
        labels: one label for each output, in order.
        mean: subtracted from RGB values 0..255, one number for all channels.
        std: divisor of the difference.
        size: side of the input in pixels.
        edits: changes for clients that do not support the artefact's types or normalization, or
            that read a threshold.
        measured: description of the measured artefact.
        thresholds: scores from which on a client shows an object or a class.
        types: types of the measured artefact's inputs and outputs.
    """

    content: bytes
    labels: tuple[str, ...]
    mean: float
    std: float
    size: int
    edits: tuple[str, ...]
    measured: Metadata
    thresholds: ShippedThresholds = field(default_factory=ShippedThresholds)
    types: frozenset[str] = frozenset()

    def by_place(self, scores: Mapping[str, float]) -> dict[int, float]:
        """Return scores by the place of their label."""
        return {place: scores[label] for place, label in enumerate(self.labels) if label in scores}

    @property
    def threshold(self) -> float | None:
        """Score for the answers of all classes without an own one; None if all of them count."""
        return self.thresholds.plain

    @property
    def converts(self) -> bool:
        """It converts the measured file's input or output, which takes time that no figure has."""
        uneven = any(len(set(values)) > 1 for values in (self.measured.mean, self.measured.std))
        return uneven or bool(self.types - {"float32"})


def prepare_model(
    artefact: bytes, name: str, thresholds: ShippedThresholds = NO_THRESHOLD
) -> ShippedModel:
    """Return the artefact as MediaPipe 1.2 needs it:
    float32 in and out, one mean and std, a threshold.

    No edit changes the values that the network computes. Metadata is written last, because every
    edit drops it. Clients show a box or a class from its score in ``thresholds`` on.

    Raises:
        UsageError: the file, called ``name``, is damaged, or has no metadata.
    """
    tables, model = open_model(artefact, name)
    metadata = read_description(model, artefact, name)
    if metadata is None or not metadata.labels or not metadata.mean:
        raise UsageError(
            f"{name} has no metadata with labels and normalization",
            "search again: artefacts of this version have it",
        )
    types = frozenset(tensor.dtype for tensor in (*model.inputs, *model.outputs))
    described, edits = _adapt_tables(tables, types, metadata)
    scores = _scores_of_labels(thresholds, metadata.labels)
    # No client reads a threshold of a map.
    is_map = len(model.outputs[0].shape) >= 4
    if scores and not is_map:
        # MediaPipe reads one threshold for all classes.
        # The lowest one hides no answer that a class may show.
        least = min(scores)
        by_class = scores if thresholds.by_class else ()
        more = ", for some classes a higher one" if by_class else ""
        described = replace(described, threshold=least, by_class=by_class)
        edits = (*edits, f"{THRESHOLD} {least:g}{more}")
    return ShippedModel(
        content=write_description(tables, model, described) if edits else artefact,
        labels=metadata.labels,
        mean=described.mean[0],
        std=described.std[0],
        size=model.inputs[0].shape[1],
        edits=edits,
        thresholds=thresholds,
        measured=metadata,
        types=types,
    )


def _scores_of_labels(thresholds: ShippedThresholds, labels: Sequence[str]) -> tuple[float, ...]:
    """Return the score of each label for the metadata, with which clients compare it;
    empty if all answers count.

    Where scores differ and an image has one class, they are at least a half: no class is shown
    behind a more probable one that is left out.
    """
    least = 0.0 if thresholds.several else 0.5
    if not thresholds.by_class:
        return () if thresholds.plain is None else (thresholds.plain,)
    return tuple(max(least, thresholds.least(label)) for label in labels)


def _adapt_tables(
    tables: schema.ModelT, types: frozenset[str], metadata: Metadata
) -> tuple[Metadata, tuple[str, ...]]:
    """Edit the tables of a file; return its description then, and what was edited."""
    from advisor.tflite import fold_normalization, take_floats

    edits = list[str]()
    # MediaPipe 1.2 refuses integer inputs, and a normalization that differs by channel.
    if types != {"float32"}:
        # Before the normalization, which can go inside only behind a float32 input.
        take_floats(make_editable(tables))
        edits.append(
            f"input and output take float32 instead of {'/'.join(sorted(types - {'float32'}))}"
        )
    if len(set(metadata.mean)) == 1 and len(set(metadata.std)) == 1:
        return metadata, tuple(edits)
    fold_normalization(make_editable(tables), metadata.mean, metadata.std)
    edits.append(
        "the normalization, which differs by channel, happens inside the model: it takes RGB"
        " 0..255"
    )
    return replace(metadata, mean=(0.0,), std=(1.0,)), tuple(edits)


Answer = Mapping[str, object]
"""A model's answer to an image, in the form of ``vectors.json``."""

Answering = Callable[[ShippedModel, "Crops"], tuple[float, Sequence[tuple[int, Answer]]]]
"""Function from images, each made by a call as uint8 (size, size, 3), to a tolerance, and the
places and answers of at most ``COUNT`` of them.
"""


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


def draw_vector_images(side: int) -> Sequence[Callable[[], Pixels]]:
    """Return what loads each image of test vectors, uint8 (side, side, 3):
    crops of photographs in scikit-image.
    """
    from advisor.datasets import photograph_crops

    return photograph_crops(side, SEED)


def vector_files(model: ShippedModel, answering: Answering) -> dict[str, bytes]:
    """Run the model over crops of the photographs that ship with scikit-image: its test vectors.

    The user's images stay in the run, because a bundle goes to people who may not see them. There
    is a file with the pixels of each input (uint8 RGB, row by row: size x size x 3 bytes), and
    ``vectors.json`` with the expected answers and the largest difference that the checker accepts.
    """
    from advisor.isolation import redirect_errors

    images = draw_vector_images(model.size)
    with redirect_errors():  # the runtime reports there which kernels it uses
        tolerance, rows = answering(model, images)
    names = [f"{number:02}.rgb" for number in range(len(rows))]
    document = {
        "schema_version": 1,
        "size": model.size,
        "layout": "uint8 RGB, row by row",
        "mean": model.mean,
        "std": model.std,
        "tolerance": tolerance,
        "vectors": [
            {"input": name, **answer} for name, (_, answer) in zip(names, rows, strict=True)
        ],
    }
    pixels = {}
    for name, (place, _) in zip(names, rows, strict=True):
        pixels[name] = images[place]().tobytes()
    files = {"vectors.json": (json.dumps(document, indent=1) + "\n").encode(), **pixels}
    return {f"test_vectors/{name}": content for name, content in files.items()}


def make_runners(
    model: ShippedModel, images: Crops
) -> tuple[Callable[[int], list[Any]], Callable[[int], list[Any]]]:
    """Return two functions that run the model on one of the images:
    with the kernels of clients, and with others.
    """
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    from advisor.isolation import redirect_errors

    def runner(kind: OpResolverType) -> Callable[[int], list[Any]]:
        with redirect_errors():  # the runtime reports there which kernels it uses
            interpreter = Interpreter(
                model_content=model.content, num_threads=1, experimental_op_resolver_type=kind
            )
            interpreter.allocate_tensors()
        return lambda place: check.outputs(interpreter, images[place](), model.mean, model.std)

    return runner(OpResolverType.AUTO), runner(OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)


def choose_vectors(
    model: ShippedModel,
    images: Crops,
    read: Callable[[list[Any]], NDArray[Any]],
    apart: Callable[[NDArray[Any], NDArray[Any]], float],
    rank: Callable[[NDArray[Any]], float],
) -> tuple[float, list[tuple[int, NDArray[Any]]]]:
    """Return a tolerance, and places and answers of at most ``COUNT`` images,
    those with the highest ``rank`` first.

    ``read`` takes the outputs. The tolerance is the smallest one of which half contains the
    difference (``apart``) between two kernels in enough of :data:`LOOKED_AT` images.
    """
    runner, other = make_runners(model, images)
    answers = [read(runner(place)) for place in range(len(images))]
    order = sorted(range(len(images)), key=lambda place: -rank(answers[place]))[:LOOKED_AT]
    differences = {place: apart(answers[place], read(other(place))) for place in order}
    for tolerance in TOLERANCES:
        # If even the largest tolerance leaves fewer images, the loop ends with them:
        # few vectors are better than none.
        same = [place for place in order if differences[place] <= tolerance / 2][:COUNT]
        if len(same) == COUNT:
            break
    return tolerance, [(place, answers[place]) for place in same]


@dataclass(frozen=True)
class Page:
    """What a page for browsers does with a model of a task.

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
    package: str = "advisor.exporting"
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
            ``advisor.exporting``.
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
    package: str = "advisor.exporting"

    def thresholds(self, evaluation: Evaluation) -> ShippedThresholds:
        """Return the scores from which on answers are shown,
        which the evaluation chose on the validation part.
        """
        boxes = evaluation.answers.boxes
        confidence = evaluation.answers.confidence
        if confidence is not None:
            thresholds = confidence.thresholds
            # A file of labels has one name a line, so names of classes are written on one.
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


def make_exported_model(
    run: LoadedRun, evaluation: Evaluation, unknown_class: bool
) -> ExportedModel:
    """Return the model of an evaluation as it ships, with one more class,
    which the search made of its pick, or not.
    """
    artefact = artefact_of(run, evaluation)
    shipping = shipping_of(run.question)
    thresholds = shipping.thresholds(evaluation)
    if not unknown_class:
        file = evaluation.artefact
        more = evaluation.on_all
        if more is not None and more.file:
            replacement = replace(evaluation, artefact=more.file, artefact_sha256=more.sha256)
            file = more.file
            artefact = artefact_of(run, replacement)
        return ExportedModel(
            run, shipping, evaluation, prepare_model(artefact, file, thresholds), artefact
        )
    facts = evaluation.unknown
    if facts is None or not facts.file:
        raise UsageError(
            f"--unknown-class: {evaluation.configuration.key} has no file with a class for unknown"
            " things",
            "a search with --data makes one of its pick; leave --pick out, or search again",
        )
    replacement = replace(evaluation, artefact=facts.file, artefact_sha256=facts.sha256)
    model = prepare_model(artefact_of(run, replacement), facts.file, thresholds)
    edit = (
        f"one more class, '{facts.label}', answers images of things that are none of the others;"
        " latency and memory were measured without it"
    )
    judged = replace(evaluation, on_all=None)  # the class is one more of the judged file
    # The bundle keeps the measured file beside it: latency and memory are figures of that one.
    return ExportedModel(
        run, shipping, judged, replace(model, edits=(*model.edits, edit)), artefact
    )


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


def artefact_of(run: LoadedRun, evaluation: Evaluation) -> bytes:
    """Return the file of an evaluation;
    one that is missing, changed or without weights is a ``UsageError``.
    """
    problem = artefact_problem(run.folder, evaluation)
    if problem is not None:
        raise UsageError(
            f"'{run.folder.path}': {problem}",
            "advisor export RUN --list shows the others; or search again, which takes what it can"
            " from the cache",
        )
    # Such a card was timed with random weights:
    # its file is right in size and latency, and answers nothing.
    if evaluation.card_facts.lacks_weights:
        card = evaluation.configuration.card
        raise UsageError(
            f"{card} was measured without its weights: there is nothing to ship yet",
            f"get them first (advisor catalog show {card} lists their sources), then search again",
        )
    return (run.folder.path / evaluation.artefact).read_bytes()

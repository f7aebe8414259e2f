"""Facts of an evaluation besides the figures that decide: card, file, timing, answers, boxes,
unknown things.

Each class holds what one step of the work found; an :class:`.Evaluation` has one field for each.
The names of their fields are entries of ``details`` in ``evaluations.jsonl``, and those of several
classes share one dictionary, so they must differ (:func:`._evaluation.list_merged_facts`). A new
fact is one field with a default; ``_codec.py`` writes and reads it by its type.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from advisor.core._confidence_facts import ConfidenceFacts
from advisor.core._quantity import Interval, Quantity
from advisor.core._units import plural

Label = TypeVar("Label", int, str)
"""A class by its number or its name."""


@dataclass(frozen=True)
class ClassBoxes:
    """Boxes of one class from the threshold on."""

    true: int  #: number of true boxes
    found: int  #: number of found boxes
    #: share (0-1) of the found boxes that are right; None if none was found
    precision: float | None
    recall: float | None  #: share (0-1) of the true boxes that were found; None without a true box
    #: difference between the numbers of found and true boxes, summed over the images, over the
    #: number of true boxes; None without a true box.
    count_error: float | None
    #: the count error of the best constant:
    #: the median number of true boxes, guessed for each image; None if unknown.
    guess_error: float | None = None


class JudgedBox(NamedTuple):
    """A box: class, edges in shares of the image, score (1 for a true one),
    and whether it was found, or is right.
    """

    label: int
    top: float
    left: float
    bottom: float
    right: float
    score: float
    matched: bool


@dataclass(frozen=True)
class JudgedImage:
    """One image with its true boxes and those that were found from the threshold on."""

    path: str  #: as ``split.json`` has it
    sha256: str  #: hash of the file
    width: int  #: of the upright image, in pixels
    height: int  #: in pixels
    f1: float  #: twice the right boxes over the true and the found ones, 0 to 1
    true: tuple[JudgedBox, ...]  #: the true boxes
    found: tuple[JudgedBox, ...]  #: the found boxes, the surest first

    def describe(self, name_label: Callable[[int], str]) -> str:
        """Return in words how many boxes are found,
        and the classes of those that are missed or wrong.
        """
        missed = [box.label for box in self.true if not box.matched]
        wrong = [box.label for box in self.found if not box.matched]
        words = [
            f"{len(self.true) - len(missed)} of {plural(len(self.true), 'true box', 'true boxes')}"
            " found"
        ]
        for what, labels in (("missed", missed), ("wrong", wrong)):
            counts = Counter(map(name_label, labels))
            names = [f"{count} {name}" for name, count in counts.most_common()]
            if names:
                words.append(f"{what}: {', '.join(names)}")
        return "; ".join(words)


@dataclass(frozen=True)
class BoxGuarantee:
    """A share that a threshold of boxes or of a label was asked to keep,
    with a probability of 95 %, on new images.
    """

    #: ``precision``, of the found boxes or the images that show a label, or ``recall``,
    #: of the true ones
    of: str
    wanted: float  #: the share (0-1)
    kept: bool  #: True if images that were not learnt from guarantee it
    #: the share (0-1) on the images of the part, with a 95 % interval
    seen: Interval | None = None


@dataclass(frozen=True)
class BoxScores:
    """Scores of a detector's boxes as the probability that a box is right."""

    slope: float  #: by which the logits of the scores were multiplied in the file
    offset: float  #: that was added to them
    error: Interval  #: expected calibration error (0-1) then, with a 95 % interval
    error_before: Interval  #: the same without it


@dataclass(frozen=True)
class ObjectsOfSize:
    """True objects of one range of sizes, and how many of them a file finds at its threshold.

    The size of an object is the side of a square with its area, as a share of the side of a square
    image. So it does not depend on the input size of a network: 0.05 is 16 pixels at an input of
    320 pixels.
    """

    least: float  #: smallest size of the range
    below: float  #: the size at which the next range begins
    true: int  #: number of true objects
    middle: float  #: median size of these objects
    recall: float  #: share (0-1) of these objects that were found
    recall_interval: tuple[float, float]  #: 95 % interval of ``recall`` on other images
    #: recall of the float32 file less that of this one, on the same images (-1 to 1);
    #: None if it was not compared.
    lost: float | None = None
    lost_interval: tuple[float, float] | None = None  #: 95 % interval of ``lost`` on other images


@dataclass(frozen=True)
class BoxFacts:
    """Boxes that a detector found in the images of one part, compared with the true ones."""

    #: score (0-1) from which on a box counts:
    #: that of ``guarantee``, or the one with the best F1 on validation.
    threshold: float
    #: average precision over overlaps from 0.5 to 0.95, COCO's main figure, 0 to 1;
    #: None of centres.
    coco: float | None
    by_class: Mapping[str, ClassBoxes]  #: counts of each class at the threshold
    #: the images with the lowest F1 at the threshold, the lowest first; of the hold-out alone.
    worst: tuple[JudgedImage, ...] = ()
    #: 95 % interval of ``coco``; None if it was not computed
    coco_interval: tuple[float, float] | None = None
    #: how far scores can be believed; None of centres and of the user's own files
    scores: BoxScores | None = None
    #: what the user asked of the threshold; None for no wish
    guarantee: BoxGuarantee | None = None
    #: objects by their size, the smallest first; empty of older runs
    by_size: tuple[ObjectsOfSize, ...] = ()


class OverlaidImage(NamedTuple):
    """One image with what is true of its pixels, and what a file says of them,
    each a PNG in base64 to lay over it.
    """

    path: str  #: as ``split.json`` has it
    sha256: str  #: hash of the file
    width: int  #: of the upright image, in pixels
    height: int  #: in pixels
    result: str  #: what was found in the image, in words
    true: str  #: empty if the truth of its pixels is not known
    found: str


@dataclass(frozen=True)
class Overlays:
    """Images with a colour for each pixel."""

    images: tuple[OverlaidImage, ...]  #: the images with the most errors first
    #: the colour of each meaning, such as ``#e5342c``
    legend: Mapping[str, str] = field(default_factory=dict)
    #: how many of the images have an error, the first ones; None in older runs
    with_errors: int | None = None

    @property
    def mistaken(self) -> tuple[OverlaidImage, ...]:
        """The images with an error; all of them in older runs, which do not tell."""
        return self.images[: self.with_errors]


@dataclass(frozen=True)
class LeftOut:
    """Images of one class, judged by a head that was not trained on it."""

    #: probability (0-1) that an image of the class has a higher score than one of another class
    auroc: Interval
    accepted: float  #: share (0-1) of its images that pass as known where 95 % of the others do
    images: int  #: number of its images


@dataclass(frozen=True)
class OtherThings:
    """Images of other things that the user gave,
    answered by the file with the class ``unknown``.
    """

    found: Interval  #: share (0-1) that was answered ``unknown``
    #: probability (0-1) that such an image has a higher score than one of the hold-out
    auroc: Interval
    images: int  #: number of these images


@dataclass(frozen=True)
class UnknownFacts:
    """A file and images of other things."""

    #: mean over the classes that were left out in turn; None with fewer than three classes.
    auroc: Interval | None = None
    #: the same of the float32 file; None if the file is one itself
    float_auroc: Interval | None = None
    #: mean share (0-1) of unknown images that pass as known where 95 % of the known ones do;
    #: None as above.
    accepted: float | None = None
    by_class: Mapping[str, LeftOut] = field(default_factory=dict)  #: each class that was left out
    label: str = ""  #: name of the class in the file
    file: str = ""  #: path in the run of the file with that class
    sha256: str = ""  #: its hash
    size_bytes: int = 0  #: its size
    #: share (0-1) of the hold-out that it does not answer with that class;
    #: None before it ran there.
    kept: Interval | None = None
    precision: Interval | None = None  #: share (0-1) of right answers among these; None as above
    others: OtherThings | None = None  #: the user's images of other things; None if there are none


@dataclass(frozen=True)
class OnAllImages:
    """A file of the same network and recipes that has learnt from the hold-out too.
    No figure of it can be measured.
    """

    file: str = ""  #: path in the run; empty if it could not be made
    sha256: str = ""  #: its hash
    size_bytes: int = 0  #: its size
    images: int = 0  #: number of images that it has learnt from
    more: int = 0  #: number of these that the judged file has not learnt from: the hold-out
    #: share (0-1) of validation images, which both have learnt from,
    #: with the same answer of both.
    same: float = 0.0
    compared: int = 0  #: number of these validation images
    reason: str = ""  #: why it could not be made


@dataclass(frozen=True)
class Normalisation:
    """Mean and deviation that turn RGB values 0..255 into the model's input:
    ``(value - mean) / std`` by channel.
    """

    mean: tuple[float, float, float]  #: value that is subtracted from each channel, 0 to 255
    std: tuple[float, float, float]  #: value that the difference is divided by, 0 to 255


@dataclass(frozen=True)
class CardFacts:
    """Facts of the model card; None where the evaluation does not know one."""

    params: float | None = None  #: trained values of the network
    macs: float | None = None  #: multiply-accumulates for one image
    licence: str | None = None  #: SPDX identifier of network and weights, or other words
    input_size: int | None = None  #: side of the square input, pixels
    preprocessing: Normalisation | None = None  #: how images are normalised
    #: source of the weights; empty where the file was measured without them
    weights: str | None = None
    as_it_is: bool = False  #: the user ships this file: it was neither trained nor compressed here

    @property
    def lacks_weights(self) -> bool:
        """True where the file was measured without the weights of the card."""
        return self.weights == ""


@dataclass(frozen=True)
class FileFacts:
    """Facts of a file that is not run; None where one was not computed."""

    arena_bytes: float | None = None  #: memory of the activations
    download_bytes: float | None = None  #: size inside an app's package (deflated)
    download_zstd_bytes: float | None = None  #: size compressed by Zstandard
    #: what the compression recipe did and found, where it says more than its name.
    recipe_notes: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class TimeSummary:
    """Milliseconds of many runs."""

    p50: float  #: median in ms
    p90: float  #: 90th percentile in ms
    min: float | None = None  #: shortest run in ms; None for CPU time
    #: coefficient of variation (standard deviation / mean); None for CPU time
    cv: float | None = None


@dataclass(frozen=True)
class TimingFacts:
    """Circumstances of a measured latency."""

    threads: int | None = None  #: CPU threads
    effort: str = ""  #: how long it was timed (``search`` or ``survey``)
    load_ms: float | None = None  #: time to load the file
    first_ms: float | None = None  #: time of the first run
    verdict: str = ""  #: whether the machine was undisturbed (``stable``, ``contended``, ...)
    verdict_reason: str = ""  #: why
    measured_at: str = ""  #: when, as ISO 8601
    wall_ms: TimeSummary | None = None  #: wall time of a run; None where a connection measured it
    cpu_ms: TimeSummary | None = None  #: CPU time of a run, None where the system does not tell it


@dataclass(frozen=True)
class RemoteFacts:
    """Run of a file on a device that was measured over its connection."""

    connection: str  #: the connection's label
    #: what latencies depend on there, such as ``Android 15``; empty if it was not asked
    software: str = ""
    #: operators that a delegate took, and all of them; None where no delegate says so.
    delegated: tuple[int, int] | None = None
    #: time of each operator as the device's tool printed it
    operators: tuple[Mapping[str, object], ...] = ()
    #: comparison of the file with its ONNX export; empty if the file itself ran.
    onnx_export: Mapping[str, object] = field(default_factory=dict)
    #: what a page downloads to run the file in a browser, the runtime and the file;
    #: None elsewhere.
    page_bytes: int | None = None


@dataclass(frozen=True)
class ImageAnswers:
    """Answers of a file to the images of one part."""

    #: share of right answers by class, 0 to 1; None for a class without an image.
    per_class_recall: Mapping[str, float | None] = field(default_factory=dict)
    #: images by true class (rows) and answer (columns); None where there are too many classes.
    confusion: tuple[tuple[int, ...], ...] | None = None
    #: path of the answers within the run folder, empty where they were not kept: labels, or of a
    #: detector each image's share in the figure that decides.
    file: str = ""
    boxes: BoxFacts | None = None  #: what a detector found; None of other files
    #: how far the probabilities of a classifier can be believed; None where they were not kept.
    confidence: ConfidenceFacts | None = None
    #: path of each image's share in the figure that decides, where labels do not tell it
    shares: str = ""
    #: figures in % of a classifier or detector by the names of :data:`advisor.core.METRICS`: all
    #: that the images allow, the one that decides among them.
    metrics: Mapping[str, Quantity] = field(default_factory=dict)
    #: points that a detector lost against its float32 file on the same images,
    #: by the names of ``metrics``.
    metric_drops: Mapping[str, Quantity] = field(default_factory=dict)
    #: further figures of a task by their names
    figures: Mapping[str, Quantity] = field(default_factory=dict)
    #: what the user asked of the thresholds of labels, by their names; empty for no wish.
    label_guarantees: Mapping[str, BoxGuarantee] = field(default_factory=dict)
    #: score from which on each label is shown, of a file of the user that keeps its own scores;
    #: empty of other files.
    label_thresholds: Mapping[str, float] = field(default_factory=dict)
    overlays: Overlays | None = None  #: images with a colour for each pixel, of the hold-out alone

    @property
    def compared_by(self) -> str:
        """Path of the file by which files are compared image by image; empty for none."""
        return self.shares or self.file

    @property
    def has_classes(self) -> bool:
        """True where something is known by class."""
        return bool(self.confusion or self.per_class_recall)


@dataclass(frozen=True)
class HeadFacts:
    """Choice of the head of a card on the training part."""

    #: the features and the classifier, such as ``last_layer``, ``cosine`` or ``all_levels``
    kind: str
    #: the chosen inverse strength ``C`` of the penalty, larger is weaker; 0 for nearest mean
    regularization: float
    #: True if ``C`` is the first or last value that was tried, so a better one may lie beyond
    at_grid_end: bool
    #: share (0-1) of training images that heads trained on other groups
    #: of images classify correctly.
    cv_accuracy: float
    cv_images: int  #: number of these images


@dataclass(frozen=True)
class TuningFacts:
    """Facts of the fine-tuning of a network."""

    #: a time limit ended the training, lowered its rate early, or chose fewer layers or copies
    shortened: bool


@dataclass(frozen=True)
class NewConditions:
    """Facts of a card on images of another occasion: another visit, camera or day."""

    #: share (0-1) of the right answers that stay right without images
    #: of the same occasion in training.
    kept: float
    kept_low: float  #: the same share if more images count as one occasion
    kept_high: float  #: the same share if fewer do
    sd: float  #: standard deviation of the accuracy (0-1) between occasions
    silhouette: float  #: how clearly the images of a class form clusters, -1 to 1
    clusters: int  #: number of clusters
    images: int  #: number of images that were read

    @property
    def grouped(self) -> bool:
        """True where the images show that several were taken on one occasion."""
        return self.sd > 0


@dataclass(frozen=True)
class HoldoutPart:
    """The images of the hold-out that a file ran on,
    where a time limit left no time for all of them.
    """

    judged: int  #: number of images that it ran on
    images: int  #: number of images of the hold-out

    @property
    def shown(self) -> str:
        """The part in words: ``40 of 101 images``."""
        return f"{self.judged:,} of {self.images:,} images"

    @property
    def reason(self) -> str:
        """Why it is not the whole hold-out."""
        return f"the time limit left no time for the other {self.images - self.judged:,}"

    def count_by_class(self, images: Mapping[Label, int]) -> dict[Label, int]:
        """Return how many of the ``images`` of each class belong to the part, in the same order.

        The images of each class are spread evenly from 0 to 1, and the first ones are taken, so
        that the part is in proportion to the classes.
        """
        places = []
        for number, (label, count) in enumerate(images.items()):
            for place in range(count):
                places.append(((place + 0.5) / count, number, label))
        counts = dict.fromkeys(images, 0)
        for *_, label in sorted(places)[: self.judged]:
            counts[label] += 1
        return counts


class ConditionAccuracy(NamedTuple):
    """Top-1 in % under one capture condition at one strength."""

    condition: str
    strength: float
    top1: float


@dataclass(frozen=True)
class Agreement:
    """Agreement of a compressed file with its float32 file, on photographs."""

    share: float  #: share of equal answers, 0 to 1
    images: int  #: number of photographs
    kept: float  #: the same share, each photograph weighted by the confidence of the float32 file


@dataclass(frozen=True)
class DeviceFigures:
    """Figures of one file on one device."""

    key: str = ""  #: key of the evaluation there
    runtime: str = ""  #: runtime and version
    accelerator: str = ""  #: what it runs on
    threads: int = 1  #: CPU threads
    reason: str = ""  #: why it does not run there, empty where it does
    latency_ms: float | None = None  #: median latency, None where it is not known
    low_ms: float | None = None  #: lower end of its interval
    high_ms: float | None = None  #: upper end of its interval
    provenance: str = ""  #: where the latency comes from
    p90_ms: float | None = None  #: what is compared with the latency budget
    #: probability to meet the latency budget, None for a measured latency
    budget_probability: float | None = None
    source: str = ""  #: how the latency was measured over a connection; empty where it was not


@dataclass(frozen=True)
class CaptureAccuracy:
    """Top-1 under capture conditions: blur, poor light, noise, as phones take images."""

    by_condition: tuple[ConditionAccuracy, ...] = ()  #: top-1 of each condition at each strength
    #: top-1 on the unchanged validation images, where capture conditions are the objective.
    plain: Quantity | None = None
    #: the mean on the hold-out, None where the file is no finalist
    holdout: Quantity | None = None

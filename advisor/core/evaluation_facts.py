"""Facts of an evaluation besides the figures that decide: of the card, the file, the timing, the answers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from advisor.core.box_facts import BoxFacts
from advisor.core.confidence_facts import ConfidenceFacts
from advisor.core.quantity import Quantity


@dataclass(frozen=True)
class Normalisation:
    """Mean and deviation that turn RGB values 0..255 into the model's input: ``(value - mean) / std`` by channel.

    Attributes:
        mean: value that is subtracted from each channel, 0 to 255.
        std: value that the difference is divided by, 0 to 255.
    """

    mean: tuple[float, float, float]
    std: tuple[float, float, float]


@dataclass(frozen=True)
class CardFacts:
    """Facts of the model card; None where the evaluation does not know one.

    Attributes:
        params: trained values of the network.
        macs: multiply-accumulates for one image.
        licence: SPDX identifier of network and weights, or other words.
        input_size: side of the square input, pixels.
        preprocessing: how images are normalised.
        weights: source of the weights; empty where the file was measured without them.
        as_it_is: the user ships this file: it was neither trained nor compressed here.
    """

    params: float | None = None
    macs: float | None = None
    licence: str | None = None
    input_size: int | None = None
    preprocessing: Normalisation | None = None
    weights: str | None = None
    as_it_is: bool = False

    @property
    def lacks_weights(self) -> bool:
        """True where the file was measured without the weights of the card."""
        return self.weights == ""


@dataclass(frozen=True)
class FileFacts:
    """Facts of a file that is not run; None where one was not computed.

    Attributes:
        arena_bytes: memory of the activations.
        download_bytes: size inside an app's package (deflated).
        download_zstd_bytes: size compressed by Zstandard.
        recipe_notes: what the compression recipe did and found, where it says more than its name.
    """

    arena_bytes: float | None = None
    download_bytes: float | None = None
    download_zstd_bytes: float | None = None
    recipe_notes: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class TimeSummary:
    """Milliseconds of many runs.

    Attributes:
        p50: median in ms.
        p90: 90th percentile in ms.
        min: shortest run in ms; None for CPU time.
        cv: coefficient of variation (standard deviation / mean); None for CPU time.
    """

    p50: float
    p90: float
    min: float | None = None
    cv: float | None = None


@dataclass(frozen=True)
class TimingFacts:
    """Circumstances of a measured latency.

    Attributes:
        threads: CPU threads.
        effort: how long it was timed (``search`` or ``survey``).
        load_ms: time to load the file.
        first_ms: time of the first run.
        verdict: whether the machine was undisturbed (``stable``, ``contended``, ...).
        verdict_reason: why.
        measured_at: when, as ISO 8601.
        wall_ms: wall time of a run; None where a connection measured it.
        cpu_ms: CPU time of a run, None where the system does not tell it.
    """

    threads: int | None = None
    effort: str = ""
    load_ms: float | None = None
    first_ms: float | None = None
    verdict: str = ""
    verdict_reason: str = ""
    measured_at: str = ""
    wall_ms: TimeSummary | None = None
    cpu_ms: TimeSummary | None = None


@dataclass(frozen=True)
class RemoteFacts:
    """Run of a file on a device that was measured over its connection.

    Attributes:
        connection: the connection's label.
        delegated: operators that a delegate took, and all of them; None where no delegate says so.
        operators: time of each operator as the device's tool printed it.
        onnx_export: comparison of the file with its ONNX export; empty if the file itself ran.
        page_bytes: what a page downloads to run the file in a browser, the runtime and the file; None elsewhere.
    """

    connection: str
    delegated: tuple[int, int] | None = None
    operators: tuple[Mapping[str, object], ...] = ()
    onnx_export: Mapping[str, object] = field(default_factory=dict)
    page_bytes: int | None = None


@dataclass(frozen=True)
class ImageAnswers:
    """Answers of a file to the images of one part.

    Attributes:
        per_class_recall: share of right answers by class, 0 to 1; None for a class without an image.
        confusion: images by true class (rows) and answer (columns); None where there are too many classes.
        file: path of the answers within the run folder, empty where they were not kept: labels, or of a detector each
            image's share in the figure that decides.
        shares: path of each image's share in the figure that decides, where labels do not tell it.
        boxes: what a detector found; None of other files.
        confidence: how far the probabilities of a classifier can be believed; None where they were not kept.
        metrics: figures in % of a classifier by the names of :data:`advisor.core.metrics.METRICS`: all that the images
            allow, the one that decides among them.
    """

    per_class_recall: Mapping[str, float | None] = field(default_factory=dict)
    confusion: tuple[tuple[int, ...], ...] | None = None
    file: str = ""
    boxes: BoxFacts | None = None
    confidence: ConfidenceFacts | None = None
    shares: str = ""
    metrics: Mapping[str, Quantity] = field(default_factory=dict)

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
    """Choice of the head of a card on the training part.

    Attributes:
        kind: the features and the classifier, such as ``last_layer``, ``cosine`` or ``all_levels``.
        regularization: the chosen inverse strength ``C`` of the penalty, larger is weaker; 0 for nearest mean.
        at_grid_end: True if ``C`` is the first or last value that was tried, so a better one may lie beyond.
        cv_accuracy: share (0-1) of training images that heads trained on other groups of images classify correctly.
        cv_images: number of these images.
    """

    kind: str
    regularization: float
    at_grid_end: bool
    cv_accuracy: float
    cv_images: int


@dataclass(frozen=True)
class NewConditions:
    """Facts of a card on images of another occasion: another visit, camera or day.

    Attributes:
        kept: share (0-1) of the right answers that stay right without images of the same occasion in training.
        kept_low: the same share if more images count as one occasion.
        kept_high: the same share if fewer do.
        sd: standard deviation of the accuracy (0-1) between occasions.
        silhouette: how clearly the images of a class form clusters, -1 to 1.
        clusters: number of clusters.
        images: number of images that were read.
    """

    kept: float
    kept_low: float
    kept_high: float
    sd: float
    silhouette: float
    clusters: int
    images: int

    @property
    def grouped(self) -> bool:
        """True where the images show that several were taken on one occasion."""
        return self.sd > 0


class ConditionAccuracy(NamedTuple):
    """Top-1 in % under one capture condition at one strength."""

    condition: str
    strength: float
    top1: float


@dataclass(frozen=True)
class Agreement:
    """Agreement of a compressed file with its float32 file, on photographs.

    Attributes:
        share: share of equal answers, 0 to 1.
        images: number of photographs.
        kept: the same share, each photograph weighted by the confidence of the float32 file.
    """

    share: float
    images: int
    kept: float


@dataclass(frozen=True)
class DeviceFigures:
    """Figures of one file on one device.

    Attributes:
        key: key of the evaluation there.
        runtime: runtime and version.
        accelerator: what it runs on.
        threads: CPU threads.
        reason: why it does not run there, empty where it does.
        latency_ms: median latency, None where it is not known.
        low_ms: lower end of its interval.
        high_ms: upper end of its interval.
        provenance: where the latency comes from.
        p90_ms: what is compared with the latency budget.
        budget_probability: probability to meet the latency budget, None for a measured latency.
    """

    key: str = ""
    runtime: str = ""
    accelerator: str = ""
    threads: int = 1
    reason: str = ""
    latency_ms: float | None = None
    low_ms: float | None = None
    high_ms: float | None = None
    provenance: str = ""
    p90_ms: float | None = None
    budget_probability: float | None = None


@dataclass(frozen=True)
class CaptureAccuracy:
    """Top-1 under capture conditions: blur, poor light, noise, as phones take images.

    Attributes:
        by_condition: top-1 of each condition at each strength.
        plain: top-1 on the unchanged validation images, where capture conditions are the objective.
        holdout: the mean on the hold-out, None where the file is no finalist.
    """

    by_condition: tuple[ConditionAccuracy, ...] = ()
    plain: Quantity | None = None
    holdout: Quantity | None = None

"""The result of ``advisor compress`` as values."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from advisor.compression.recipes import Sizes
from advisor.core.quantity import Interval
from advisor.core.tasks import DEFAULT_TASK, TASKS

ANY = "any"
"""Stands for the task of a file that is judged by samples of its inputs."""

NAMED = 4
"""Operators left in float that a note names."""


@dataclass(frozen=True)
class TrueBoxes:
    """The true boxes in an image.

    Attributes:
        rows: class in the order of the model, then top, left, bottom and right in shares of the image.
        size: height and width of the image in pixels.
    """

    rows: tuple[tuple[int, float, float, float, float], ...]
    size: tuple[int, int]


@dataclass(frozen=True)
class FileAgreement:
    """Difference of a compressed file's answers from the float file's.

    Attributes:
        images: number of images, or of samples.
        share: share of images with the same answer, with Wilson's 95 % interval. For detectors the mAP@0.5 (0-1),
            if the boxes that the float file is sure of were the true ones. For samples the share in which every output
            has an error of at most a tenth of its size.
        snr_db: signal-to-noise ratio of the answer; None if both are equal to the last bit, and for detectors.
        accuracy: the metric of the task (0-1) with its 95 % interval; None without labels.
        drop: loss of accuracy against float on the same images, with its paired 95 % interval; None without labels.
        by_output: the ratio of each output by its name, if there are several; ``snr_db`` is the worst.
    """

    images: int
    share: Interval
    snr_db: float | None = None
    accuracy: Interval | None = None
    drop: Interval | None = None
    by_output: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Speed:
    """Latency and memory of a file on this machine with one thread.

    Attributes:
        latency_ms: median of a run.
        low: lower end of its 95 % interval.
        high: upper end.
        memory_bytes: private memory that loading and the first run add; None if the system does not report it.
        verdict: whether the figure can be trusted: ``stable``, ``unstable`` or ``contended``.
    """

    latency_ms: float
    low: float
    high: float
    memory_bytes: int | None
    verdict: str


@dataclass(frozen=True)
class DelegatedPart:
    """Part of a file that the target's accelerator runs.

    Attributes:
        taken: operators that it runs.
        operators: operators of the file.
        share: share of the arithmetic that it runs, 0-1.
        pieces: number of partitions.
        left: number of operators left to the builtin kernels, by reason.
    """

    taken: int
    operators: int
    share: float
    pieces: int
    left: Mapping[str, int]


@dataclass(frozen=True)
class RecipeResult:
    """One recipe and its result.

    Attributes:
        recipe: its name.
        status: ``ok``, ``skipped`` (does not apply) or ``failed``.
        reason: why it is not ``ok``, or why it could not be scored or timed.
        path: the file; empty if there is none.
        seconds: time to make it.
        sizes: its sizes.
        taken: its delegation.
        agreement: accuracy, or agreement with float.
        speed: latency and memory; None if it was not timed.
        notes: what the recipe did and found.
    """

    recipe: str
    status: Literal["ok", "skipped", "failed"]
    reason: str = ""
    path: str = ""
    seconds: float = 0.0
    sizes: Sizes | None = None
    taken: DelegatedPart | None = None
    agreement: FileAgreement | None = None
    speed: Speed | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)

    def within(self, max_drop_points: float | None) -> bool:
        """Return whether the loss is within the limit; without a limit, whether there is a file."""
        if self.status != "ok":
            return False
        if max_drop_points is None:
            return True
        drop = self.agreement.drop if self.agreement else None
        return drop is not None and 100 * drop.value <= max_drop_points + 1e-9


@dataclass(frozen=True)
class Compression:
    """The result of ``advisor compress``.

    Attributes:
        model: the float file as given.
        folder: where the files are.
        calibration: the images that activations were calibrated on, in words.
        scored: the images that the files were scored on, in words.
        accelerator: the accelerator that ``taken`` is about.
        max_drop_points: points that a file may lose against float; None for no limit.
        forms: float32 first, then the recipes in the order asked.
        notes: what the reader must know.
        task: name of the task, see :data:`advisor.core.tasks.TASKS`; ``ANY`` with samples.
    """

    model: str
    folder: str
    calibration: str
    scored: str
    accelerator: str
    max_drop_points: float | None
    forms: tuple[RecipeResult, ...]
    notes: tuple[str, ...] = ()
    task: str = DEFAULT_TASK

    @property
    def metric(self) -> str:
        """The metric of the task; empty with samples."""
        return "" if self.task == ANY else TASKS[self.task].metric

    @property
    def good(self) -> tuple[RecipeResult, ...]:
        """Return the files that were made and keep within the limit."""
        return tuple(form for form in self.forms[1:] if form.within(self.max_drop_points))

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        rows = [{**asdict(form), "within": form.within(self.max_drop_points)} for form in self.forms]
        return {"schema_version": 3, **asdict(self), "metric": self.metric, "forms": rows}


def notes_text(notes: Mapping[str, Any]) -> str:
    """Return a recipe's notes as a sentence; empty if there are none."""
    return "; ".join(_sentences(notes))


def _sentences(notes: Mapping[str, Any]) -> Iterator[str]:
    left = notes.get("float_operators")
    if left is not None:
        more = f" and {len(left) - NAMED} more" if len(left) > NAMED else ""
        named = f": {', '.join(map(str, left[:NAMED]))}{more}" if left else ""
        yield f"{len(left)} operators left in float{named}"
        if "float_share" in notes:
            yield f"they compute {notes['float_share']:.0%} of the multiply-accumulates"
        if "drop_points" in notes and "int8_drop_points" in notes:
            scored = f"{notes.get('judged_on', 0)} images that chose it"
            yield f"loses {notes['drop_points']:.1f} points on {scored}, int8 loses {notes['int8_drop_points']:.1f}"
    if "zero_share" in notes:
        yield f"{notes['zero_share']:.0%} of the weights are 0"
    learning = notes.get("learning")
    if isinstance(learning, Mapping) and "steps" in learning and "seconds" in learning:
        yield f"trained {learning['steps']} steps in {learning['seconds']:.0f} s"

"""Hold the result of compressing a file: a row for each recipe, with its agreement and latency.

The names are keys of ``advisor compress --json``: a change of one needs a new ``schema_version``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from advisor.compression import Sizes
from advisor.core import DEFAULT_TASK, TASKS, Interval

ANY_TASK = "any"
"""Stands for the task of a file that is judged by samples of its inputs."""

NAMED = 4
"""Operators left in float that a note names."""


@dataclass(frozen=True)
class FileAgreement:
    """Difference of a compressed file's answers from the float file's.

    Attributes:
        images: number of images, or of samples.
        share: share of images with the same answer, with Wilson's 95 % interval. For detectors the
            mAP@0.5 (0-1), if the boxes that the float file is sure of were the true ones. For
            samples the share in which every output has an error of at most a tenth of its size.
        snr_db: signal-to-noise ratio of the answer; None if both are equal to the last bit, and
            for detectors.
        accuracy: the metric of the task (0-1) with its 95 % interval; None without labels.
        drop: loss of accuracy against float on the same images, with its paired 95 % interval;
            None without labels.
        by_output: the ratio of each output by its name, if there are several; ``snr_db`` is the
            worst.
    """

    images: int
    share: Interval
    snr_db: float | None = None
    accuracy: Interval | None = None
    drop: Interval | None = None
    by_output: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Speed:
    """Median latency of a run on this machine with one thread, and its 95 % interval.

    ``memory_bytes`` is the private memory that loading and the first run add; None if the system
    does not report it. ``verdict`` says whether the figure can be trusted: ``stable``,
    ``unstable`` or ``contended``.
    """

    latency_ms: float
    low: float
    high: float
    memory_bytes: int | None
    verdict: str


@dataclass(frozen=True)
class DelegatedPart:
    """Part of a file's operators that the target's accelerator runs, in a number of ``pieces``.

    ``share`` is that of the arithmetic (0-1);
    ``left`` counts the operators left to the builtin kernels, by reason.
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
        status: ``ok``, ``skipped`` (does not apply) or ``failed``.
        reason: why it is not ``ok``, or why it could not be scored or timed.
        path: the file; empty if there is none.
        seconds: time to make it.
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

    @property
    def notes_text(self) -> str:
        """The recipe's notes as a sentence; empty if there are none."""
        return "; ".join(_explain_notes(self.notes))

    def within(self, max_drop_points: float | None) -> bool:
        """Return whether the loss is within the limit;
        without a limit, whether there is a file.
        """
        if self.status != "ok" or max_drop_points is None:
            return self.status == "ok"
        if self.agreement is None or self.agreement.drop is None:
            return False
        # The margin is for the rounding of shares of images.
        return 100 * self.agreement.drop.value <= max_drop_points + 1e-9


@dataclass(frozen=True)
class Compression:
    """The result of ``advisor compress``.

    Attributes:
        calibration: the images that activations were calibrated on, in words.
        scored: the images that the files were scored on, in words.
        accelerator: the accelerator that ``taken`` is about.
        max_drop_points: points that a file may lose against float; None for no limit.
        forms: float32 first, then the recipes in the order asked.
        task: name of the task, see :data:`advisor.core.TASKS`; :data:`ANY_TASK` with samples.
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
        if self.task == ANY_TASK:
            return ""
        return TASKS[self.task].metric

    @property
    def good(self) -> tuple[RecipeResult, ...]:
        """The files that were made and keep within the limit."""
        return tuple(form for form in self.forms[1:] if form.within(self.max_drop_points))

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        rows = []
        for form in self.forms:
            rows.append({**asdict(form), "within": form.within(self.max_drop_points)})
        return {"schema_version": 3, **asdict(self), "metric": self.metric, "forms": rows}


def _explain_notes(notes: Mapping[str, Any]) -> Iterator[str]:
    left = notes.get("float_operators")
    if left is not None:
        text = f"{len(left)} operators left in float"
        if left:
            text += f": {', '.join(map(str, left[:NAMED]))}"
        if len(left) > NAMED:
            text += f" and {len(left) - NAMED} more"
        yield text
        if "float_share" in notes:
            yield f"they compute {notes['float_share']:.0%} of the multiply-accumulates"
        if "drop_points" in notes and "int8_drop_points" in notes:
            scored = f"{notes.get('judged_on', 0)} images that chose it"
            yield (
                f"loses {notes['drop_points']:.1f} points on {scored}, int8 loses"
                f" {notes['int8_drop_points']:.1f}"
            )
    if "zero_share" in notes:
        yield f"{notes['zero_share']:.0%} of the weights are 0"
    learning = notes.get("learning")
    if isinstance(learning, Mapping) and "steps" in learning and "seconds" in learning:
        yield f"trained {learning['steps']} steps in {learning['seconds']:.0f} s"

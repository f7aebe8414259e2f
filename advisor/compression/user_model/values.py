"""What ``advisor compress`` found, as values: one a form, and the whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from advisor.compression.make import MadeFile
from advisor.core.statistics import Interval


@dataclass(frozen=True)
class Likeness:
    """How a form answers beside the float file.

    Attributes:
        images: how many images both answered.
        agreement: share of them on which both give the same answer, with Wilson's 95 % interval.
        snr_db: signal to noise of the answer; None where both answer alike to the last bit.
        top1: share of right answers with Wilson's 95 % interval; None without labels.
        drop: what is lost of it against float on the same images, with its paired 95 % interval; None without labels.
    """

    images: int
    agreement: Interval
    snr_db: float | None
    top1: Interval | None = None
    drop: Interval | None = None


@dataclass(frozen=True)
class Speed:
    """How a form runs on this machine with one thread.

    Attributes:
        latency_ms: median of a run.
        low: lower end of its 95 % interval.
        high: upper end.
        memory_bytes: private memory that loading and the first run add; None where the system does not tell.
        verdict: whether the figure can be trusted: ``stable``, ``unstable`` or ``contended``.
    """

    latency_ms: float
    low: float
    high: float
    memory_bytes: int | None
    verdict: str


@dataclass(frozen=True)
class Sizes:
    """What a form takes in bytes.

    Attributes:
        size_bytes: the file.
        download_bytes: deflated, as an app's package carries it.
        download_zstd_bytes: by Zstandard.
        arena_bytes: memory that the activations need at once, computed from their lifetimes.
    """

    size_bytes: int
    download_bytes: int
    download_zstd_bytes: int
    arena_bytes: int


def sizes_of(made: MadeFile) -> Sizes:
    """Return the sizes of a file whose download sizes were computed."""
    download = made.download
    assert download is not None, "advisor compress computes the download sizes of every file"
    return Sizes(made.size_bytes, download.deflated_bytes, download.zstd_bytes, made.arena_bytes)


@dataclass(frozen=True)
class Taken:
    """What the target's accelerator takes of a form.

    Attributes:
        taken: how many operators.
        operators: of how many.
        share: part of the arithmetic, 0-1.
        pieces: in how many pieces.
        left: why operators fall back to the builtin kernels, and how many for each reason.
    """

    taken: int
    operators: int
    share: float
    pieces: int
    left: Mapping[str, int]


@dataclass(frozen=True)
class Form:
    """One recipe and what became of it.

    Attributes:
        recipe: its name.
        status: ``ok``, ``skipped`` (does not apply) or ``failed``.
        reason: why it is not ``ok``; or why it could not be scored or timed.
        path: the file, empty where there is none.
        seconds: how long making it took.
        sizes: bytes.
        taken: delegation.
        likeness: accuracy, or agreement with float.
        speed: None where it was not timed.
        notes: what the recipe says of itself.
    """

    recipe: str
    status: Literal["ok", "skipped", "failed"]
    reason: str = ""
    path: str = ""
    seconds: float = 0.0
    sizes: Sizes | None = None
    taken: Taken | None = None
    likeness: Likeness | None = None
    speed: Speed | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)

    def within(self, max_drop_points: float | None) -> bool:
        """Tell whether it keeps within the largest drop; where none was given every form does that there is."""
        if self.status != "ok":
            return False
        if max_drop_points is None:
            return True
        drop = self.likeness.drop if self.likeness else None
        return drop is not None and 100 * drop.value <= max_drop_points + 1e-9


@dataclass(frozen=True)
class Compression:
    """The answer of ``advisor compress``.

    Attributes:
        model: the float file as given.
        folder: where the forms are.
        calibration: what activations were calibrated on.
        scored: what the forms were scored on.
        accelerator: whose operators ``taken`` counts.
        max_drop_points: what a form may lose against float; None where no limit was given.
        forms: float32 first, then the recipes in the order asked.
        notes: what the reader must know.
    """

    model: str
    folder: str
    calibration: str
    scored: str
    accelerator: str
    max_drop_points: float | None
    forms: tuple[Form, ...]
    notes: tuple[str, ...] = ()

    @property
    def good(self) -> tuple[Form, ...]:
        """The forms asked for that were made and keep within the largest drop."""
        return tuple(form for form in self.forms[1:] if form.within(self.max_drop_points))

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        rows = [{**asdict(form), "within": form.within(self.max_drop_points)} for form in self.forms]
        return {"schema_version": 1, **asdict(self), "forms": rows}

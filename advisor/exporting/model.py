"""From the measured artefact to the file that MediaPipe accepts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from advisor.core.confidence_facts import ShippedThresholds
from advisor.core.errors import UsageError
from advisor.tflite.metadata import Metadata, read_metadata
from advisor.tflite.metadata_writer import write_metadata
from advisor.tflite.model import read

NO_THRESHOLD = ShippedThresholds()
THRESHOLD = "the metadata states the score from which on answers are shown:"


@dataclass(frozen=True)
class ShippedModel:
    """The model of a bundle.

    Attributes:
        content: the ``.tflite``; identical to the measured artefact where ``edits`` is empty.
        labels: one label for each output, in order.
        mean: subtracted from RGB values 0..255, one number for all channels.
        std: divisor of the difference.
        size: side of the input in pixels.
        edits: changes for clients that do not support the artefact's types or normalization, or that read a threshold.
        thresholds: scores from which on a client shows an object or a class.
    """

    content: bytes
    labels: tuple[str, ...]
    mean: float
    std: float
    size: int
    edits: tuple[str, ...]
    thresholds: ShippedThresholds = field(default_factory=ShippedThresholds)

    @property
    def threshold(self) -> float | None:
        """Score for the answers of all classes without an own one; None if all of them count."""
        return self.thresholds.plain


def prepare(artefact: bytes, name: str, thresholds: ShippedThresholds = NO_THRESHOLD) -> ShippedModel:
    """Return the artefact as MediaPipe 1.2 needs it: float32 in and out, one mean and std, a threshold.

    No edit changes the values that the network computes. Metadata is written last, because every edit drops it.

    Args:
        artefact: the measured file.
        name: its name, for errors.
        thresholds: scores from which on clients show a box or a class.

    Raises:
        UsageError: the file is damaged, or has no metadata.
    """
    metadata = read_metadata(artefact, name)
    if metadata is None or not metadata.labels or not metadata.mean:
        raise UsageError(
            f"{name} has no metadata with labels and normalization", "search again: artefacts of this version have it"
        )
    content, described, edits = _adapted(artefact, metadata)
    stated = _stated(thresholds, metadata.labels)
    if stated and len(read(content, name).outputs[0].shape) < 4:  # no client reads one of a map
        one, by_class = min(stated), stated if thresholds.by_class else ()
        said = f"{one:g}{', for some classes a higher one' if by_class else ''}"
        described, edits = replace(described, threshold=one, by_class=by_class), (*edits, f"{THRESHOLD} {said}")
    model = read(content, name)
    return ShippedModel(
        content=write_metadata(content, described) if edits else artefact,
        labels=metadata.labels,
        mean=described.mean[0],
        std=described.std[0],
        size=model.inputs[0].shape[1],
        edits=edits,
        thresholds=thresholds,
    )


def _stated(thresholds: ShippedThresholds, labels: Sequence[str]) -> tuple[float, ...]:
    """Return the score of each label for the metadata; empty if all answers count.

    Clients compare each class with its own score. Where scores differ, they are at least a half: so no class is shown
    behind a more probable one that its own score leaves out.
    """
    if not thresholds.by_class:
        return () if thresholds.plain is None else (thresholds.plain,)
    return tuple(max(0.5, thresholds.least(label)) for label in labels)


def _adapted(artefact: bytes, metadata: Metadata) -> tuple[bytes, Metadata, tuple[str, ...]]:
    from advisor.tflite.quantization import fold_normalization, to_float_io

    content, edits = artefact, list[str]()
    model = read(artefact)
    kinds = {tensor.dtype for tensor in (*model.inputs, *model.outputs)}
    if kinds != {"float32"}:
        content = to_float_io(content)
        edits.append(f"input and output take float32 instead of {'/'.join(sorted(kinds - {'float32'}))}")
    if len(set(metadata.mean)) == 1 and len(set(metadata.std)) == 1:
        return content, metadata, tuple(edits)
    channels = model.inputs[0].shape[-1]
    content = fold_normalization(content, _wide(metadata.mean, channels), _wide(metadata.std, channels))
    edits.append("the normalization, which differs by channel, happens inside the model: it takes RGB 0..255")
    return content, replace(metadata, mean=(0.0,), std=(1.0,)), tuple(edits)


def _wide(values: tuple[float, ...], channels: int) -> tuple[float, ...]:
    return values if len(values) == channels else values * channels

"""Jobs of the stages: functions for child processes, from paths and values to files and values.

The walker calls them by ``module:function`` and by position, on this machine or on another one. So
a function keeps its name and the order of its arguments; arguments and results must travel as
messages. Heavy imports stay inside the functions. What a job writes or returns is in the cache:
change it only with a new version of its stage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.core import HeadFacts, TimeSummary, TimingFacts, to_json
from advisor.datasets import InputSpec, decode_images
from advisor.tflite import Metadata

if TYPE_CHECKING:
    from advisor.compression import CalibrationSource, Grids, RecipeInputs
    from advisor.core import WeightsFile
    from advisor.measurement import LatencyResult, OutOfFold
    from advisor.training import CaptureAugmentation

ANSWERS_FILE = "answers.npy"  # Out-of-fold answers of a head, beside it
# From this share of new rows on, all rows are computed: only then there are maps of all images.
LEAST_NEW = 0.9
# Probabilities in that file, at most: a set with more of them has enough validation images.
MOST_ANSWERS = 10_000_000


def cut_output(master: Path, output: str, path: Path) -> None:
    """Write the master with only one of its outputs;
    for features, with those of all levels of the network.
    """
    from advisor.tflite import FEATURES, select_output, with_levels

    data = select_output(master.read_bytes(), output)
    content = with_levels(data) if output == FEATURES else data
    path.write_bytes(content)


def write_features(
    backbone: Path,
    images: Sequence[Path],
    names: Sequence[bytes],
    view: InputSpec,
    augmentation: CaptureAugmentation,
    blocks: Path,
    out: Path,
    maps: bool = False,
) -> None:
    """Write the features of images into ``out`` as a block of rows;
    compute only those that no block contains.

    ``names`` are the keys of the images' features; ``blocks`` lists the blocks of this backbone
    and view. With ``maps``, the maps at which fine-tuning cuts the backbone are written too,
    unless many rows are there.
    """
    from advisor.store import write_cached_rows
    from advisor.training import extract_features

    def compute(indices: Sequence[int]) -> Any:
        # Maps are of all images or none. A few rows are known where an image is there twice.
        if maps and len(indices) >= LEAST_NEW * len(images):
            return extract_features(backbone, images, view, augmentation, out)[list(indices)]
        return extract_features(backbone, [images[index] for index in indices], view, augmentation)

    write_cached_rows(out, blocks, names, compute)


def prepare_calibration(
    model: Path,
    grids: Sequence[Grids],
    calibration: CalibrationSource,
    folder: Path,
    earlier: Sequence[Path],
) -> None:
    """Write what all forms of a float file share into a folder; see
    :func:`.compression.prepare_file`.
    """
    from advisor.compression import prepare_file

    prepare_file(model, grids, calibration, folder, earlier)


def compress_model(
    model: Path,
    recipe: str,
    calibration: CalibrationSource,
    metadata: Metadata | None,
    path: Path,
    stands_in: bool = False,
    inputs: RecipeInputs | None = None,
    calibrated: Sequence[Path] = (),
) -> dict[str, Any]:
    """Apply a compression recipe to a float file and write the artefact with its metadata.

    A model that ``stands_in`` has random values. Its latency depends on its operators alone, so a
    few crops calibrate it. Its download size is unknown, because the trained file compresses
    differently. ``calibrated`` are the files of :func:`prepare_calibration` for this model; empty
    to observe it here. Return ``arena_bytes`` of the activations, ``download_bytes`` and
    ``download_zstd_bytes`` unless ``stands_in``, and the recipe's ``notes``.
    """
    from advisor.compression import RecipeInputs, Sizes, arena_bytes, make_file

    notes = make_file(
        model, recipe, calibration, inputs or RecipeInputs(), metadata, path, calibrated
    )
    if stands_in:
        return {"arena_bytes": arena_bytes(path), "notes": notes}
    sizes = Sizes.of_file(path)
    return {"arena_bytes": sizes.arena_bytes, "notes": notes, **sizes.downloads}


def copy_finished_file(weights: WeightsFile | None, path: Path) -> dict[str, Any]:
    """Copy a user's finished file and return its figures, see :func:`compress_model`;
    StageError if it is missing.
    """
    from advisor.compression import Sizes
    from advisor.core import StageError

    if weights is None:
        raise StageError("it is a file of your own, and the file is not available")
    path.write_bytes(weights.path.read_bytes())
    sizes = Sizes.of_file(path)
    return {"arena_bytes": sizes.arena_bytes, **sizes.downloads}


def score_images(
    model: Path,
    images: Sequence[Path],
    view: InputSpec,
    path: Path,
    classes: Sequence[str] = (),
) -> None:
    """Run an artefact over images in plain LiteRT and write the probabilities, float32 (N, C),
    as ``.npy``.

    The columns are ``classes`` in their order.
    Further classes of a user's own file come after them.
    """
    from advisor.core import as_probabilities
    from advisor.measurement import predict_pixels

    rows = as_probabilities(predict_pixels(model, decode_images(images, view.size), view))
    np.save(path, rows[:, _order_columns(model, classes)])


def _order_columns(model: Path, classes: Sequence[str]) -> list[int] | slice:
    """Return the outputs of a file in the order of the classes, by the labels in the file;
    then its further outputs.
    """
    from advisor.datasets import class_order
    from advisor.tflite import Metadata

    metadata = Metadata.read(model.read_bytes(), model.name)
    labels = metadata.labels if metadata else ()
    if not classes or labels[: len(classes)] == tuple(classes):
        return slice(None)
    of_classes = class_order(classes, labels, len(labels))
    further = [place for place in range(len(labels)) if place not in of_classes]
    return [*of_classes, *further]


def fold_temperature(
    model: Path,
    scores: Path,
    labels: Sequence[int],
    figures: Mapping[str, int],
    notes: Mapping[str, Any],
    path: Path,
    folds: OutOfFold | None = None,
) -> dict[str, Any]:
    """Write a classifier with the temperature of its probabilities folded into its head;
    return its figures and notes.

    ``scores`` is the ``.npy`` of its probabilities on images with these ``labels``,
    see :func:`score_images`.
    """
    from advisor.tflite import with_temperature

    temperature = choose_temperature(scores, labels, folds)
    content = model.read_bytes()
    if temperature != 1:
        content = with_temperature(content, temperature, model.name)
    path.write_bytes(content)
    return {**figures, "notes": dict(notes)}


def choose_temperature(scores: Path, labels: Sequence[int], folds: OutOfFold | None) -> float:
    """Return the temperature of a file:
    by the ``.npy`` of its probabilities, and the out-of-fold ones of its head.
    """
    from advisor.measurement import fit_temperature

    rows = np.load(scores, allow_pickle=False)
    true_labels = np.asarray(labels)
    if folds:
        rows, true_labels, _ = folds.beside(rows, true_labels)
    return fit_temperature(rows, true_labels)


def classify_captures(
    model: Path,
    images: Sequence[Path],
    view: InputSpec,
    path: Path,
    classes: Sequence[str] = (),
) -> None:
    """Run an artefact over images under every capture condition and write its labels,
    int64 (T, N), as ``.npy``.

    Labels count as in :func:`score_images`.
    """
    from advisor.measurement import predict_captured

    answers = predict_captured(model, images, view)
    columns = _order_columns(model, classes)
    labels = answers if isinstance(columns, slice) else np.argsort(columns)[answers]
    np.save(path, labels)


def answer_photographs(model: Path, view: InputSpec, seed: int) -> list[tuple[int, float]]:
    """Return the artefact's top-1 label and its probability on crops
    of photographs that int8 was not calibrated on.
    """
    from advisor.core import as_probabilities
    from advisor.measurement import predict_arrays

    rows = as_probabilities(predict_arrays(model, view.draw_photographs(seed)))
    return [(int(row.argmax()), float(row.max())) for row in rows]


def time_file(model: Path, counts: tuple[int, ...], effort: str) -> dict[str, dict[str, Any]]:
    """Return the timings of a file by thread count, as JSON.

    No other work may run on the machine at the same time.
    """
    from advisor.measurement import timing

    timings = timing.measure(model, counts, effort)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    rows: dict[str, dict[str, Any]] = {}
    for count in counts:
        result = timings.at(count)
        row: dict[str, Any] = {}
        for name, quantity in timings.to_quantities(count).items():
            row[name] = quantity.to_json()
        row["contended"] = result.contended
        row["details"] = to_json(timing_facts(result, timings.effort, now), defaults=True)
        rows[str(count)] = row
    return rows


def timing_facts(result: LatencyResult, effort: str, now: str) -> TimingFacts:
    """Return how a file was timed at one thread count; ``now`` is the time in ISO format."""
    cpu_ms = TimeSummary(result.cpu.p50, result.cpu.p90) if result.cpu else None
    return TimingFacts(
        load_ms=result.load_ms,
        first_ms=result.first_ms,
        threads=result.threads,
        effort=effort,
        verdict=result.verdict.value,
        verdict_reason=result.reason,
        measured_at=now,
        wall_ms=TimeSummary(result.wall.p50, result.wall.p90, result.wall.min, result.wall.cv),
        cpu_ms=cpu_ms,
    )


def train_head(
    backbone: Path,
    feature_files: Sequence[Sequence[Path]],
    train: Sequence[int],
    labels: Sequence[int],
    groups: Sequence[int],
    classes: int,
    seed: int,
    path: Path,
) -> dict[str, Any]:
    """Train the head, write it as ``.npz`` with its out-of-fold answers beside it,
    and return its facts.

    ``feature_files`` are parts of the features, first of the unchanged images, then of the
    augmented ones. ``train`` are the rows to learn from, with their labels and groups; no groups
    if each row is one.
    """
    from advisor.tflite import last_width
    from advisor.training import join_parts, train_head as fit

    rows = np.asarray(train)
    features, *views = [join_parts(parts, rows) for parts in feature_files]
    head = fit(features, labels, classes, seed, views, groups, last_width(backbone.read_bytes()))
    np.savez(path, weights=head.weights, bias=head.bias)
    if head.answers is not None and head.answers.size <= MOST_ANSWERS:
        np.save(path.with_name(ANSWERS_FILE), head.answers)
    return to_json(head.facts)


def estimate_new_conditions(
    features: Sequence[Path], labels: Sequence[int], validation: Sequence[int], grouped: bool
) -> dict[str, Any]:
    """Return what :func:`advisor.training.expect_new_conditions` expects
    on images of another occasion, as JSON.
    """
    from advisor.training import expect_new_conditions, join_parts

    return asdict(expect_new_conditions(join_parts(features), labels, validation, grouped))


def refit_head(
    backbone: Path,
    feature_files: Sequence[Sequence[Path]],
    labels: Sequence[int],
    classes: int,
    chosen: HeadFacts,
    path: Path,
) -> None:
    """Fit the chosen kind of head to all rows and write it as ``.npz``;
    see :func:`train_head` for arguments.
    """
    from advisor.tflite import last_width
    from advisor.training import fit_head, join_parts

    features, *views = list(map(join_parts, feature_files))
    last = last_width(backbone.read_bytes())
    weights, bias = fit_head(
        features, labels, classes, chosen.regularization, views, chosen.kind, last
    )
    np.savez(path, weights=weights, bias=bias)


def join_head(backbone: Path, head: Path, path: Path) -> None:
    """Write the backbone with the trained head behind it: softmax over the user's classes."""
    from advisor.tflite import attach_head

    arrays = np.load(head, allow_pickle=False)
    path.write_bytes(attach_head(backbone.read_bytes(), arrays["weights"], arrays["bias"]))


def score_head(features: Sequence[Path], rows: Sequence[int], head: Path, path: Path) -> None:
    """Apply a head to rows of features and write the probabilities as ``.npy``,
    as :func:`score_images` does.
    """
    from scipy.special import softmax

    from advisor.training import join_parts

    arrays = np.load(head, allow_pickle=False)
    logits = join_parts(features, np.asarray(rows)) @ arrays["weights"] + arrays["bias"]
    np.save(path, softmax(logits, axis=1).astype(np.float32))

"""Give a classifier the class ``unknown`` and judge it: jobs of the stages of ``unknown.py``.

The walker calls :func:`probe` and :func:`add_unknown` in a child process, by name and by position.
What they write and return is in the cache, and the figures are in the report: another result needs
a new ``UNKNOWN_VERSION``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from advisor.core import LeftOut, UnknownFacts
from advisor.datasets import InputSpec
from advisor.engine._pipeline.stages.jobs import choose_temperature
from advisor.engine._pipeline.stages.unknown_score import (
    Neighbours,
    compute_auroc,
    make_rule,
    mean_of,
    share_accepted,
)

if TYPE_CHECKING:
    from advisor.measurement import OutOfFold

Rows = NDArray[np.float32]
Labels = NDArray[np.int64]
NearTo = Callable[[Rows], Neighbours]  # Finds the neighbours among the features of some images

LEAST_CLASSES = 3
MOST_LEFT_OUT = 8
LEAST_IMAGES = 5
"""Classes for one to be left out; classes that are left out at most, those with most validation
images; validation images of a class that is.
"""

NAMES = ("unknown", "other", "none of these")
"""Names of the class for unknown things: the first that is no class of the user's."""


@dataclass(frozen=True)
class HeadSpec:
    """Kind and penalty of the heads without one class, see :func:`advisor.training.fit_head`.

    ``regularization`` is the inverse strength of the penalty. ``frozen``:
    fine-tuning has not trained the backbone.
    """

    kind: str
    regularization: float
    frozen: bool = True


def probe(model: Path, images: Sequence[Path], spec: InputSpec, path: Path) -> None:
    """Write features and logits of a classifier on images, float32 (N, F + C), as ``.npy``."""
    from advisor.tflite import with_probe
    from advisor.training import extract_features

    probed = path.with_suffix(".tflite")
    probed.write_bytes(with_probe(model.read_bytes(), model.name))
    np.save(path, extract_features(probed, images, spec))
    probed.unlink()


@dataclass(frozen=True)
class LearntImages:
    """Images to learn from, as the float networks see them.

    Columns after those of the features are not used. Files of the features by the network that is
    compared, and by the one that ships; the classes; the places of the training and validation
    part.
    """

    compared: tuple[Path, ...]
    shipped: tuple[Path, ...]
    labels: tuple[int, ...]
    train: tuple[int, ...]
    validation: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class JudgedFeatures:
    """Features by which the score is made and judged.

    Of the training part by the float network, (N, F), with the classes ``targets``. Of the
    validation part, with the classes ``truth``: by the compared file (``compared``, with its
    logits) and by the float network (``floats``), (M, F).
    """

    train: Rows
    targets: Labels
    compared: Rows
    floats: Rows
    truth: Labels
    logits: Rows

    @classmethod
    def of(cls, probe_file: Path, learnt: LearntImages, classes: int) -> JudgedFeatures:
        """Read the features; ``probe_file`` is :func:`probe`
        of the compared file on the validation part.
        """
        from advisor.training import join_parts

        rows = np.load(probe_file, allow_pickle=False)
        labels = np.asarray(learnt.labels)
        width = rows.shape[1] - classes
        features = join_parts(learnt.compared)[:, :width]
        train = list(learnt.train)
        validation = list(learnt.validation)
        return cls(
            features[train],
            labels[train],
            rows[:, :width],
            features[validation],
            labels[validation],
            rows[:, width:],
        )


def add_unknown(
    model: Path,
    scores: Path,
    features: Path,
    learnt: LearntImages,
    classes: Sequence[str],
    head: HeadSpec,
    path: Path,
    folds: OutOfFold | None = None,
) -> dict[str, Any]:
    """Write a classifier with the class ``unknown``,
    and judge its score with each class left out in turn.

    ``model`` ships, with its temperature. Of the compared file on the validation part, ``scores``
    are its probabilities and ``features`` is :func:`probe`. Return
    :class:`~advisor.core.UnknownFacts` as JSON.
    """
    from advisor.tflite import (
        Metadata,
        head_layers,
        to_float_io,
        with_unknown,
    )
    from advisor.training import join_parts

    known = JudgedFeatures.of(features, learnt, len(classes))
    content = to_float_io(model.read_bytes())
    # Fine-tuning draws the last layer's features of all images together,
    # also those of other things.
    tells_apart = head.frozen or head_layers(content, model.name) > 1
    near_to = Neighbours.of if tells_apart else Neighbours.none
    rule = make_rule(known.logits, near_to(known.train).similarity(known.compared))
    temperature = choose_temperature(scores, known.truth.tolist(), folds)
    near = near_to(join_parts(learnt.shipped)[:, : known.compared.shape[1]])
    # The head of the file has the temperature, so its logits are smaller by this factor.
    weight = rule.weight / temperature
    offset = rule.offset / temperature
    content = with_unknown(content, near.axes, near.images, weight, offset, model.name)
    label = next(name for name in (*NAMES, f"not {classes[0]}") if name not in classes)
    metadata = Metadata.read(model.read_bytes(), model.name)
    if metadata:
        content = replace(metadata, labels=(*metadata.labels, label)).write_into(content)
    path.write_bytes(content)
    facts = UnknownFacts(label=label, size_bytes=path.stat().st_size)
    return asdict(_judge_unknown(facts, known, classes, head, near_to))


def _judge_unknown(
    facts: UnknownFacts,
    known: JudgedFeatures,
    classes: Sequence[str],
    head: HeadSpec,
    near_to: NearTo,
) -> UnknownFacts:
    """Return the facts with the figures of each class that was left out, and their means."""
    by_class = {}
    for label in _choose_classes(known.truth):
        by_class[classes[label]] = _leave_class_out(label, known, head, near_to)
    if not by_class:
        return facts
    forms, references = zip(*by_class.values(), strict=True)
    return replace(
        facts,
        auroc=mean_of([form.auroc for form in forms]),
        float_auroc=mean_of([form.auroc for form in references]),
        accepted=float(np.mean([form.accepted for form in forms])),
        by_class=dict(zip(by_class, forms, strict=True)),
    )


def _choose_classes(truth: Labels) -> list[int]:
    """Return the classes to leave out: those with most images, in label order."""
    counts = np.bincount(truth)
    if np.count_nonzero(counts) < LEAST_CLASSES:
        return []
    largest_first = np.argsort(-counts, kind="stable")
    large = [int(label) for label in largest_first if counts[label] >= LEAST_IMAGES]
    return sorted(large[:MOST_LEFT_OUT])


def _leave_class_out(
    label: int, known: JudgedFeatures, head: HeadSpec, near_to: NearTo
) -> tuple[LeftOut, LeftOut]:
    """Fit a head without a class, and judge its score by features of the file
    and by those of the float32 file.
    """
    from advisor.training import fit_head

    is_other = known.targets != label
    others = known.train[is_other]
    names, labels = np.unique(known.targets[is_other], return_inverse=True)
    weights, bias = fit_head(
        others, labels.tolist(), len(names), head.regularization, (), head.kind
    )
    near = near_to(others)
    is_left_out = known.truth == label

    def judge_score(features: Rows) -> LeftOut:
        logits = features @ weights + bias
        similarity = near.similarity(features)
        rule = make_rule(logits[~is_left_out], similarity[~is_left_out])
        scores = rule.scores(logits, similarity)
        return LeftOut(
            compute_auroc(scores[~is_left_out], scores[is_left_out]),
            share_accepted(scores[~is_left_out], scores[is_left_out]),
            int(is_left_out.sum()),
        )

    return judge_score(known.compared), judge_score(known.floats)

"""Jobs that find images of unknown things: functions for child processes, from paths and values to files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.core.unknown_facts import LeftOut, UnknownFacts
from advisor.datasets.images import InputSpec
from advisor.measurement.unknown import Neighbours, accepted, auroc, mean_of, rule

Rows = NDArray[np.float32]

LEAST_CLASSES, MOST_LEFT_OUT, LEAST_IMAGES = 3, 8, 5
"""Classes for one to be left out; classes that are left out at most, those with most validation images; validation
images of a class that is."""

NAMES = ("unknown", "other", "none of these")
"""Names of the class for unknown things: the first that is no class of the user's."""


@dataclass(frozen=True)
class HeadSpec:
    """Kind and penalty of the heads without one class, see :func:`advisor.training.head.train.fit_head`.

    Attributes:
        kind: of the head.
        regularization: the inverse strength of its penalty.
        frozen: the backbone is as it was published; fine-tuning has not trained it.
    """

    kind: str
    regularization: float
    frozen: bool = True


def probe(model: Path, images: Sequence[Path], spec: InputSpec, path: Path) -> None:
    """Write features and logits of images, float32 (N, F + C), as ``.npy``.

    Args:
        model: a classifier.
        images: the files.
        spec: how an image becomes the model's input.
        path: where to write.
    """
    from advisor.tflite.unknown import with_probe
    from advisor.training.features import extract

    probed = path.with_suffix(".tflite")
    probed.write_bytes(with_probe(model.read_bytes(), model.name))
    np.save(path, extract(probed, images, spec))
    probed.unlink()


def add_unknown(
    model: Path,
    scores: Path,
    own: Path,
    compared: tuple[Sequence[Path], Sequence[int], Sequence[int]],
    shipped: Sequence[Path],
    labels: Sequence[int],
    classes: Sequence[str],
    head: HeadSpec,
    path: Path,
) -> dict[str, Any]:
    """Write a classifier with the class ``unknown``, and judge its score with each class left out in turn.

    Args:
        model: the file that ships, with its temperature.
        scores: ``.npy`` of the probabilities of the compared file on the validation part.
        own: :func:`probe` of the compared file on the validation part.
        compared: features of the float network that was compared on the images to learn from, and the places of the
            training and of the validation part among them. More columns than those of the features are left out.
        shipped: features of the float network that ships on the same images.
        labels: classes of the images to learn from.
        classes: names of the classes.
        head: of the network.
        path: where to write.

    Returns:
        :class:`~advisor.core.unknown_facts.UnknownFacts` as JSON.
    """
    from advisor.measurement.confidence import temperature
    from advisor.tflite.interface import to_float_io
    from advisor.tflite.metadata import read_metadata
    from advisor.tflite.metadata_writer import write_metadata
    from advisor.tflite.unknown import head_layers, with_unknown
    from advisor.training.features import joined

    files, train, validation = compared
    rows, every = np.load(own, allow_pickle=False), np.asarray(labels)
    width = rows.shape[1] - len(classes)
    features = joined(files)[:, :width]
    known, truth = rows[:, :width], every[np.asarray(validation)]
    content, metadata = to_float_io(model.read_bytes()), read_metadata(model.read_bytes(), model.name)
    # Fine-tuning draws the last layer's features of all images together, also those of other things.
    told = head.frozen or head_layers(content, model.name) > 1
    near_to = Neighbours.of if told else Neighbours.none
    found = rule(rows[:, width:], near_to(features[np.asarray(train)]).similarity(known))
    degrees = temperature(np.load(scores, allow_pickle=False), truth)
    ships = near_to(joined(shipped)[:, :width])
    made = with_unknown(content, ships.axes, ships.images, found.weight / degrees, found.offset / degrees, model.name)
    label = next(name for name in (*NAMES, f"not {classes[0]}") if name not in classes)
    if metadata is not None:
        made = write_metadata(made, replace(metadata, labels=(*metadata.labels, label)))
    path.write_bytes(made)
    floats = features[np.asarray(validation)]
    learnt = features[np.asarray(train)], every[np.asarray(train)]
    by_class = {
        classes[each]: _left_out(each, learnt, (known, floats), truth, head, near_to) for each in _chosen(truth)
    }
    facts = UnknownFacts(label=label, size_bytes=len(made))
    if by_class:
        forms, references = zip(*by_class.values(), strict=True)
        facts = replace(
            facts,
            auroc=mean_of([each.auroc for each in forms]),
            float_auroc=mean_of([each.auroc for each in references]),
            accepted=float(np.mean([each.accepted for each in forms])),
            by_class=dict(zip(by_class, forms, strict=True)),
        )
    return asdict(facts)


def _chosen(truth: NDArray[np.int64]) -> list[int]:
    """Return the classes to leave out: those with most images, in label order."""
    counts = np.bincount(truth)
    if np.count_nonzero(counts) < LEAST_CLASSES:
        return []
    largest = [int(each) for each in np.argsort(-counts, kind="stable") if counts[each] >= LEAST_IMAGES]
    return sorted(largest[:MOST_LEFT_OUT])


def _left_out(
    label: int,
    learnt: tuple[Rows, NDArray[np.int64]],
    judged: tuple[Rows, Rows],
    truth: NDArray[np.int64],
    head: HeadSpec,
    near_to: Callable[[Rows], Neighbours],
) -> tuple[LeftOut, LeftOut]:
    """Fit a head without a class, and judge its score by features of the file and by those of the float32 file.

    Args:
        label: of the class.
        learnt: features and classes of the training part.
        judged: features of the validation part by either file.
        truth: its classes.
        head: kind and penalty.
        near_to: finds the neighbours among features.
    """
    from advisor.training.head.train import fit_head

    rows, targets = learnt
    kept = targets != label
    names, others = np.unique(targets[kept], return_inverse=True)
    weights, bias = fit_head(rows[kept], others.tolist(), len(names), head.regularization, (), head.kind)
    near, apart = near_to(rows[kept]), truth == label

    def one(features: Rows) -> LeftOut:
        logits, similarity = features @ weights + bias, near.similarity(features)
        scores = rule(logits[~apart], similarity[~apart]).scores(logits, similarity)
        return LeftOut(auroc(scores[~apart], scores[apart]), accepted(scores[~apart], scores[apart]), int(apart.sum()))

    return one(judged[0]), one(judged[1])

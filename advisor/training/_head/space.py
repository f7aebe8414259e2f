"""Map features to the space that heads are fitted in.

The space is centred, scaled, and along the principal directions of the features. A rotation does
not change the L2 penalty, and the directions left out hold noise. So the head stays the same, and
several thousand features are fitted in a fraction of a second. Heads of classes (`trials.py`),
heads of labels (`_label_head.py`) and the search for wrong labels (`_labels.py`) are fitted in it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

# Number of directions. On TrashNet a head on 512 of MobileNetV2's 3,152 is as accurate as on all.
DIMENSIONS = 512
# Standard deviation of a feature of a level, where one of the last layer has 1 in the mean.
LEVELS_SCALE = 1.5
# Largest number of rows to find the directions from, and rows in a chunk.
_ROWS = 8192


@dataclass(frozen=True, eq=False)
class Space:
    """An affine map of features, or one that ignores their length.

    The latter is linear in features of length 1. A head without a bias answers features of any
    length alike, so it needs no operator that divides by the length. The part of the features
    along their mean stands in for the constant of the bias: it hardly varies, as features behind a
    ReLU point in similar directions.
    """

    mean: Floats  # float32 (F,); 0 if the length is ignored
    # float32 (F, D), including the scale of each feature; maps the mean of unit features to 0.
    basis: Floats
    # float32 (F,), if the length is ignored: its product with that mean is 1.
    along: Floats | None = None
    length: float = 1.0  # mean length of the features, which only sets the scale of the logits

    def enter(self, features: Floats) -> Floats:
        """Map features (N, F) to (N, D)."""
        mapped = []
        # In chunks: centring makes a copy, and the features may fill a gigabyte.
        for start in range(0, max(1, len(features)), _ROWS):
            part = features[start : start + _ROWS]
            rows = part - self.mean if self.along is None else normalise_rows(part)
            mapped.append(rows @ self.basis)
        return np.concatenate(mapped)

    def constant(self, features: Floats) -> Floats:
        """Return the factor of the bias for each row, (N, 1): 1, or about 1."""
        if self.along is None:
            return np.ones((len(features), 1), np.float32)
        product: Floats = normalise_rows(features) @ self.along
        return product[:, None]

    def leave(self, weights: Floats, bias: Floats) -> tuple[Floats, Floats]:
        """Return the head on the original features with the answers of one on mapped features.

        The head inside is (D, C) and (C,). If the length is ignored, the bias is 0, and the logits
        are those inside times the length over the mean length.
        """
        outside = self.basis @ weights
        if self.along is None:
            return outside.astype(np.float32), (bias - self.mean @ outside).astype(np.float32)
        outside = (outside + np.outer(self.along, bias)) / self.length
        return outside.astype(np.float32), np.zeros_like(bias)


def normalise_rows(features: Floats) -> Floats:
    """Return features (N, F) of length 1; a row of zeros stays as it is."""
    lengths = np.maximum(_measure_lengths(features), 1e-12)
    return np.asarray(np.divide(features, lengths, dtype=np.float32))


def _measure_lengths(features: Floats) -> Floats:
    return np.asarray(np.sqrt(np.einsum("nf,nf->n", features, features))[:, None])


def find_unit_space(features: Floats) -> Space:
    """Find the space of features (N, F) by their directions alone.

    All features share one scale, as those of a last layer.
    """
    plain_space = find_space(normalise_rows(features), features.shape[1])
    along = plain_space.mean / max(float(plain_space.mean @ plain_space.mean), 1e-12)
    basis = plain_space.basis - np.outer(along, plain_space.mean @ plain_space.basis)
    length = max(float(_measure_lengths(features).mean()), 1e-12)
    return Space(np.zeros_like(along), basis.astype(np.float32), along, length)


def find_space(features: Floats, last: int = 0) -> Space:
    """Find the space of a training part's features (N, F). Equal features give equal spaces.

    The first ``last`` features are those of the last layer. They share one scale: a feature that
    hardly varies on these images is mostly noise. Each of the others is standardised; all are
    where ``last`` is 0.
    """
    # In chunks: the features may fill a gigabyte, and in float64 two.
    chunks = []
    for start in range(0, len(features), _ROWS):
        chunks.append(features[start : start + _ROWS])
    sums = [chunk.sum(axis=0, dtype=np.float64) for chunk in chunks]
    exact_mean = np.sum(sums, axis=0) / len(features)
    square_sums = [np.square(chunk - exact_mean).sum(axis=0) for chunk in chunks]
    squares = np.sum(square_sums, axis=0) / len(features)
    mean = exact_mean.astype(np.float32)
    scale = np.sqrt(squares).astype(np.float32)
    # A feature without any spread would be divided by 0.
    constant = scale < 1e-6
    if last:
        scale[:last] = np.sqrt(np.square(scale[:last]).mean())
        scale[last:] /= LEVELS_SCALE
    scale[constant] = 1.0
    places = np.linspace(0, len(features) - 1, min(len(features), _ROWS)).astype(int)
    # Features of equal spread need no directions.
    if not last and features.shape[1] <= DIMENSIONS:
        directions = np.eye(features.shape[1], dtype=np.float32)
    else:
        directions = _find_directions(((features[places] - mean) / scale).astype(np.float32))
    return Space(mean, (directions / scale[:, None]).astype(np.float32))


def _find_directions(standard: Floats) -> Floats:
    """Return at most :data:`DIMENSIONS` principal directions (F, D) of centred, scaled rows."""
    from scipy.linalg import eigh

    rows, width = standard.shape
    # Both products have the same non-zero eigenvalues, so the smaller matrix is enough.
    slim = rows < width
    moments = standard @ standard.T if slim else standard.T @ standard
    count = min(DIMENSIONS, len(moments))
    strengths, vectors = eigh(moments, subset_by_index=(len(moments) - count, len(moments) - 1))
    strong = strengths > 1e-6 * strengths[-1]
    strengths = strengths[strong]
    vectors = vectors[:, strong]
    coefficients = vectors
    if slim:
        coefficients = standard.T @ (vectors / np.sqrt(strengths))
    return np.asarray(coefficients)

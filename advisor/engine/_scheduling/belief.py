"""What a search believes of accuracies that it has not measured:
one normal distribution over all its networks.

A network is a card with a training recipe. The logarithms of the errors are jointly normal: every
network shares the difficulty of the images, cards share their family and what published accuracies
say, and a recipe removes about the same share of the errors of each card. A result therefore
teaches something about all others (Gaussian process regression: Rasmussen and Williams, "Gaussian
Processes for Machine Learning", 2006, equations 2.23 and 2.24).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from advisor.core import Configuration, Evaluation, recipe_of
from advisor.engine._space.plan import Plan
from advisor.engine._space.prior_accuracy import prior_accuracy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

TYPICAL_ERROR = 12.0
"""Errors in % of an average head on a user's images, before any result: 10 % on TrashNet, 30 % on
groceries of another visit, 3 % on hand signs.
"""

LEAST_ERROR = 0.2
"""Least error in % that is counted, so that its logarithm stays finite."""

DIFFICULTY_SD = 0.8
SLOPE = 0.4
SLOPE_SD = 0.2
FAMILY_SD = 0.05
SHAPE_SD = 0.07
CARD_SD = 0.05
"""Of the logarithm of a head's error: standard deviation of the images' difficulty; change for
each unit of the logarithm of the published error, and its deviation; deviations of a family, of an
architecture (about equal multiply-accumulates in a family), and of the weights of a card. The
heads of seven networks on TrashNet had 9.4 to 12.4 % errors, against 23 to 50 % published
(``benchmarks/results/trashnet_table.csv``): a deviation of 0.1 from the line. The heads of six
networks over five divisions (``accuracy_head.csv``) have the same.
"""

TUNED_SLOPE = 0.4
"""Addition of fine-tuning to the slope: networks with a better published accuracy gain more. On
TrashNet, EfficientNet-Lite0 (75 %) lost a third of its errors, MobileNetV2 (72 %) a tenth,
MobileNetV1 0.25 (50 %) none.
"""

ALIKE = 0.1
"""Difference of the logarithms of multiply-accumulates below which two cards
of a family are one architecture.
"""

OWN_SHARE = 0.6
"""Share of the deviation of a recipe's gain that is a card's own; the rest is common to all
cards.
"""

UNKNOWN_IMAGES = 1000
"""Images of an accuracy that does not say on how many it was measured."""

FILE_SD = 0.8
"""Standard deviation for a finished file, which has not learnt from the images."""


class CardTraining(NamedTuple):
    """A card with a training recipe;
    all compression recipes and thread counts of it share their float accuracy.
    """

    card: str
    training: str

    @property
    def tuned(self) -> bool:
        """True if the training fine-tunes the backbone."""
        return recipe_of(self.training).tunes_backbone

    @classmethod
    def of(cls, configuration: Configuration) -> CardTraining:
        """Return the network of a configuration."""
        return cls(configuration.card, configuration.training)


class FormStep(NamedTuple):
    """A network in one compression recipe, with every thread count: what is evaluated at once."""

    network: CardTraining
    form: str

    @classmethod
    def of(cls, configuration: Configuration) -> FormStep:
        """Return the step of a configuration."""
        return cls(CardTraining.of(configuration), configuration.compression)


@dataclass(frozen=True, eq=False)
class AccuracyBelief:
    """The joint normal distribution of the logarithms of the errors in %.

    ``mean`` (n,) and ``covariance`` (n, n) are in the order of ``networks``.
    """

    networks: tuple[CardTraining, ...]
    mean: Floats
    covariance: Floats

    @classmethod
    def before(cls, plan: Plan) -> AccuracyBelief:
        """Return the belief before any result."""
        import numpy as np

        cards = plan.cards_by_name
        networks = tuple(dict.fromkeys(map(CardTraining.of, plan.configurations())))
        errors = np.array(
            [
                math.log(100.0 - prior_accuracy(cards[network.card], "float32"))
                for network in networks
            ]
        )
        published = errors - errors.mean()
        shifts = [plan.shift_of(network.training) for network in networks]
        families = [cards[network.card].family for network in networks]
        names = [network.card for network in networks]
        trainings = [network.training for network in networks]
        sizes = np.array([math.log(max(1, cards[network.card].macs)) for network in networks])
        gain_sd = np.array([sd for _, sd in shifts])
        common = np.outer(gain_sd, gain_sd) * (1 - OWN_SHARE**2)
        of_training = np.outer(gain_sd, gain_sd) * OWN_SHARE**2
        card_sd = np.array(
            [FILE_SD if cards[network.card].form else CARD_SD for network in networks]
        )
        covariance = (
            DIFFICULTY_SD**2
            + SLOPE_SD**2 * np.outer(published, published)
            + FAMILY_SD**2 * _same(families)
            + SHAPE_SD**2 * _same(families) * (np.abs(sizes[:, None] - sizes[None, :]) < ALIKE)
            + np.outer(card_sd, card_sd) * _same(names)
            + common * _same(trainings)
            + of_training * _same(trainings) * _same(names)
        )
        slopes = np.array([SLOPE + TUNED_SLOPE * network.tuned for network in networks])
        mean = (
            math.log(TYPICAL_ERROR) + slopes * published + np.array([shift for shift, _ in shifts])
        )
        return cls(networks, mean, covariance)

    @cached_property
    def place(self) -> Mapping[CardTraining, int]:
        """The place of each network."""
        return {network: place for place, network in enumerate(self.networks)}

    def condition_on(self, place: int, value: float, variance: float) -> AccuracyBelief:
        """Return the belief after a result of the network at ``place``:
        the logarithm of its error, and its noise.
        """
        gain = self.covariance[:, place] / (self.covariance[place, place] + variance)
        mean = self.mean + gain * (value - self.mean[place])
        return replace(
            self, mean=mean, covariance=self.covariance - gain[:, None] * self.covariance[place]
        )

    def expecting(self, place: int, images: int) -> AccuracyBelief:
        """Return the belief after a result on so many images that is as expected:
        only the others' spread is less.
        """
        mean = float(self.mean[place])
        return self.condition_on(place, mean, noise(math.exp(mean), images))

    def shown(self, place: int, images: int) -> Floats:
        """Return by how much a result of the network at ``place`` moves each mean (n,),
        for one standard deviation.
        """
        variance = noise(math.exp(self.mean[place]), images)
        moves: Floats = self.covariance[:, place] / math.sqrt(
            self.covariance[place, place] + variance
        )
        return moves


def images_of(evaluation: Evaluation, share: bool = True) -> int:
    """Return how many images, each right or wrong, have the noise of an accuracy.

    Of a ``share`` of right images, that is their number. Another figure, such as a mean over
    classes of boxes, has the noise of its interval.
    """
    accuracy = evaluation.accuracy
    images = (accuracy.n if accuracy else 0) or UNKNOWN_IMAGES
    if share or accuracy is None or not accuracy.standard_error:
        return images
    error = min(max(100.0 - accuracy.value, 50.0 / images), 99.0)
    return max(1, round(error * (100.0 - error) / accuracy.standard_error**2))


def read_evidence(evaluation: Evaluation, share: bool = True) -> tuple[float, float, int]:
    """Return the logarithm of the error in % that a result shows, the variance of its noise,
    and :func:`images_of`.
    """
    images = images_of(evaluation, share)
    # At best, half an image is wrong.
    error = max(100.0 - evaluation.accuracy_percent, 50.0 / images, LEAST_ERROR)
    return math.log(error), noise(error, images), images


def noise(error: float, images: int) -> float:
    """Return the variance of the logarithm of an error in % on so many images,
    by the delta method.

    All networks see the same images,
    so about half of it is common to two of them and cancels in a comparison.
    """
    share = (min(error, 100.0) / 100.0 * images + 0.5) / (images + 1.0)
    return 0.5 * (1.0 - share) / (share * images)


def _same(values: Sequence[str]) -> Floats:
    import numpy as np

    same: Floats = (np.array(values)[:, None] == np.array(values)).astype(float)
    return same

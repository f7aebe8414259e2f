"""What a result teaches about networks that were not evaluated."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from advisor.core import Evaluation, Gain, Provenance, Quantity
from advisor.engine._scheduling.belief import FILE_SD, AccuracyBelief, CardTraining, images_of, noise, read_evidence
from advisor.engine._space.prior_accuracy import shift_of
from tests.builders import evaluation
from tests.engine.scheduling.searches import BEST, EXPENSIVE, OTHER, PLAN, TUNED, TWIN, WEAK, of_cards

BEFORE = AccuracyBelief.before(of_cards(PLAN, BEST, TWIN, OTHER, WEAK, EXPENSIVE))
HEAD = BEFORE.place[CardTraining(BEST, "head")]

places = st.integers(0, len(BEFORE.networks) - 1)
results = st.lists(
    st.tuples(places, st.floats(math.log(0.2), math.log(99.0)), st.floats(1e-6, 1.0)), min_size=1, max_size=8
)


def after(accuracy: float, images: int = 400, network: CardTraining = BEFORE.networks[HEAD]) -> AccuracyBelief:
    """Return the belief after one result."""
    error = 100.0 - accuracy
    return BEFORE.condition_on(BEFORE.place[network], math.log(error), noise(error, images))


def moved(belief: AccuracyBelief, card: str, training: str = "head") -> float:
    place = BEFORE.place[CardTraining(card, training)]
    return abs(float(belief.mean[place] - BEFORE.mean[place]))


@given(results)
def test_the_belief_is_a_distribution_that_no_result_makes_less_certain(told: list[tuple[int, float, float]]) -> None:
    belief = BEFORE
    for each in told:
        before, belief = belief, belief.condition_on(*each)
        assert (np.diag(belief.covariance) <= np.diag(before.covariance) + 1e-9).all()
    assert np.isfinite(belief.mean).all()
    assert np.allclose(belief.covariance, belief.covariance.T)
    assert np.linalg.eigvalsh(belief.covariance).min() > -1e-9


@given(places, st.floats(math.log(1.0), math.log(60.0)), st.floats(1e-4, 0.5), st.floats(1.1, 10.0))
def test_more_noise_moves_less(place: int, value: float, variance: float, factor: float) -> None:
    clear, unclear = (
        BEFORE.condition_on(place, value, each).mean - BEFORE.mean for each in (variance, factor * variance)
    )
    assert (np.abs(unclear) <= np.abs(clear) + 1e-12).all()


@given(places, st.integers(20, 5000))
def test_a_result_one_standard_deviation_off_moves_each_mean_as_far_as_was_foreseen(place: int, images: int) -> None:
    variance = noise(math.exp(float(BEFORE.mean[place])), images)
    value = float(BEFORE.mean[place]) + math.sqrt(float(BEFORE.covariance[place, place]) + variance)
    assert np.allclose(BEFORE.condition_on(place, value, variance).mean - BEFORE.mean, BEFORE.shown(place, images))


@pytest.mark.parametrize("accuracy", [60.0, 98.0])
def test_a_result_moves_the_twin_most_then_the_family_then_strangers(accuracy: float) -> None:
    belief = after(accuracy)
    assert moved(belief, BEST) > moved(belief, TWIN) > moved(belief, OTHER) > 0.0


def test_a_head_says_much_of_its_own_fine_tuning_and_a_fine_tuning_of_those_of_other_cards() -> None:
    assert moved(after(70.0), BEST, TUNED) > moved(after(70.0), OTHER, TUNED)
    tuned = after(99.0, network=CardTraining(BEST, TUNED))
    assert moved(tuned, OTHER, TUNED) > moved(tuned, OTHER, "head")


def test_a_card_with_better_published_figures_is_expected_to_be_better_and_a_finished_file_may_be_far_off() -> None:
    expected = {each.card: float(BEFORE.mean[place]) for each, place in BEFORE.place.items() if not each.tuned}
    assert expected[EXPENSIVE] < expected[OTHER] < expected[WEAK]
    file = replace(PLAN.cards_by_name[BEST], name="file", architecture="tflite_fixed")
    belief = AccuracyBelief.before(replace(PLAN, cards=(*PLAN.cards, file)))
    variance = {each.card: belief.covariance[place, place] for each, place in belief.place.items()}
    assert variance["file"] > variance[BEST] + FILE_SD**2 / 2


def shown(accuracy: float, images: int | None) -> Evaluation:
    return replace(evaluation(), accuracy=Quantity(accuracy, "%", Provenance.MEASURED, n=images))


@given(st.floats(0.0, 100.0), st.integers(1, 10_000), st.integers(1, 10_000))
def test_what_a_result_shows_is_finite_and_clearer_with_more_images(accuracy: float, images: int, more: int) -> None:
    value, variance, _ = read_evidence(shown(accuracy, images))
    assert math.isfinite(value)
    assert 0.0 < variance < math.inf
    error = max(100.0 - accuracy, 50.0 / images)  # half an image at least
    assert noise(error, images + more) < noise(error, images)


def test_a_figure_that_is_no_share_of_images_has_the_noise_of_its_interval() -> None:
    figure = Quantity(90.0, "%", Provenance.MEASURED, 87.0, 93.0, 0.95, 87)
    result = replace(evaluation(), accuracy=figure)
    assert images_of(result) == 87 == images_of(replace(result, accuracy=replace(figure, low=None)), share=False)
    like = images_of(result, share=False)
    assert 0.9 * 0.1 / like == pytest.approx((0.06 / 3.92) ** 2, rel=0.01)
    assert read_evidence(result, share=False)[1] < read_evidence(result)[1]
    assert images_of(replace(result, accuracy=replace(figure, value=100.0, low=99.0, high=100.0)), share=False) > 0


def test_a_measured_gain_of_a_task_is_expected_from_fine_tuning_whatever_the_images() -> None:
    for images in (100, 5000):
        assert shift_of("finetune_all", images, Gain(0.5, 0.1)) == pytest.approx((math.log(0.5), 0.2))
    assert shift_of("head", 100, Gain(0.5, 0.1)) == shift_of("head", 100)


def test_no_error_on_a_few_images_is_believed_less_than_on_many() -> None:
    assert read_evidence(shown(100.0, 10))[0] > read_evidence(shown(100.0, 200))[0] == pytest.approx(math.log(0.25))
    assert read_evidence(shown(90.0, None)) == read_evidence(shown(90.0, 1000))

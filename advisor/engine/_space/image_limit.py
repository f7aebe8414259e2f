"""Limit the images that a search reads to those that its time limit leaves time for.

``resolving.py`` asks before the images are read, so only their cost is known here. The
number is in ``dataset.json``: a resumed run reads the same images.
"""

from dataclasses import replace

from advisor.catalog import (
    Card,
)
from advisor.core import (
    FLOAT,
)
from advisor.datasets import expect_parts
from advisor.engine._pipeline.cost_calibration import CostCalibration
from advisor.engine._pipeline.cost_model import CostModel
from advisor.engine._pipeline.images import (
    CAPTURED_IMAGES,
    LARGE,
    SUBSET_IMAGES,
    TUNED_IMAGES,
    Role,
)
from advisor.engine._pipeline.materials import Workload
from advisor.engine._space.resolved import Resolved

SAMPLE_SHARE = 0.75

HEADS = 3

READING_IMAGE_S = 0.004
"""Share of a time limit that the work on the drawn images may take; heads that a search is
expected to train in it; and CPU seconds of reading an image before. An AMD EPYC takes 1 ms for
JPEGs of 160 pixels a side, 2 ms for 1,280, and 24 ms for 4,000 x 3,000.
"""


def within_time_limit(resolved: Resolved) -> Resolved:
    """Return the question with the most images that its time limit leaves time for;
    a resumed run keeps its own number.

    So many images leave time for heads, one fine-tuning and the hold-out, for the card with the
    median MACs: fine-tuning on some images gains more than a head that has learnt from all.
    :data:`LARGE` images are always read.
    """
    limit_s = resolved.execution.time_limit_s
    question = resolved.question
    if limit_s is None or question.data is None or not resolved.cards:
        return resolved
    if question.most_images is not None:
        return resolved
    card = sorted(resolved.cards, key=lambda card: card.macs)[len(resolved.cards) // 2]
    # The cost is taken as linear in the images, so two sizes give the number that fills the limit.
    few_s = _expect_search_s(resolved, card, LARGE)
    many_s = _expect_search_s(resolved, card, 2 * LARGE)
    further = round((SAMPLE_SHARE * limit_s - few_s) / (many_s - few_s) * LARGE)
    limited = replace(question, most_images=LARGE + max(0, further))
    return replace(resolved, request=replace(resolved.request, question=limited))


def _expect_search_s(resolved: Resolved, card: Card, images: int) -> float:
    """Return the wall seconds that a search with so many images takes for one card."""
    calibration = CostCalibration()
    question = resolved.question
    cores = resolved.execution.cores
    workload = Workload(
        question.trainings, tuple(resolved.recipes), _expect_counts(images), question
    )
    costs = CostModel(workload, calibration.pace)
    seconds = []
    for training in question.trainings:
        stages = costs.stages(card, [(training, FLOAT)])
        seconds.append(costs.chain_s(stages, cores, calibration.wall))
    # One fine-tuning is the longest chain, and the other heads are the shortest ones.
    return READING_IMAGE_S * images / cores + max(seconds) + (HEADS - 1) * min(seconds)


def _expect_counts(images: int) -> dict[Role, int]:
    """Return the images of each role in a set of so many, as a split usually divides them."""
    compared, judged = expect_parts(images)
    learnt = images - judged
    return dict.fromkeys(Role, images) | {
        Role.LEARNT: learnt,
        Role.TRAIN: learnt - compared,
        Role.VALIDATION: compared,
        Role.TUNED: min(learnt, TUNED_IMAGES + compared),
        Role.HOLDOUT: judged,
        Role.SUBSET: SUBSET_IMAGES,
        Role.CAPTURED: CAPTURED_IMAGES,
    }

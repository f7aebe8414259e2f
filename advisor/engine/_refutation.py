"""Judge whether the hold-out refutes the accuracy that validation gave a file, which chose it.

``_decide.py`` asks it of the pick: where it is refuted, another network may take its place.
"""

import math

from advisor.core import Evaluation

REFUTING_DEVIATIONS = 1.64
"""Standard deviations of the difference by which the hold-out must be below validation: by chance
alone, that happens to one file in twenty.
"""


def is_refuted(evaluation: Evaluation) -> bool:
    """Return whether a file has less accuracy on the hold-out than on validation,
    by more than noise.

    The pick is the file that validation prefers, so its figure there is too high by selection.
    False without a figure on the hold-out, and where an interval is not known.
    """
    validation = evaluation.accuracy
    holdout = evaluation.holdout_accuracy
    if validation is None or holdout is None:
        return False
    # Both figures have an error of their own, and no image is in both parts, so the variances add.
    validation_error = validation.standard_error
    holdout_error = holdout.standard_error
    if validation_error is None or holdout_error is None:
        return False
    margin = REFUTING_DEVIATIONS * math.hypot(validation_error, holdout_error)
    return holdout.value < validation.value - margin


def accuracy_on_both(evaluation: Evaluation) -> float | None:
    """Return the accuracy in % on all images of validation and hold-out together;
    None if one part is not known.

    A figure of a part of the hold-out stands for all of it.
    """
    validation = evaluation.accuracy
    holdout = evaluation.holdout_accuracy
    if validation is None or holdout is None or not validation.n or not holdout.n:
        return None
    part = evaluation.holdout_part
    held_out = holdout.n if part is None else part.images
    return (validation.value * validation.n + holdout.value * held_out) / (validation.n + held_out)


def sentence_of_refutation(refuted: Evaluation) -> str:
    """Return why another file than the one that validation prefers is the pick."""
    assert refuted.accuracy is not None, "a refuted file has both figures"
    assert refuted.holdout_accuracy is not None, "a refuted file has both figures"
    configuration = refuted.configuration
    name = f"{configuration.card} {configuration.variant_name}"
    held_out = refuted.holdout_accuracy
    images = f" on {held_out.n:,} images" if held_out.n else ""
    return (
        f"No comparison here counts {name}, which validation prefers"
        f" ({refuted.accuracy.value:.1f} %), or another form of that network: the hold-out refutes"
        f" it ({held_out.value:.1f} %{images} there), and with both parts weighted by their images"
        " the pick is better. The hold-out took part in this choice, so its figure may be a little"
        " too high."
    )

"""How the images of an evaluation are made into the model's input."""

from __future__ import annotations

from advisor.core.evaluation import Evaluation
from advisor.datasets.images import InputSpec


def input_spec(evaluation: Evaluation) -> InputSpec:
    """Return size and normalisation of the model's input.

    Raises:
        ValueError: the evaluation does not know them.
    """
    size, preprocessing = evaluation.card_facts.input_size, evaluation.card_facts.preprocessing
    if size is None or preprocessing is None:
        raise ValueError(f"the run does not say how {evaluation.configuration.card} takes its images")
    return InputSpec(size, preprocessing.mean, preprocessing.std)

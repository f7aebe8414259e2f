"""Name every stage of a search, in the order in which a configuration goes through them."""

from __future__ import annotations

from enum import StrEnum


class StageName(StrEnum):
    """The stages of a search.

    The order of the members is the order of the work. Progress, durations, costs, the report's funnel and
    ``Evaluation.stage`` (the stage that ended an evaluation) use these names and this order. A finalist's finished file
    is scored once more.

    The first three and ``STOP`` are decisions: they end an evaluation and run no job.
    """

    PLAN = "plan"
    """Ruled out by what is known beforehand: the size of the file or its licence."""
    PREDICT = "predict"
    """Predicted to be too slow, or not compatible with the device."""
    PROMOTION = "promotion"
    """Its training cannot reach the front."""
    CONVERT = "convert"
    """Keras graph to a float ``.tflite`` with two outputs."""
    CUT = "cut"
    """The float file with one of its outputs."""
    SCREEN = "screen"
    """CPU time of the backbone: a card that is far too slow is not trained."""
    FEATURES = "features"
    """The backbone's features of the images."""
    LABELS = "labels"
    """Likely wrong labels of a data set, for ``advisor data check``."""
    EXPECTATION = "expectation"
    """The share of right answers that the card keeps on images of another visit, camera or day."""
    HEAD = "head"
    """The head, fitted to the training part; a detector with its head, to compare or to ship."""
    REFIT = "refit"
    """The head that ships, fitted to everything but the hold-out."""
    JOIN = "join"
    """Backbone and head in one file."""
    FINETUNE_CACHED = "finetune_cached"
    """The last blocks fine-tuned on cached maps."""
    FINETUNE_TOP = "finetune_top"
    """The last layers fine-tuned."""
    FINETUNE_ALL = "finetune_all"
    """All layers fine-tuned."""
    CALIBRATE = "calibrate"
    """Activations on the calibration images, and the weights that all forms of a file share."""
    COMPRESS = "compress"
    """One compression recipe, labels and normalisation written into the file."""
    SCORE = "score"
    """Answers of the file on images."""
    CONFIDENCE = "confidence"
    """The temperature of the file's probabilities, folded into its head."""
    PROBE = "probe"
    """Features and logits of a classifier, to find images of unknown things."""
    UNKNOWN = "unknown"
    """A finalist with one more class, for things that are none of the classes."""
    CAPTURE = "capture"
    """Top-1 of the file on images under capture conditions."""
    ANSWERS = "answers"
    """Agreement with the float file on bundled photographs, if there are no images."""
    TIMING = "timing"
    """Latency and memory of the file on the target."""
    ONNX = "twin"
    """The export for another runtime of this machine; the older name is in cache keys and in the durations of runs."""
    RUNTIME = "runtime"
    """Latency and memory of the file in another runtime of this machine."""
    ARENA = "arena"
    """The memory that the file needs in a microcontroller's interpreter, measured on this machine."""
    STOP = "stop"
    """Not evaluated before the search ended; a run that is resumed evaluates it."""

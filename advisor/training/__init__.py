"""Train networks on the user's images.

Read ``_features.py`` and ``_head/`` first (a head on features), then ``_finetune/`` (the whole network in Keras),
``_on_maps/`` and ``_detection/`` (boxes and pixels) and ``_flatgraph/`` (train the weights of a ``.tflite`` itself).
"""

from typing import TYPE_CHECKING

from advisor._faces import open_face

if TYPE_CHECKING:
    from advisor.training._detection.boxes import box_detector_head, centre_detector_head
    from advisor.training._expectation import EXPECTATION_VERSION, expect
    from advisor.training._features import AS_IT_IS, CAPTURED, CaptureAugmentation, extract, joined
    from advisor.training._finetune import NO_LIMIT, TuningImages, epochs_done, ship_as_compared, tune
    from advisor.training._finetune.finetune import FINETUNE_VERSION, WEIGHTS
    from advisor.training._finetune.hyperparameters import FINETUNING, Finetuning, TrainingTime, Trials
    from advisor.training._finetune.network import flatbuffer
    from advisor.training._flatgraph import Change, Graph, read_graph
    from advisor.training._flatgraph.retraining import (
        Masked,
        Rounded,
        Schedule,
        Shared,
        TrainingSummary,
        Weight,
        learn,
        refit,
        rounded_activation,
    )
    from advisor.training._head import HEAD_VERSION, fit_head, train_head
    from advisor.training._head.quantized import matched, refitted
    from advisor.training._head.trials import LAST_LAYER
    from advisor.training._labels import LANDMARKS, Suspect, left_out, suspects
    from advisor.training._on_maps import last, pyramid, separable
    from advisor.training._on_maps.fit import Hyperparameters, MakeHead, Shape, TrainableHead
    from advisor.training._on_maps.kept import ImageSection, LabelledImages, Labels, listed, objects_of
    from advisor.training._on_maps.train import HeadKind, TrainingStart, train
else:
    __getattr__, __dir__ = open_face(__name__)

__all__ = [
    "AS_IT_IS",
    "CAPTURED",
    "EXPECTATION_VERSION",
    "FINETUNE_VERSION",
    "FINETUNING",
    "HEAD_VERSION",
    "LANDMARKS",
    "LAST_LAYER",
    "NO_LIMIT",
    "WEIGHTS",
    "CaptureAugmentation",
    "Change",
    "Finetuning",
    "Graph",
    "HeadKind",
    "Hyperparameters",
    "ImageSection",
    "LabelledImages",
    "Labels",
    "MakeHead",
    "Masked",
    "Rounded",
    "Schedule",
    "Shape",
    "Shared",
    "Suspect",
    "TrainableHead",
    "TrainingStart",
    "TrainingSummary",
    "TrainingTime",
    "Trials",
    "TuningImages",
    "Weight",
    "box_detector_head",
    "centre_detector_head",
    "epochs_done",
    "expect",
    "extract",
    "fit_head",
    "flatbuffer",
    "joined",
    "last",
    "learn",
    "left_out",
    "listed",
    "matched",
    "objects_of",
    "pyramid",
    "read_graph",
    "refit",
    "refitted",
    "rounded_activation",
    "separable",
    "ship_as_compared",
    "suspects",
    "train",
    "train_head",
    "tune",
]

"""Train networks on the user's images.

Read ``_features.py`` and ``_head/`` first (a head on features), then ``_finetune/`` (the whole
network in Keras), ``_on_maps/`` and ``_detection/`` (boxes and pixels) and ``_flatgraph/`` (train
the weights of a ``.tflite`` itself). ``README.md`` lists all modules.
"""

from typing import TYPE_CHECKING

from advisor._faces import open_face

if TYPE_CHECKING:
    from advisor.training import _label_head as label_head
    from advisor.training._capture_augmentation import CaptureAugmentation
    from advisor.training._detection.boxes import box_detector_head
    from advisor.training._detection.centres import centre_detector_head
    from advisor.training._detection.whole import detector_head
    from advisor.training._expectation import EXPECTATION_VERSION, expect_new_conditions
    from advisor.training._features import AS_IT_IS, CAPTURED, extract_features, join_parts
    from advisor.training._finetune import TuningImages, epochs_done, tune_network
    from advisor.training._finetune.finetune import FINETUNE_VERSION, WEIGHTS_FILE
    from advisor.training._finetune.finetuning import Finetuning
    from advisor.training._finetune.hyperparameters import FINETUNING, TrainingTime, Trials
    from advisor.training._finetune.network import convert_to_flatbuffer
    from advisor.training._flatgraph import Change, Graph
    from advisor.training._flatgraph.refitting import refit_kernels
    from advisor.training._flatgraph.retraining import (
        Masked,
        Rounded,
        Schedule,
        Shared,
        Weight,
        round_activation,
    )
    from advisor.training._head import HEAD_VERSION, fit_head, train_head
    from advisor.training._head.quantized import match_logits, refit_head
    from advisor.training._head.trials import LAST_LAYER
    from advisor.training._labels import LANDMARKS, Suspect
    from advisor.training._loop import Reserve
    from advisor.training._on_maps import convolve_separably
    from advisor.training._on_maps.changes import Labels, objects_of
    from advisor.training._on_maps.fit import Hyperparameters, MakeHead, TrainableHead
    from advisor.training._on_maps.kept import LabelledImages, list_outputs
    from advisor.training._on_maps.pixels import PackedMask, pixel_decoder
    from advisor.training._on_maps.train import HeadKind, train
    from advisor.training._on_maps.training_start import TrainingStart
    from advisor.training._training_images import TrainingImages
    from advisor.training._usual_maps import learn_usual
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
    "WEIGHTS_FILE",
    "CaptureAugmentation",
    "Change",
    "Finetuning",
    "Graph",
    "HeadKind",
    "Hyperparameters",
    "LabelledImages",
    "Labels",
    "MakeHead",
    "Masked",
    "PackedMask",
    "Reserve",
    "Rounded",
    "Schedule",
    "Shared",
    "Suspect",
    "TrainableHead",
    "TrainingImages",
    "TrainingStart",
    "TrainingTime",
    "Trials",
    "TuningImages",
    "Weight",
    "box_detector_head",
    "centre_detector_head",
    "convert_to_flatbuffer",
    "convolve_separably",
    "detector_head",
    "epochs_done",
    "expect_new_conditions",
    "extract_features",
    "fit_head",
    "join_parts",
    "label_head",
    "learn_usual",
    "list_outputs",
    "match_logits",
    "objects_of",
    "pixel_decoder",
    "refit_head",
    "refit_kernels",
    "round_activation",
    "train",
    "train_head",
    "tune_network",
]

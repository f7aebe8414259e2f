"""Measure files: latency, memory, accuracy, operators, and what an accelerator runs.

Read ``_latency/`` first (timings, and whether to trust them), then ``_classifiers.py`` (run a file
over images), ``_metrics.py`` and ``_calibration.py`` (figures from answers), ``_operators/`` and
``_on_device/``. ``host`` describes this machine.
"""

from typing import TYPE_CHECKING

from advisor._faces import open_face

if TYPE_CHECKING:
    from advisor.measurement import (
        _average_precision as average_precision,
        _box_matches as box_matches,
        _host as host,
        _label_precision as label_precision,
        _label_thresholds as label_thresholds,
    )
    from advisor.measurement._accelerators import Accelerator
    from advisor.measurement._box_confidence import (
        BoxAnswers,
        ScoreCalibration,
    )
    from advisor.measurement._calibration import OutOfFold, fit_temperature
    from advisor.measurement._class_thresholds import (
        choose_class_thresholds,
        judge_class_thresholds,
    )
    from advisor.measurement._classifiers import (
        Classifier,
        Pixels,
        predict,
        predict_arrays,
        predict_captured,
        predict_pixels,
    )
    from advisor.measurement._delegation import Delegation
    from advisor.measurement._detections import (
        CentreFinder,
        Detections,
        Detector,
    )
    from advisor.measurement._host import Host, require_quiet
    from advisor.measurement._latency import (
        LatencyResult,
        ModelTiming,
        Ratio,
        Verdict,
        session,
        timing,
    )
    from advisor.measurement._latency.pipeline import Pipeline
    from advisor.measurement._latency.timing import least_cpu_ms, measure
    from advisor.measurement._metrics import FIRST_CLASSES, Score, score_classifier
    from advisor.measurement._microcontrollers import (
        EthosEstimate,
        MicroCheck,
        OutputDifference,
        Unit,
        interpreter_of,
    )
    from advisor.measurement._on_device import DeviceBenchmark, DeviceRow, OutputAgreement
    from advisor.measurement._on_device.choice import benchmark_device
    from advisor.measurement._operators import profile
    from advisor.measurement._operators.profile_values import OperatorTime, Profile, TypeTime
    from advisor.measurement._other_images import Floats, Labels, resample_mean
    from advisor.measurement._overlaps import Overlaps, ratio_of
    from advisor.measurement._processes import call_json
    from advisor.measurement._runners import Runner, run_in_threads
else:
    __getattr__, __dir__ = open_face(__name__)

__all__ = [
    "FIRST_CLASSES",
    "Accelerator",
    "BoxAnswers",
    "CentreFinder",
    "Classifier",
    "Delegation",
    "Detections",
    "Detector",
    "DeviceBenchmark",
    "DeviceRow",
    "EthosEstimate",
    "Floats",
    "Host",
    "Labels",
    "LatencyResult",
    "MicroCheck",
    "ModelTiming",
    "OperatorTime",
    "OutOfFold",
    "OutputAgreement",
    "OutputDifference",
    "Overlaps",
    "Pipeline",
    "Pixels",
    "Profile",
    "Ratio",
    "Runner",
    "Score",
    "ScoreCalibration",
    "TypeTime",
    "Unit",
    "Verdict",
    "average_precision",
    "benchmark_device",
    "box_matches",
    "call_json",
    "choose_class_thresholds",
    "fit_temperature",
    "host",
    "interpreter_of",
    "judge_class_thresholds",
    "label_precision",
    "label_thresholds",
    "least_cpu_ms",
    "measure",
    "predict",
    "predict_arrays",
    "predict_captured",
    "predict_pixels",
    "profile",
    "ratio_of",
    "require_quiet",
    "resample_mean",
    "run_in_threads",
    "score_classifier",
    "session",
    "timing",
]

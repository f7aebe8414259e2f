"""Measure files: latency, memory, accuracy, operators, and what an accelerator runs.

Read ``_latency/`` first (timings, and whether to trust them), then ``_accuracy.py`` (run a file over images),
``_metrics.py`` and ``_confidence.py`` (figures from answers), ``_operators/`` and ``_on_device/``. ``host`` describes
this machine.
"""

from typing import TYPE_CHECKING

from advisor._faces import open_face

if TYPE_CHECKING:
    from advisor.measurement import (
        _average_precision as average_precision,
        _host as host,
        _label_precision as label_precision,
        _label_thresholds as label_thresholds,
    )
    from advisor.measurement._accelerators import accelerator, find_serving
    from advisor.measurement._accuracy import (
        NEAR,
        RESAMPLES,
        CentreFinder,
        Classifier,
        Detections,
        Detector,
        Floats,
        Labels,
        Pixels,
        Runner,
        find_centres,
        load_detections,
        of_other_images,
        predict,
        predict_arrays,
        predict_captured,
        predict_pixels,
        save_detections,
        sums_of_units,
        true_boxes,
        units_of,
        with_interval,
    )
    from advisor.measurement._average_precision import (
        Flags,
        Matched,
        count_boxes,
        f1_of,
        match_boxes,
        match_centres,
        require_coco,
        score_boxes,
        split_precision,
    )
    from advisor.measurement._box_confidence import (
        BoxAnswers,
        ScoreCalibration,
        answers_of,
        calibration_error,
        complete_guarantee,
        crossfit_scores,
        fit_score_calibration,
        guarantee_threshold,
    )
    from advisor.measurement._confidence import (
        OutOfFold,
        apply_temperature,
        assess_reliability,
        at_recall,
        at_score,
        crossfit_probabilities,
        draw_curve,
        find_covering,
        find_reachable,
        find_recalling,
        find_threshold,
        fit_temperature,
    )
    from advisor.measurement._delegation import Delegation, delegate_operators
    from advisor.measurement._host import Host, require_quiet
    from advisor.measurement._latency import LatencyResult, ModelTiming, Ratio, Verdict, session, timing
    from advisor.measurement._latency.scenarios import Pipeline
    from advisor.measurement._latency.session import Benchmark, FileBenchmark, benchmark
    from advisor.measurement._latency.timing import disturbance, effort_named, judge, least_cpu_ms, measure
    from advisor.measurement._metrics import FIRST, Judged, Score, scores
    from advisor.measurement._microcontrollers import (
        EthosEstimate,
        MicroCheck,
        OutputDifference,
        Unit,
        find_interpreter,
        interpreter_of,
    )
    from advisor.measurement._on_device import DeviceBenchmark, DeviceRow, OutputAgreement
    from advisor.measurement._on_device.benchmark import RuntimeHere, benchmark_in_runtimes, benchmark_on_device
    from advisor.measurement._on_device.gpu import benchmark_on_gpu, redirect_errors
    from advisor.measurement._operators import profile
    from advisor.measurement._operators.profile_values import OperatorTime, Profile, TypeTime
    from advisor.measurement._processes import call_json
    from advisor.measurement._unknown import KEPT, Neighbours, compute_auroc, make_rule, mean_of, share_accepted
else:
    __getattr__, __dir__ = open_face(__name__)

__all__ = [
    "FIRST",
    "KEPT",
    "NEAR",
    "RESAMPLES",
    "Benchmark",
    "BoxAnswers",
    "CentreFinder",
    "Classifier",
    "Delegation",
    "Detections",
    "Detector",
    "DeviceBenchmark",
    "DeviceRow",
    "EthosEstimate",
    "FileBenchmark",
    "Flags",
    "Floats",
    "Host",
    "Judged",
    "Labels",
    "LatencyResult",
    "Matched",
    "MicroCheck",
    "ModelTiming",
    "Neighbours",
    "OperatorTime",
    "OutOfFold",
    "OutputAgreement",
    "OutputDifference",
    "Pipeline",
    "Pixels",
    "Profile",
    "Ratio",
    "Runner",
    "RuntimeHere",
    "Score",
    "ScoreCalibration",
    "TypeTime",
    "Unit",
    "Verdict",
    "accelerator",
    "answers_of",
    "apply_temperature",
    "assess_reliability",
    "at_recall",
    "at_score",
    "average_precision",
    "benchmark",
    "benchmark_in_runtimes",
    "benchmark_on_device",
    "benchmark_on_gpu",
    "calibration_error",
    "call_json",
    "complete_guarantee",
    "compute_auroc",
    "count_boxes",
    "crossfit_probabilities",
    "crossfit_scores",
    "delegate_operators",
    "disturbance",
    "draw_curve",
    "effort_named",
    "f1_of",
    "find_centres",
    "find_covering",
    "find_interpreter",
    "find_reachable",
    "find_recalling",
    "find_serving",
    "find_threshold",
    "fit_score_calibration",
    "fit_temperature",
    "guarantee_threshold",
    "host",
    "interpreter_of",
    "judge",
    "label_precision",
    "label_thresholds",
    "least_cpu_ms",
    "load_detections",
    "make_rule",
    "match_boxes",
    "match_centres",
    "mean_of",
    "measure",
    "of_other_images",
    "predict",
    "predict_arrays",
    "predict_captured",
    "predict_pixels",
    "profile",
    "redirect_errors",
    "require_coco",
    "require_quiet",
    "save_detections",
    "score_boxes",
    "scores",
    "session",
    "share_accepted",
    "split_precision",
    "sums_of_units",
    "timing",
    "true_boxes",
    "units_of",
    "with_interval",
]

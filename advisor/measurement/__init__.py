"""Measure files: latency, memory, accuracy, operators, and what an accelerator runs.

Read ``_latency/`` first (timings, and whether to trust them), then ``_accuracy.py`` (run a file over images),
``_metrics.py`` and ``_confidence.py`` (figures from answers), ``_operators/`` and ``_on_device/``. ``host`` describes
this machine.
"""

from typing import TYPE_CHECKING

from advisor._faces import open_face

if TYPE_CHECKING:
    from advisor.measurement import _average_precision as average_precision, _host as host
    from advisor.measurement._accelerators import accelerator, serving
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
        captured_answers,
        centres,
        load,
        of_other_images,
        predict,
        predict_arrays,
        predict_pixels,
        save,
        sums_of_units,
        true_boxes,
        units_of,
        with_interval,
    )
    from advisor.measurement._average_precision import (
        Flags,
        Matched,
        counts,
        f1_of,
        match,
        match_centres,
        require_coco,
        score,
        shares,
    )
    from advisor.measurement._box_confidence import (
        BoxAnswers,
        ScoreCalibration,
        answers_of,
        calibration,
        calibration_error,
        crossfit_scores,
        promised,
        seen_at,
    )
    from advisor.measurement._confidence import (
        OutOfFold,
        at_recall,
        at_score,
        covering,
        crossfit_probabilities,
        curve,
        reachable,
        recalling,
        reliability,
        temperature,
        tempered,
        threshold,
    )
    from advisor.measurement._delegation import Delegation, delegate
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
        installed_interpreter,
        interpreter_of,
    )
    from advisor.measurement._on_device import DeviceBenchmark, DeviceRow, OutputAgreement
    from advisor.measurement._on_device.benchmark import RuntimeHere, benchmark_in_runtimes, benchmark_on_device
    from advisor.measurement._on_device.gpu import benchmark_on_gpu, redirected_errors
    from advisor.measurement._operators import profile
    from advisor.measurement._operators.profile_values import OperatorTime, Profile, TypeTime
    from advisor.measurement._processes import call_json
    from advisor.measurement._unknown import KEPT, Neighbours, accepted, auroc, mean_of, rule
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
    "accepted",
    "answers_of",
    "at_recall",
    "at_score",
    "auroc",
    "average_precision",
    "benchmark",
    "benchmark_in_runtimes",
    "benchmark_on_device",
    "benchmark_on_gpu",
    "calibration",
    "calibration_error",
    "call_json",
    "captured_answers",
    "centres",
    "counts",
    "covering",
    "crossfit_probabilities",
    "crossfit_scores",
    "curve",
    "delegate",
    "disturbance",
    "effort_named",
    "f1_of",
    "host",
    "installed_interpreter",
    "interpreter_of",
    "judge",
    "least_cpu_ms",
    "load",
    "match",
    "match_centres",
    "mean_of",
    "measure",
    "of_other_images",
    "predict",
    "predict_arrays",
    "predict_pixels",
    "profile",
    "promised",
    "reachable",
    "recalling",
    "redirected_errors",
    "reliability",
    "require_coco",
    "require_quiet",
    "rule",
    "save",
    "score",
    "scores",
    "seen_at",
    "serving",
    "session",
    "shares",
    "sums_of_units",
    "temperature",
    "tempered",
    "threshold",
    "timing",
    "true_boxes",
    "units_of",
    "with_interval",
]

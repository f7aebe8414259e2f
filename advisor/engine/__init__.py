"""A search from question to decision; comparison and re-evaluation of runs.

Read ``_question/`` first (what was asked), then ``_run.py`` (the search), ``_pipeline/`` (the
stages that make and measure a file), ``_scheduling/`` (what runs next), ``_decide.py`` and
``_history/`` (runs that are done). ``README.md`` lists all parts in the order of their imports.
"""

from typing import TYPE_CHECKING

from advisor._faces import open_face

if TYPE_CHECKING:
    from advisor.engine import _growth as growth
    from advisor.engine._compress.compress import compress, judge_float
    from advisor.engine._compress.question import prepare_compression
    from advisor.engine._compress.results import (
        Compression,
        FileAgreement,
        RecipeResult,
    )
    from advisor.engine._data_check import (
        DataCheck,
        Drawing,
        check_data,
    )
    from advisor.engine._diagnosis import diagnose
    from advisor.engine._execution import Executor, Machine
    from advisor.engine._history.chosen_devices import Devices
    from advisor.engine._history.compare import ChangedFigure, Comparison, Reevaluation
    from advisor.engine._history.contradictions import find_contradictions
    from advisor.engine._history.diagnoses import diagnose_run
    from advisor.engine._history.disagreements import Disagreements
    from advisor.engine._history.incumbents import Incumbent
    from advisor.engine._history.insights import Insights
    from advisor.engine._history.loaded_run import LoadedRun
    from advisor.engine._history.merged_images import (
        MergedImages,
        merge_images,
        write_merged,
    )
    from advisor.engine._history.origins import Child, read_origin
    from advisor.engine._history.posted_timings import record_timings
    from advisor.engine._history.reevaluate import Session
    from advisor.engine._history.run_inputs import resume_request
    from advisor.engine._history.tiles import TileComparison, judge_tiles
    from advisor.engine._history.unfinished import continue_command
    from advisor.engine._label_faults import LabelCheck, LabelChecker
    from advisor.engine._pipeline import cost
    from advisor.engine._pipeline.epoch_file import EpochFile
    from advisor.engine._pipeline.evaluation import accuracy, confidence
    from advisor.engine._pipeline.evaluation.accuracy import (
        AccuracyVerdict,
        Captured,
        share_of,
    )
    from advisor.engine._pipeline.evaluation.judge import HeldOut, Judge, Scored
    from advisor.engine._pipeline.graph import VariantStages
    from advisor.engine._pipeline.images import TUNED_IMAGES, Boxes, Images, Part, Role
    from advisor.engine._pipeline.materials import (
        FloatModel,
        Materials,
        Purpose,
        Workload,
        input_spec,
        list_versions,
    )
    from advisor.engine._pipeline.resources import Pool, Resources
    from advisor.engine._pipeline.stage import (
        Folders,
        Inputs,
        Job,
        Results,
        Scope,
        Source,
        Stage,
        StageName,
    )
    from advisor.engine._pipeline.stages.backbone import (
        cut_stage,
        feature_stages,
        identity,
        require_classes,
    )
    from advisor.engine._pipeline.stages.figures import capture_stage, over_images, score_stage
    from advisor.engine._pipeline.stages.finetuning import finetune_card
    from advisor.engine._pipeline.stages.head import join_trained_head
    from advisor.engine._pipeline.stages.unknown_score import KEPT_SHARE, compute_auroc
    from advisor.engine._preview import preview
    from advisor.engine._progress import Progress, make_display
    from advisor.engine._question import resolve
    from advisor.engine._question.demonstration import prepare_demonstration
    from advisor.engine._question.values import Execution, Question, Request
    from advisor.engine._remaining import Snapshot
    from advisor.engine._run import run_search
    from advisor.engine._space.candidates import with_files
    from advisor.engine._space.forecast import CardForecast, Forecast, PlanView
    from advisor.engine._space.question_images import Say
    from advisor.engine._space.twice_scaled import warn_of_input
    from advisor.engine._targets import card_front
    from advisor.engine._targets.device_prediction import DevicePredictor
    from advisor.engine._targets.device_rows import one_each
    from advisor.engine._targets.runtimes_here import list_foreign_runtimes, name_runtime
    from advisor.engine._targets.target_devices import TargetDevice
    from advisor.engine._task import SearchTask
else:
    __getattr__, __dir__ = open_face(__name__)

__all__ = [
    "KEPT_SHARE",
    "TUNED_IMAGES",
    "AccuracyVerdict",
    "Boxes",
    "Captured",
    "CardForecast",
    "ChangedFigure",
    "Child",
    "Comparison",
    "Compression",
    "DataCheck",
    "DevicePredictor",
    "Devices",
    "Disagreements",
    "Drawing",
    "EpochFile",
    "Execution",
    "Executor",
    "FileAgreement",
    "FloatModel",
    "Folders",
    "Forecast",
    "HeldOut",
    "Images",
    "Incumbent",
    "Inputs",
    "Insights",
    "Job",
    "Judge",
    "LabelCheck",
    "LabelChecker",
    "LoadedRun",
    "Machine",
    "Materials",
    "MergedImages",
    "Part",
    "PlanView",
    "Pool",
    "Progress",
    "Purpose",
    "Question",
    "RecipeResult",
    "Reevaluation",
    "Request",
    "Resources",
    "Results",
    "Role",
    "Say",
    "Scope",
    "Scored",
    "SearchTask",
    "Session",
    "Snapshot",
    "Source",
    "Stage",
    "StageName",
    "TargetDevice",
    "TileComparison",
    "VariantStages",
    "Workload",
    "accuracy",
    "capture_stage",
    "card_front",
    "check_data",
    "compress",
    "compute_auroc",
    "confidence",
    "continue_command",
    "cost",
    "cut_stage",
    "diagnose",
    "diagnose_run",
    "feature_stages",
    "find_contradictions",
    "finetune_card",
    "growth",
    "identity",
    "input_spec",
    "join_trained_head",
    "judge_float",
    "judge_tiles",
    "list_foreign_runtimes",
    "list_versions",
    "make_display",
    "merge_images",
    "name_runtime",
    "one_each",
    "over_images",
    "prepare_compression",
    "prepare_demonstration",
    "preview",
    "read_origin",
    "record_timings",
    "require_classes",
    "resolve",
    "resume_request",
    "run_search",
    "score_stage",
    "share_of",
    "warn_of_input",
    "with_files",
    "write_merged",
]

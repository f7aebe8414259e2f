"""Values and decisions: no input or output, no machine-learning library.

Read ``_configuration.py``, ``_quantity.py`` and ``_evaluation.py`` first (what is known of a
candidate), then ``_limits.py`` (the limits), ``_decision.py`` (the pick) and ``_options.py``
(every option of a search). README.md lists all modules. ``units`` is ``_units.py``, for options
that name its parsers.
"""

from typing import TYPE_CHECKING

from advisor._faces import open_face

if TYPE_CHECKING:
    from advisor.core import _units as units
    from advisor.core._archive_errors import UNREADABLE_ZIP
    from advisor.core._clock import COMMAND_BEGAN
    from advisor.core._codec import Written, parse, parse_known, to_json
    from advisor.core._confidence_facts import (
        Bin,
        ConfidenceFacts,
        CoverageThreshold,
        Guarantees,
        Mistake,
        Point,
        Reachable,
        RecallThreshold,
        Shares,
        ShippedThresholds,
        Threshold,
    )
    from advisor.core._configuration import HOST, Configuration, Target, Variant
    from advisor.core._costs import Costs
    from advisor.core._decision import Decision
    from advisor.core._diagnosis import Channels, DiagnosedLayer, Diagnosis, Outlier
    from advisor.core._errors import (
        AdvisorError,
        AmbiguousInput,
        ContentError,
        ExitCode,
        Problems,
        Reading,
        RuntimeRefusal,
        StageError,
        UnsupportedRecipe,
        UsageError,
        WeightsError,
        first_line,
        install_extra,
        last_line,
        message_of,
        nearest,
        require_extra,
        require_training,
    )
    from advisor.core._evaluation import (
        Evaluation,
        Status,
        facts_from_json,
    )
    from advisor.core._evaluation_facts import (
        Agreement,
        BoxFacts,
        BoxGuarantee,
        BoxScores,
        CaptureAccuracy,
        CardFacts,
        ClassBoxes,
        ConditionAccuracy,
        DeviceFigures,
        FileFacts,
        HeadFacts,
        HoldoutPart,
        ImageAnswers,
        JudgedBox,
        JudgedImage,
        LeftOut,
        NewConditions,
        Normalisation,
        ObjectsOfSize,
        OnAllImages,
        OtherThings,
        OverlaidImage,
        Overlays,
        RemoteFacts,
        TimeSummary,
        TimingFacts,
        TuningFacts,
        UnknownFacts,
    )
    from advisor.core._expectation import with_new_conditions
    from advisor.core._forms import FORMS, FileFeatures, Traits, form_of
    from advisor.core._function_options import (
        AddPhoneKeywords,
        BenchmarkKeywords,
        CalibrateKeywords,
        CheckDataKeywords,
        CompressKeywords,
        DeviceBenchmarkKeywords,
        ReevaluateKeywords,
    )
    from advisor.core._image_units import ImageUnits
    from advisor.core._integrations import list_registered, load_integration
    from advisor.core._keywords import takes_options
    from advisor.core._limit_options import LimitOptions
    from advisor.core._limits import ON, Limits
    from advisor.core._metric import Metric
    from advisor.core._metrics import LEAST_GROUP_IMAGES, METRICS
    from advisor.core._names import (
        EACH_NETWORK,
        EFFORTS,
        EXECUTORS,
        LOCAL,
        ROBUST,
        Sampler,
        ShipOn,
        StudyFile,
        require_known,
    )
    from advisor.core._option import (
        Option,
        OptionGroup,
        Place,
        Table,
        completed,
        options_of,
        parse_count,
        show_flag,
    )
    from advisor.core._option_tables import PLAN, SEARCH
    from advisor.core._options import PlanOptions, SearchOptions
    from advisor.core._posterior import FLOAT, Answers
    from advisor.core._preference import Preference
    from advisor.core._preferences import BALANCED
    from advisor.core._quantity import (
        CONFIDENCE,
        DEVIATIONS,
        Interval,
        LatencyDistribution,
        Provenance,
        Quantity,
        as_probabilities,
        show_latency,
        show_probability,
    )
    from advisor.core._relaxation import Relaxation, excess_texts
    from advisor.core._row_rules import broken_rule
    from advisor.core._secrets import without_password, without_passwords
    from advisor.core._task_facts import OwnCards, TaskFacts
    from advisor.core._tasks import DEFAULT_TASK, TASKS
    from advisor.core._timings import pool_timings
    from advisor.core._training import (
        Gain,
        list_choosable,
        recipe_of,
    )
    from advisor.core._training_recipe import TrainingName
    from advisor.core._units import (
        listed,
        plain,
        plural,
        show_bytes,
        show_figure,
        show_ms,
        show_seconds,
        utf8,
        visible,
    )
    from advisor.core._weights_file import WeightsFile
else:
    __getattr__, __dir__ = open_face(__name__)

__all__ = [
    "BALANCED",
    "COMMAND_BEGAN",
    "CONFIDENCE",
    "DEFAULT_TASK",
    "DEVIATIONS",
    "EACH_NETWORK",
    "EFFORTS",
    "EXECUTORS",
    "FLOAT",
    "FORMS",
    "HOST",
    "LEAST_GROUP_IMAGES",
    "LOCAL",
    "METRICS",
    "ON",
    "PLAN",
    "ROBUST",
    "SEARCH",
    "TASKS",
    "UNREADABLE_ZIP",
    "AddPhoneKeywords",
    "AdvisorError",
    "Agreement",
    "AmbiguousInput",
    "Answers",
    "BenchmarkKeywords",
    "Bin",
    "BoxFacts",
    "BoxGuarantee",
    "BoxScores",
    "CalibrateKeywords",
    "CaptureAccuracy",
    "CardFacts",
    "Channels",
    "CheckDataKeywords",
    "ClassBoxes",
    "CompressKeywords",
    "ConditionAccuracy",
    "ConfidenceFacts",
    "Configuration",
    "ContentError",
    "Costs",
    "CoverageThreshold",
    "Decision",
    "DeviceBenchmarkKeywords",
    "DeviceFigures",
    "DiagnosedLayer",
    "Diagnosis",
    "Evaluation",
    "ExitCode",
    "FileFacts",
    "FileFeatures",
    "Gain",
    "Guarantees",
    "HeadFacts",
    "HoldoutPart",
    "ImageAnswers",
    "ImageUnits",
    "Interval",
    "JudgedBox",
    "JudgedImage",
    "LatencyDistribution",
    "LeftOut",
    "LimitOptions",
    "Limits",
    "Metric",
    "Mistake",
    "NewConditions",
    "Normalisation",
    "ObjectsOfSize",
    "OnAllImages",
    "Option",
    "OptionGroup",
    "OtherThings",
    "Outlier",
    "OverlaidImage",
    "Overlays",
    "OwnCards",
    "Place",
    "PlanOptions",
    "Point",
    "Preference",
    "Problems",
    "Provenance",
    "Quantity",
    "Reachable",
    "Reading",
    "RecallThreshold",
    "ReevaluateKeywords",
    "Relaxation",
    "RemoteFacts",
    "RuntimeRefusal",
    "Sampler",
    "SearchOptions",
    "Shares",
    "ShipOn",
    "ShippedThresholds",
    "StageError",
    "Status",
    "StudyFile",
    "Table",
    "Target",
    "TaskFacts",
    "Threshold",
    "TimeSummary",
    "TimingFacts",
    "TrainingName",
    "Traits",
    "TuningFacts",
    "UnknownFacts",
    "UnsupportedRecipe",
    "UsageError",
    "Variant",
    "WeightsError",
    "WeightsFile",
    "Written",
    "as_probabilities",
    "broken_rule",
    "completed",
    "excess_texts",
    "facts_from_json",
    "first_line",
    "form_of",
    "install_extra",
    "last_line",
    "list_choosable",
    "list_registered",
    "listed",
    "load_integration",
    "message_of",
    "nearest",
    "options_of",
    "parse",
    "parse_count",
    "parse_known",
    "plain",
    "plural",
    "pool_timings",
    "recipe_of",
    "require_extra",
    "require_known",
    "require_training",
    "show_bytes",
    "show_figure",
    "show_flag",
    "show_latency",
    "show_ms",
    "show_probability",
    "show_seconds",
    "takes_options",
    "to_json",
    "units",
    "utf8",
    "visible",
    "with_new_conditions",
    "without_password",
    "without_passwords",
]

"""The options of a search: each is declared once, and commands, functions, request files and pages follow from it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType, NoneType
from typing import Annotated, Any, TypedDict, TypeVar, cast, get_args, get_type_hints

from advisor.core import _names as names, _units as units
from advisor.core._errors import UsageError
from advisor.core._metrics import METRICS, PREFERENCES, parse_preference
from advisor.core._tasks import DEFAULT_TASK, TASKS, needs
from advisor.core._training import choosable

QUESTION = "Question"
CANDIDATES = "Candidates"
TRAINING = "Training and compression"
DEVICES = "Devices"
RUNNING = "Running"
OUTPUT = "Output"
GROUPS = (QUESTION, CANDIDATES, TRAINING, DEVICES, RUNNING, OUTPUT)
"""Titles of the groups of options, in the order of the help."""

Text = str | None
Place = str | Path | None
Texts = str | Sequence[str] | None
Names = Sequence[str] | None
Places = Sequence[str | Path] | None
Counts = Sequence[int | str] | None
Number = int | None
Flag = bool | None
Numbers = Sequence[float] | None

BOUNDS: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        "input_size": (16, 2048),
        "max_trials": (0, 1_000_000),
        "models": (1, 50),
        "runs": (1, 10_000),
        "seed": (0, units.MOST_WHOLE),
        "threads": (1, 64),
        "tiers": (0, 3),
        "tune_training": (0, 100),
        "workers": (0, 1000),
    }
)
"""Least and largest value of each count, whether an option, a request file or a function gives it."""


@dataclass(frozen=True)
class Option:
    """One option of a search, without its name and type."""

    group: str  #: title of its group
    metavar: str  #: what stands for its value in the help; empty for a flag
    text: str  #: what it sets, with its unit
    default: Any = None  #: value if it is not given; None for the empty value of its type
    usual: str | None = None  #: what happens if it is not given, for the help; None for ``default``
    choices: tuple[str, ...] = ()  #: the names that it takes; other ones too if it is parsed
    #: what turns a text that is given, and the option's name on the command line, into a value.
    parse: Callable[[Any, str], Any] | None = None
    joined: bool = False  #: several values may be joined by commas
    first: bool = False  #: the short help shows it
    free: bool = False  #: a resumed run may change it, because it does not change what is asked
    kept: bool = True  #: a request file may give it

    @property
    def help(self) -> str:
        """The text with the default."""
        usual = str(self.default or "") if self.usual is None else self.usual
        return f"{self.text} Default: {usual}." if usual else self.text


_CACHE_SIZE = Option(
    RUNNING,
    "SIZE",
    "Limit of the cache, such as 5GB. The least recently used results go first.",
    usual="20GB, or a tenth of the disk",
    parse=units.size_bytes,
    free=True,
)
"""The limit of the cache, for every command that writes many results."""


def _path(text: Any, _: str) -> Path:
    return Path(text)


def _paths(texts: Any, _: str) -> tuple[Path, ...]:
    return tuple(map(Path, texts))


class _Task(TypedDict, total=False):
    task: Annotated[
        Text,
        Option(
            QUESTION,
            "TASK",
            f"Task; {needs()}.",
            DEFAULT_TASK,
            parse=lambda name, option: names.require_known(option, name, tuple(TASKS)),
            first=True,
        ),
    ]
    data: Annotated[
        Place,
        Option(
            QUESTION,
            "PATH",
            "Labelled images: a folder with one sub-folder for each class, a CSV or Parquet manifest, or "
            "a zip, tar, Parquet, Arrow or TFRecord file with images; also in an object store (s3://, gs://).",
            parse=_path,
            first=True,
        ),
    ]
    unknown: Annotated[
        Place,
        Option(
            QUESTION,
            "DIR",
            "Folder of images of things outside your classes, to see how the pick answers them.",
            parse=_path,
        ),
    ]


class LimitOptions(TypedDict, total=False):
    """The options that a finished run may be decided again with."""

    budget: Annotated[
        Text,
        Option(
            QUESTION,
            "TIME",
            "Latency limit that 9 of 10 runs meet, such as 50ms.",
            parse=units.milliseconds,
            first=True,
        ),
    ]
    size_budget: Annotated[
        Text, Option(QUESTION, "SIZE", "Limit of the file size, such as 5MB.", parse=units.size_bytes)
    ]
    memory_budget: Annotated[
        Text, Option(QUESTION, "SIZE", "Limit of the peak memory, such as 50MB.", parse=units.size_bytes)
    ]
    max_drop: Annotated[
        Text,
        Option(QUESTION, "POINTS", "Points of accuracy that compression may cost, such as 1pt.", parse=units.points),
    ]
    min_accuracy: Annotated[
        Texts,
        Option(
            QUESTION,
            "PERCENT",
            "Lowest accuracy, such as 85%, or lowest value of another metric: worst-group=70%. Join "
            "by commas, or repeat.",
        ),
    ]
    confidence: Annotated[
        Text,
        Option(
            QUESTION,
            "PERCENT",
            "Probability that a predicted latency meets the budget.",
            usual="90%",
            parse=names.confidence,
        ),
    ]
    prefer: Annotated[
        Text,
        Option(
            QUESTION,
            "NAME",
            "Preference: balanced, accuracy, latency, size, or weights: accuracy=2,latency=1.",
            usual="balanced",
            choices=tuple(PREFERENCES),
            parse=lambda text, _: parse_preference(text),
            first=True,
        ),
    ]
    licence: Annotated[
        Text, Option(QUESTION, "NAMES", "Accepted licences: permissive, SPDX identifiers, or both joined by commas.")
    ]
    must_run_on: Annotated[
        Names,
        Option(
            DEVICES,
            "NAMES",
            "Further devices on which the pick must meet the budget; repeat, or join by commas.",
            joined=True,
        ),
    ]
    fleet: Annotated[
        Text,
        Option(
            DEVICES,
            "FILE",
            "CSV of the phones that you ship to (device or soc, share), or phones-2026: which one to "
            "three files serve them. Needs --budget.",
            usual="no fleet",
        ),
    ]
    profiles: Annotated[
        Places, Option(DEVICES, "DIR", "Folder of your own device profiles; repeat for more.", parse=_paths)
    ]


class PlanOptions(_Task, LimitOptions, total=False):
    """The options of a plan, which are those of a search that does not continue a run."""

    min_precision: Annotated[
        Texts,
        Option(
            QUESTION,
            "SHARES",
            "Share of right answers among those that reach the threshold in the file, such as 95%; for "
            "the answers of one class: trash=90%. Of a detector: share of right boxes. Join by commas, or repeat.",
            usual="no threshold",
        ),
    ]
    min_recall: Annotated[
        Texts,
        Option(
            QUESTION,
            "SHARES",
            "Share of the images of a class whose probability of that class reaches a threshold: "
            "trash=90%, or 90% for every class. Of a detector: share of true boxes that are found. Join by commas, or "
            "repeat.",
            usual="no threshold",
        ),
    ]
    min_coverage: Annotated[
        Text,
        Option(
            QUESTION,
            "PERCENT",
            "Share of the images that reach the threshold in the file, such as 80%.",
            usual="no threshold",
        ),
    ]
    metric: Annotated[
        Text,
        Option(
            QUESTION,
            "NAME",
            "Metric used as accuracy: top1, balanced-accuracy, macro-f1, top5, log-loss, cost-saved or worst-group.",
            usual="top1",
            choices=tuple(METRICS),
        ),
    ]
    costs: Annotated[
        Place,
        Option(
            QUESTION,
            "FILE",
            "CSV with the cost of each answer (columns) to images of each class (rows). Without "
            "--metric, the metric is cost-saved.",
        ),
    ]
    objective: Annotated[
        Text,
        Option(
            QUESTION,
            "NAME",
            "Accuracy to compare: accuracy, or robust-accuracy (bad light, motion, ...).",
            names.OBJECTIVES[0],
            choices=names.OBJECTIVES,
        ),
    ]
    request: Annotated[
        Place,
        Option(
            QUESTION,
            "FILE",
            "YAML file with the same keys as these options. The command line takes precedence.",
            kept=False,
        ),
    ]
    candidates: Annotated[
        Names,
        Option(
            CANDIDATES,
            "NAMES",
            "Models: names, families or globs ('mobilenet_v2_*'), or the path of a .tflite that you "
            "ship; repeat, or join by commas.",
            usual="best 12 with weights, 4 of other tasks",
            joined=True,
            first=True,
        ),
    ]
    catalog: Annotated[
        Places, Option(CANDIDATES, "FILE", "Catalogue file of your own (YAML); repeat for more.", parse=_paths)
    ]
    mirror: Annotated[
        Place, Option(CANDIDATES, "PLACE", "Folder or address of weights that is asked first.", free=True)
    ]
    training: Annotated[
        Names,
        Option(
            TRAINING,
            "NAMES",
            f"Training recipes: {', '.join(choosable()[1:])}; repeat, or join by commas. "
            "Default with --data: head, then finetune_cached (boxes, masks: finetune_all) where that is worth it.",
            choices=choosable(),
            joined=True,
            first=True,
        ),
    ]
    tune_training: Annotated[
        Number, Option(TRAINING, "N", "Run N Optuna trials of fine-tuning for each model and keep the best.", usual="0")
    ]
    ship_on: Annotated[
        Text,
        Option(
            TRAINING,
            "NAME",
            "Images that the pick's file learns from: all-but-holdout, or all. The accuracy is that of "
            "the file that did not learn from the hold-out.",
            names.ALL_BUT_HOLDOUT,
            choices=names.SHIP_ON,
            free=True,
        ),
    ]
    compressions: Annotated[
        Names,
        Option(
            TRAINING,
            "NAMES",
            "Compression recipes: float32, int8, ...; repeat, or join by commas.",
            usual="five recipes without retraining",
            joined=True,
        ),
    ]
    device: Annotated[
        Text,
        Option(
            DEVICES,
            "NAMES",
            "Devices that run the model, joined by commas: host, raspberry-pi-4, device:target, Pixel 8.",
            "host",
            first=True,
        ),
    ]
    threads: Annotated[
        Counts,
        Option(
            DEVICES,
            "COUNTS",
            "CPU threads to measure: a number or 'all'; repeat, or join by commas.",
            usual="1,all",
            joined=True,
        ),
    ]
    sampler: Annotated[
        Text,
        Option(
            RUNNING,
            "NAME",
            "Order of the search: advisor, tpe, nsga2, gp or random.",
            names.ADVISOR,
            choices=names.SAMPLERS,
            free=True,
        ),
    ]
    seed: Annotated[Number, Option(RUNNING, "N", "Seed of the split, of training and of the sampler.", usual="0")]
    time_limit: Annotated[
        Text,
        Option(
            RUNNING,
            "TIME",
            "Stop after this time with the best result so far, such as 10min.",
            usual="no limit",
            parse=units.seconds,
            first=True,
            free=True,
        ),
    ]
    effort: Annotated[
        Text,
        Option(
            RUNNING,
            "NAME",
            f"Time limit by name: {names.SHOWN_EFFORTS}. --time-limit comes before it.",
            usual="no limit",
            choices=tuple(names.EFFORTS),
            first=True,
            free=True,
        ),
    ]
    max_trials: Annotated[Number, Option(RUNNING, "N", "Stop after N configurations.", usual="no limit", free=True)]
    stop_below: Annotated[
        Text,
        Option(
            RUNNING,
            "POINTS",
            "Stop when a CPU hour more is expected to improve the answer by less than so many points of "
            "accuracy, or what --prefer counts like them: 0.5%, or never.",
            usual="2% unless recipes are named",
            parse=names.stop_share,
            free=True,
        ),
    ]
    capture: Annotated[
        Text,
        Option(
            RUNNING,
            "NAME",
            "Finalists that run under capture conditions: first (pick and runner-up) or all.",
            names.FIRST,
            choices=names.CAPTURES,
            free=True,
        ),
    ]
    executor: Annotated[
        Text,
        Option(
            RUNNING,
            "PLACE",
            "Executor of the work: local, ray, ray://host:10001 (a Ray cluster), slurm or "
            "slurm://settings.yaml (a batch system).",
            names.LOCAL,
            parse=names.executor_of,
            free=True,
        ),
    ]
    workers: Annotated[
        Number, Option(RUNNING, "N", "Largest number of jobs at the same time.", usual="one per core", free=True)
    ]
    shared_folder: Annotated[
        Place,
        Option(
            RUNNING,
            "DIR",
            "Folder that all machines of a cluster see under the same name.",
            usual="files are sent",
            parse=_path,
            free=True,
        ),
    ]
    storage: Annotated[
        Text,
        Option(
            RUNNING,
            "PLACE",
            "Storage of the Optuna study: journal, sqlite, or postgresql://user@host/database.",
            names.JOURNAL,
            parse=names.check_storage,
            free=True,
        ),
    ]
    remeasure: Annotated[
        Flag, Option(RUNNING, "", "Time models again that were timed on this machine before.", free=True)
    ]
    offline: Annotated[Flag, Option(RUNNING, "", "Open no connection.", free=True)]
    cache_size: Annotated[Text, _CACHE_SIZE]
    out: Annotated[
        Place, Option(OUTPUT, "DIR", "Folder that takes the run.", "runs", parse=_path, first=True, free=True)
    ]


class SearchOptions(PlanOptions, total=False):
    """The options of a search."""

    resume: Annotated[
        Place, Option(RUNNING, "RUN", "Continue a run that was stopped, such as runs/latest.", kept=False, first=True)
    ]
    extend: Annotated[
        Text, Option(RUNNING, "TIME", "With --resume: continue for this time, such as 30min.", kept=False)
    ]


class CompressKeywords(TypedDict, total=False):
    """The options of :func:`advisor.compress`."""

    calibration: Annotated[
        Place,
        Option(
            QUESTION,
            "DIR",
            "Folder of calibration images, labelled or not. Default: those of --data, else bundled photographs.",
        ),
    ]
    data: Annotated[
        Place, Option(QUESTION, "PATH", "Images in class folders, or for a detector with boxes; measures accuracy.")
    ]
    samples: Annotated[
        Place,
        Option(
            QUESTION,
            "FILE",
            "An .npz file with samples of each input, for a model of other inputs or outputs. Forms are "
            "compared with the float file by their outputs.",
        ),
    ]
    max_drop_points: Annotated[
        float | None,
        Option(QUESTION, "POINTS", "Percentage points of accuracy that a file may lose against float (needs --data)."),
    ]
    to: Annotated[Place, Option(OUTPUT, "DIR", "Folder for the files. Default: MODEL-forms.")]
    mean: Annotated[
        Numbers,
        Option(
            QUESTION,
            "NUMBERS",
            "Value subtracted from RGB 0 to 255, one number or three. Default: the value in the file.",
        ),
    ]
    std: Annotated[
        Numbers, Option(QUESTION, "NUMBERS", "Value that the difference is divided by. Default: the value in the file.")
    ]
    seed: Annotated[int, Option(RUNNING, "N", "Seed of all random draws.", 0, usual="0")]
    accelerator: Annotated[
        str,
        Option(
            DEVICES,
            "NAME",
            "Accelerator whose operators are counted: xnnpack (the CPU), edgetpu, nnapi, ...",
            "xnnpack",
        ),
    ]
    learn_s: Annotated[
        float, Option(RUNNING, "SECONDS", "Time limit of a recipe that trains; the best result so far is used.", 600.0)
    ]
    cache_size: Annotated[Text, _CACHE_SIZE]
    requantize: Annotated[
        bool,
        Option(
            QUESTION,
            "",
            "Start from a quantized file: its weights become floats, with the errors that they have.",
            False,
        ),
    ]
    force: Annotated[bool, Option(OUTPUT, "", "Replace files that exist.", False)]


class BenchmarkKeywords(TypedDict, total=False):
    """The options of :func:`advisor.benchmark`."""

    threads: Annotated[
        Sequence[int | str],
        Option(
            DEVICES,
            "COUNTS",
            "CPU threads: a number or 'all'; repeat, or join by commas. Memory and loading are measured "
            "with the first.",
            (1,),
            usual="1",
            joined=True,
        ),
    ]
    effort: Annotated[
        str,
        Option(
            RUNNING, "NAME", "Time for each file and thread count: quick (6 s), normal (10 s) or full (60 s).", "quick"
        ),
    ]
    shape: Annotated[
        Sequence[int] | None, Option(QUESTION, "SHAPE", "Shape of the first input, if the file leaves it open.")
    ]
    kernels: Annotated[
        str, Option(DEVICES, "NAME", "Kernels: default (XNNPACK where it applies) or builtin.", "default")
    ]
    runtime: Annotated[
        Text, Option(DEVICES, "PACKAGE", "Another runtime, in a separate environment: tflite-runtime==2.14.0.")
    ]
    cpus: Annotated[Sequence[int] | None, Option(DEVICES, "NUMBERS", "Processors that run the threads. Default: all.")]
    contended: Annotated[bool, Option(RUNNING, "", "Also measure with a load on the other processors.", False)]
    sustained_s: Annotated[
        float | None, Option(RUNNING, "SECONDS", "Also run for this time without a rest, to see it slow down.")
    ]
    pipeline: Annotated[
        bool,
        Option(
            RUNNING, "", "Also time the way from an image to an answer, if the file takes one image.", True, usual=""
        ),
    ]
    image: Annotated[Place, Option(QUESTION, "FILE", "Image for end-to-end timing. Default: a bundled photograph.")]
    force: Annotated[bool, Option(RUNNING, "", "Measure on a busy machine, too; the verdict says so.", False)]


class DeviceBenchmarkKeywords(TypedDict, total=False):
    """The options of :func:`advisor.benchmark_device`."""

    device: Annotated[
        str,
        Option(
            DEVICES,
            "NAME",
            "Device profile, or name:target; host:litert,host:onnxruntime compares runtimes of this "
            "machine. Measured over its connection, else predicted. Default: this machine.",
            "",
        ),
    ]
    accelerator: Annotated[
        str, Option(DEVICES, "NAME", "Processor: cpu or gpu; with --device also npu and tpu. Default: cpu.", "")
    ]
    ssh: Annotated[
        str, Option(DEVICES, "HOST", "Connect over ssh: host, user@host or a name of your ssh configuration.", "")
    ]
    adb: Annotated[str, Option(DEVICES, "SERIAL", "Connect over adb to the phone with this serial.", "")]
    python: Annotated[
        str, Option(DEVICES, "PATH", "Python interpreter of the device that has a TFLite runtime (--ssh).", "python3")
    ]
    benchmark_model: Annotated[
        Place, Option(DEVICES, "PATH", "TensorFlow Lite's benchmark_model for the phone's processor (--adb).")
    ]
    cores: Annotated[
        str, Option(DEVICES, "MASK", "Hexadecimal mask of the cores that run the models, such as f0 (--adb).", "")
    ]
    threads: Annotated[
        Sequence[int | str],
        Option(DEVICES, "COUNTS", "CPU threads: numbers, or 'all'. Default: the thread count of the target.", ()),
    ]
    effort: Annotated[str, Option(RUNNING, "NAME", "Time for each file: quick, normal or full.", "quick")]
    profiles: Annotated[
        Sequence[str | Path], Option(DEVICES, "DIR", "Folder of your own device profiles; repeat for more.", ())
    ]


class CheckDataKeywords(TypedDict, total=False):
    """The options of :func:`advisor.check_data`."""

    task: Annotated[str, Option(QUESTION, "TASK", f"Task; {needs()}.", DEFAULT_TASK)]
    fix: Annotated[Place, Option(OUTPUT, "FILE", "Manifest (CSV) to write without the suspects.")]
    card: Annotated[
        str,
        Option(
            CANDIDATES, "NAME", "Model card whose features judge the labels. Default: the best on this machine.", ""
        ),
    ]
    cache_size: Annotated[Text, _CACHE_SIZE]
    labels: Annotated[bool, Option(QUESTION, "", "Look for wrong labels and crops with a network.", True, usual="")]
    mirror: Annotated[str, Option(CANDIDATES, "PLACE", "Folder or address of weights that is asked first.", "")]
    offline: Annotated[bool, Option(RUNNING, "", "Open no connection.", False)]
    catalog: Annotated[
        Sequence[str | Path], Option(CANDIDATES, "FILE", "Catalogue file of your own (YAML); repeat for more.", ())
    ]


Table = Mapping[str, Option]

Keywords = TypeVar("Keywords")


def table_of(declared: type) -> Table:
    """Return each option of a typed dictionary by its name, with the default that its type has if it states none."""
    hints = get_type_hints(declared, include_extras=True)
    return MappingProxyType({name: _with_default(*get_args(hint)) for name, hint in hints.items()})


def _with_default(kind: Any, option: Option) -> Option:
    if option.default is not None:
        return option
    kinds = {member for member in get_args(kind) if member is not NoneType}
    empty = 0 if kinds == {int} else False if kinds == {bool} else "" if kinds <= {str, Path} else ()
    return replace(option, default=empty)


def options_of(declared: type, *without: str) -> Table:
    """Return the options of a typed dictionary for a command, but those that it declares itself."""
    return {name: option for name, option in table_of(declared).items() if name not in without}


def defaults_of(declared: type) -> Mapping[str, Any]:
    """Return the default of each key of a typed dictionary, as it is stated."""
    hints = get_type_hints(declared, include_extras=True)
    return {name: get_args(hint)[1].default for name, hint in hints.items()}


def completed(declared: type[Keywords], given: Mapping[str, Any]) -> Keywords:
    """Return a typed dictionary with the stated default of each key that is not given."""
    return cast("Keywords", {**defaults_of(declared), **given})


def bounded(name: str, value: object, shown: str = "") -> int:
    """Return a count within its :data:`BOUNDS`; UsageError for another value, which ``shown`` can name otherwise."""
    least, most = BOUNDS[name]
    number = units.whole_number(str(value), most)
    if number is None or number < least:
        raise UsageError(
            f"{shown or flag(name)}: '{value}' is not a whole number from {least} to {most}",
            f"write for example {flag(name)} {max(least, 1)}",
        )
    return number


def flag(name: str) -> str:
    """Return an option as the command line writes it."""
    return f"--{name.replace('_', '-')}"


LIMITS = table_of(LimitOptions)
PLAN: Table = table_of(PlanOptions)
SEARCH = table_of(SearchOptions)

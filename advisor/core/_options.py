"""The options of a search: each is declared once, and commands, functions, request files
and pages follow from it.

The name of an entry is the option of the command line (``--size-budget``), the key of a request
file and the keyword of the public function, so users have it. A new option is one entry here
(``docs/extend.md``, "An option"); ``engine/_question`` reads its value. The limits by which a
finished run is decided again are in ``_limit_options.py``, the options of other functions in
``_function_options.py``.
"""

from typing import Annotated, TypedDict

from advisor.core import _names as names, _units as units
from advisor.core._limit_options import LimitOptions
from advisor.core._metrics import METRICS
from advisor.core._option import (
    Counts,
    Flag,
    Names,
    Number,
    Option,
    OptionGroup,
    Place,
    Places,
    Text,
    Texts,
    parse_path,
    parse_paths,
)
from advisor.core._tasks import DEFAULT_TASK, TASKS, images_needed
from advisor.core._training import list_choosable

CACHE_SIZE = Option(
    OptionGroup.RUNNING,
    "SIZE",
    "Limit of the cache, such as 5GB. The least recently used results go first.",
    usual="20GB, or a tenth of the disk",
    parse=units.size_bytes,
    free=True,
)
"""The limit of the cache, for every command that writes many results."""


class _TaskAndImages(TypedDict, total=False):
    task: Annotated[
        Text,
        Option(
            OptionGroup.QUESTION,
            "TASK",
            f"Task; {images_needed()}.",
            DEFAULT_TASK,
            parse=lambda name, option: names.require_known(option, name, tuple(TASKS)),
            first=True,
        ),
    ]
    data: Annotated[
        Place,
        Option(
            OptionGroup.QUESTION,
            "PATH",
            "Labelled images: a folder with one sub-folder for each class, a CSV or Parquet"
            " manifest, or a zip, tar, Parquet, Arrow or TFRecord file with images; also in an"
            " object store (s3://, gs://).",
            parse=parse_path,
            first=True,
        ),
    ]
    unknown: Annotated[
        Place,
        Option(
            OptionGroup.QUESTION,
            "DIR",
            "Folder of images of things outside your classes, to see how the pick answers them.",
            parse=parse_path,
        ),
    ]


class UploadOptions(TypedDict, total=False):
    """The leave to send files to a device cloud; no request file and no profile can give it."""

    upload: Annotated[
        Flag,
        Option(
            OptionGroup.DEVICES,
            "",
            "Send model files to the device cloud that --device names (aihub:NAME).",
            free=True,
        ),
    ]
    upload_images: Annotated[
        Place,
        Option(
            OptionGroup.DEVICES,
            "DIR",
            "Also send up to 100 images of this folder, to compare the device's answers with this"
            " machine's.",
            free=True,
        ),
    ]
    cloud_limit: Annotated[
        Text,
        Option(
            OptionGroup.DEVICES,
            "TIME",
            "Time that a device cloud may take for a file, its queue included; then the prediction"
            " stays.",
            "30min",
            free=True,
        ),
    ]


class PlanOptions(_TaskAndImages, LimitOptions, UploadOptions, total=False):
    """The options of a plan, which are those of a search that does not continue a run."""

    min_precision: Annotated[
        Texts,
        Option(
            OptionGroup.QUESTION,
            "SHARES",
            "Share of right answers among those that reach the threshold in the file, such as 95%;"
            " for the answers of one class: trash=90%. Of a detector: share of right boxes. Join"
            " by commas, or repeat.",
            usual="no threshold",
        ),
    ]
    min_recall: Annotated[
        Texts,
        Option(
            OptionGroup.QUESTION,
            "SHARES",
            "Share of the images of a class whose probability of that class reaches a threshold:"
            " trash=90%, or 90% for every class. Of a detector: share of true boxes that are"
            " found. Join by commas, or repeat.",
            usual="no threshold",
        ),
    ]
    min_coverage: Annotated[
        Text,
        Option(
            OptionGroup.QUESTION,
            "PERCENT",
            "Share of the images that reach the threshold in the file, such as 80%.",
            usual="no threshold",
        ),
    ]
    metric: Annotated[
        Text,
        Option(
            OptionGroup.QUESTION,
            "NAME",
            "Metric used as accuracy: top1, balanced-accuracy, macro-f1, top5, log-loss,"
            " cost-saved or worst-group; for object-detection map, map-small, map-medium or"
            " map-large.",
            usual="top1; for boxes mAP@0.5",
            choices=tuple(METRICS),
        ),
    ]
    input_size: Annotated[
        Number,
        Option(
            OptionGroup.QUESTION,
            "PIXELS",
            "Side of the networks' input, a multiple of 32: a larger one finds smaller objects and"
            " takes longer. For tasks other than image-classification.",
            usual="that of the task",
        ),
    ]
    costs: Annotated[
        Place,
        Option(
            OptionGroup.QUESTION,
            "FILE",
            "CSV with the cost of each answer (columns) to images of each class (rows). Without "
            "--metric, the metric is cost-saved.",
        ),
    ]
    objective: Annotated[
        Text,
        Option(
            OptionGroup.QUESTION,
            "NAME",
            "Accuracy to compare: accuracy, or robust-accuracy (bad light, motion, ...).",
            names.OBJECTIVES[0],
            choices=names.OBJECTIVES,
        ),
    ]
    request: Annotated[
        Place,
        Option(
            OptionGroup.QUESTION,
            "FILE",
            "YAML file with the same keys as these options. The command line takes precedence.",
            kept=False,
        ),
    ]
    candidates: Annotated[
        Names,
        Option(
            OptionGroup.CANDIDATES,
            "NAMES",
            "Models: names, families or globs ('mobilenet_v2_*'), or the path of a .tflite that"
            " you ship; repeat, or join by commas.",
            usual="best 12 with weights, 4 of other tasks",
            joined=True,
            first=True,
        ),
    ]
    catalog: Annotated[
        Places,
        Option(
            OptionGroup.CANDIDATES,
            "FILE",
            "Catalogue file of your own (YAML); repeat for more.",
            parse=parse_paths,
        ),
    ]
    mirror: Annotated[
        Place,
        Option(
            OptionGroup.CANDIDATES,
            "PLACE",
            "Folder or address of weights that is asked first.",
            free=True,
        ),
    ]
    training: Annotated[
        Names,
        Option(
            OptionGroup.TRAINING,
            "NAMES",
            f"Training recipes: {', '.join(list_choosable()[1:])}; repeat, or join by commas."
            " Default with --data: head, then finetune_cached (boxes, masks: finetune_all) where"
            " that is worth it.",
            choices=list_choosable(),
            joined=True,
            first=True,
        ),
    ]
    start: Annotated[
        Place,
        Option(
            OptionGroup.TRAINING,
            "RUN",
            "Earlier run whose heads the heads of the same networks start from; for"
            " object-detection.",
            parse=parse_path,
        ),
    ]
    tune_training: Annotated[
        Number,
        Option(
            OptionGroup.TRAINING,
            "N",
            "Run N Optuna trials of fine-tuning for each model and keep the best.",
            usual="0",
        ),
    ]
    ship_on: Annotated[
        Text,
        Option(
            OptionGroup.TRAINING,
            "NAME",
            "Images that the pick's file learns from: all-but-holdout, or all. The accuracy is"
            " that of the file that did not learn from the hold-out.",
            names.ShipOn.ALL_BUT_HOLDOUT.value,
            choices=tuple(map(str, names.ShipOn)),
            free=True,
        ),
    ]
    compressions: Annotated[
        Names,
        Option(
            OptionGroup.TRAINING,
            "NAMES",
            "Compression recipes: float32, int8, ...; repeat, or join by commas.",
            usual="five recipes without retraining",
            joined=True,
        ),
    ]
    device: Annotated[
        Text,
        Option(
            OptionGroup.DEVICES,
            "NAMES",
            "Devices that run the model: host, raspberry-pi-4, device:target, Pixel 8; repeat, or"
            " join by commas.",
            "host",
            joined=True,
            first=True,
        ),
    ]
    threads: Annotated[
        Counts,
        Option(
            OptionGroup.DEVICES,
            "COUNTS",
            "CPU threads to measure: a number or 'all'; repeat, or join by commas.",
            usual="1,all",
            joined=True,
        ),
    ]
    sampler: Annotated[
        Text,
        Option(
            OptionGroup.RUNNING,
            "NAME",
            "Order of the search: advisor, tpe, nsga2, gp or random.",
            names.Sampler.ADVISOR.value,
            choices=tuple(map(str, names.Sampler)),
            free=True,
        ),
    ]
    seed: Annotated[
        Number,
        Option(
            OptionGroup.RUNNING,
            "N",
            "Seed of the split, of training and of the sampler.",
            usual="0",
        ),
    ]
    time_limit: Annotated[
        Text,
        Option(
            OptionGroup.RUNNING,
            "TIME",
            "Stop after this time with the best result so far, such as 10min.",
            usual="no limit",
            parse=units.parse_seconds,
            first=True,
            free=True,
        ),
    ]
    effort: Annotated[
        Text,
        Option(
            OptionGroup.RUNNING,
            "NAME",
            f"Time limit by name: {names.SHOWN_EFFORTS}. --time-limit comes before it.",
            usual="no limit",
            choices=tuple(names.EFFORTS),
            first=True,
            free=True,
        ),
    ]
    max_trials: Annotated[
        Number,
        Option(
            OptionGroup.RUNNING, "N", "Stop after N configurations.", usual="no limit", free=True
        ),
    ]
    stop_below: Annotated[
        Text,
        Option(
            OptionGroup.RUNNING,
            "POINTS",
            "Stop when a CPU hour more is expected to improve the answer by less than so many"
            " points of accuracy, or what --prefer counts like them: 0.5%, or never.",
            usual="2%; never if recipes, another sampler or phones of a fleet are named",
            parse=names.parse_stop_share,
            free=True,
        ),
    ]
    capture: Annotated[
        Text,
        Option(
            OptionGroup.RUNNING,
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
            OptionGroup.RUNNING,
            "PLACE",
            "Executor of the work: local, ray, ray://host:10001 (a Ray cluster), slurm or "
            "slurm://settings.yaml (a batch system).",
            names.LOCAL,
            parse=names.parse_executor,
            free=True,
        ),
    ]
    workers: Annotated[
        Number,
        Option(
            OptionGroup.RUNNING,
            "N",
            "Largest number of jobs at the same time.",
            usual="one per core",
            free=True,
        ),
    ]
    shared_folder: Annotated[
        Place,
        Option(
            OptionGroup.RUNNING,
            "DIR",
            "Folder that all machines of a cluster see under the same name.",
            usual="files are sent",
            parse=parse_path,
            free=True,
        ),
    ]
    storage: Annotated[
        Text,
        Option(
            OptionGroup.RUNNING,
            "PLACE",
            "Storage of the Optuna study: journal, sqlite, or postgresql://user@host/database.",
            names.StudyFile.JOURNAL.value,
            parse=names.parse_storage,
            free=True,
        ),
    ]
    remeasure: Annotated[
        Flag,
        Option(
            OptionGroup.RUNNING,
            "",
            "Time models again that were timed on this machine before.",
            free=True,
        ),
    ]
    offline: Annotated[Flag, Option(OptionGroup.RUNNING, "", "Open no connection.", free=True)]
    cache_size: Annotated[Text, CACHE_SIZE]
    out: Annotated[
        Place,
        Option(
            OptionGroup.OUTPUT,
            "DIR",
            "Folder that takes the run.",
            "runs",
            parse=parse_path,
            first=True,
            free=True,
        ),
    ]


class SearchOptions(PlanOptions, total=False):
    """The options of a search."""

    resume: Annotated[
        Place,
        Option(
            OptionGroup.RUNNING,
            "RUN",
            "Continue a run that was stopped, such as runs/latest.",
            kept=False,
            first=True,
        ),
    ]
    extend: Annotated[
        Text,
        Option(
            OptionGroup.RUNNING,
            "TIME",
            "With --resume: continue for this time, such as 30min.",
            kept=False,
        ),
    ]

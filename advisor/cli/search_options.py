"""The options of ``advisor search`` and ``advisor plan``; the limits among them are in ``limits``."""

from __future__ import annotations

from typing import Annotated

import typer

from advisor.cli.panels import CANDIDATES, DEVICES, OUTPUT, QUESTION, RUNNING, TRAINING

Task = Annotated[
    str | None,
    typer.Option(metavar="TASK", help="Task of the model. Default: image-classification.", rich_help_panel=QUESTION),
]
Data = Annotated[
    str | None,
    typer.Option(
        metavar="PATH",
        help="Labelled images: a folder with one sub-folder for each class, or a CSV or Parquet manifest.",
        rich_help_panel=QUESTION,
    ),
]
Prefer = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Preference: balanced, accuracy, latency, size, or weights: accuracy=2,latency=1. Default: balanced.",
        rich_help_panel=QUESTION,
    ),
]
Confidence = Annotated[
    str | None,
    typer.Option(
        metavar="PERCENT",
        help="Probability that a predicted latency meets the budget. Default: 90%.",
        rich_help_panel=QUESTION,
    ),
]
Objective = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Accuracy to compare: accuracy, or robust-accuracy (bad light, motion, ...). Default: accuracy.",
        rich_help_panel=QUESTION,
    ),
]
RequestFile = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="YAML file with the same keys as these options. The command line takes precedence.",
        rich_help_panel=QUESTION,
    ),
]
Candidates = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAMES",
        help="Models: names, families or globs ('mobilenet_v2_*'); repeat, or join by commas. Default: the 12 most "
        "promising models with weights.",
        rich_help_panel=CANDIDATES,
    ),
]
Catalog = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILE", help="Catalogue file of your own (YAML); repeat for more.", rich_help_panel=CANDIDATES
    ),
]
Mirror = Annotated[
    str | None,
    typer.Option(metavar="PLACE", help="Folder or address of weights that is asked first.", rich_help_panel=CANDIDATES),
]
Training = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAMES",
        help="Training recipes: head, finetune_top, finetune_all; repeat, or join by commas. Default: head with "
        "--data, none without.",
        rich_help_panel=TRAINING,
    ),
]
TuneTraining = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Run N Optuna trials of fine-tuning for each model and keep the best. Default: 0.",
        rich_help_panel=TRAINING,
    ),
]
Compressions = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAMES",
        help="Compression recipes: float32, int8, ...; repeat, or join by commas. Default: five recipes without "
        "retraining.",
        rich_help_panel=TRAINING,
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="Devices that run the model: host, or device profiles joined by commas (device:target). Default: host.",
        rich_help_panel=DEVICES,
    ),
]
Threads = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COUNTS",
        help="CPU threads to measure: a number or 'all'; repeat, or join by commas. Default: 1,all.",
        rich_help_panel=DEVICES,
    ),
]
Sampler = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Order of the search: advisor, tpe, nsga2, gp or random. Default: advisor.",
        rich_help_panel=RUNNING,
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="Seed of the split, of training and of the sampler. Default: 0.", rich_help_panel=RUNNING
    ),
]
TimeLimit = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Stop after this time with the best result so far, such as 10min. Default: no limit.",
        rich_help_panel=RUNNING,
    ),
]
MaxTrials = Annotated[
    int | None,
    typer.Option(metavar="N", help="Stop after N configurations. Default: no limit.", rich_help_panel=RUNNING),
]
StopBelow = Annotated[
    str | None,
    typer.Option(
        metavar="SHARE",
        help="Stop when one more hour is expected to add less than this share of the front: 0.5%, or never. "
        "Default: 0.5% from 100 configurations on.",
        rich_help_panel=RUNNING,
    ),
]
Executor = Annotated[
    str | None,
    typer.Option(
        metavar="PLACE",
        help="Executor of the work: local, ray, or ray://host:10001 (a Ray cluster). Default: local.",
        rich_help_panel=RUNNING,
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        metavar="N", help="Largest number of jobs at the same time. Default: one per core.", rich_help_panel=RUNNING
    ),
]
SharedFolder = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        help="Folder that all nodes of a Ray cluster see under the same name. Default: files are sent.",
        rich_help_panel=RUNNING,
    ),
]
Storage = Annotated[
    str | None,
    typer.Option(
        metavar="PLACE",
        help="Storage of the Optuna study: journal, sqlite, or postgresql://user@host/database. Default: journal.",
        rich_help_panel=RUNNING,
    ),
]
Remeasure = Annotated[
    bool | None,
    typer.Option(
        "--remeasure", help="Time models again that were timed on this machine before.", rich_help_panel=RUNNING
    ),
]
Offline = Annotated[bool | None, typer.Option("--offline", help="Open no connection.", rich_help_panel=RUNNING)]
Resume = Annotated[
    str | None,
    typer.Option(metavar="RUN", help="Continue a run that was stopped, such as runs/latest.", rich_help_panel=RUNNING),
]
Extend = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="With --resume: continue for this time, such as 30min.", rich_help_panel=RUNNING),
]
Out = Annotated[
    str | None, typer.Option(metavar="DIR", help="Folder that takes the run. Default: runs.", rich_help_panel=OUTPUT)
]

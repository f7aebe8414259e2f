"""The options of the functions beside a search, declared once for commands and for Python.

Each dictionary belongs to the public function that its docstring names: the function takes its
options by :func:`.takes_options`, and the command of the same name declares them by
``annotations_of``. The keys are keywords of public functions.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TypedDict

from advisor.core._option import (
    Numbers,
    Option,
    OptionGroup,
    Place,
    Text,
)
from advisor.core._options import CACHE_SIZE, UploadOptions
from advisor.core._tasks import DEFAULT_TASK, images_needed


class CompressKeywords(TypedDict, total=False):
    """The options of :func:`advisor.compress`."""

    calibration: Annotated[
        Place,
        Option(
            OptionGroup.QUESTION,
            "DIR",
            "Folder of calibration images, labelled or not. Default: those of --data, else bundled"
            " photographs.",
        ),
    ]
    data: Annotated[
        Place,
        Option(
            OptionGroup.QUESTION,
            "PATH",
            "Images in class folders, or for a detector with boxes; measures accuracy.",
        ),
    ]
    samples: Annotated[
        Place,
        Option(
            OptionGroup.QUESTION,
            "FILE",
            "An .npz file with samples of each input, for a model of other inputs or outputs."
            " Forms are compared with the float file by their outputs.",
        ),
    ]
    max_drop_points: Annotated[
        float | None,
        Option(
            OptionGroup.QUESTION,
            "POINTS",
            "Percentage points of accuracy that a file may lose against float (needs --data).",
        ),
    ]
    to: Annotated[
        Place, Option(OptionGroup.OUTPUT, "DIR", "Folder for the files. Default: MODEL-forms.")
    ]
    mean: Annotated[
        Numbers,
        Option(
            OptionGroup.QUESTION,
            "NUMBERS",
            "Value subtracted from RGB 0 to 255, one number or three. Default: the value in the"
            " file.",
        ),
    ]
    std: Annotated[
        Numbers,
        Option(
            OptionGroup.QUESTION,
            "NUMBERS",
            "Value that the difference is divided by. Default: the value in the file.",
        ),
    ]
    seed: Annotated[
        int, Option(OptionGroup.RUNNING, "N", "Seed of all random draws.", 0, usual="0")
    ]
    accelerator: Annotated[
        str,
        Option(
            OptionGroup.DEVICES,
            "NAME",
            "Accelerator whose operators are counted: xnnpack (the CPU), edgetpu, nnapi, ...",
            "xnnpack",
        ),
    ]
    learn_s: Annotated[
        float,
        Option(
            OptionGroup.RUNNING,
            "SECONDS",
            "Time limit of a recipe that trains; the best result so far is used.",
            600.0,
        ),
    ]
    cache_size: Annotated[Text, CACHE_SIZE]
    requantize: Annotated[
        bool,
        Option(
            OptionGroup.QUESTION,
            "",
            "Start from a quantized file: its weights become floats, with the errors that they"
            " have.",
            False,
        ),
    ]
    force: Annotated[bool, Option(OptionGroup.OUTPUT, "", "Replace files that exist.", False)]


class BenchmarkKeywords(TypedDict, total=False):
    """The options of :func:`advisor.benchmark`."""

    threads: Annotated[
        Sequence[int | str],
        Option(
            OptionGroup.DEVICES,
            "COUNTS",
            "CPU threads: a number or 'all'; repeat, or join by commas. Memory and loading are"
            " measured with the first.",
            (1,),
            usual="1",
            joined=True,
        ),
    ]
    effort: Annotated[
        str,
        Option(
            OptionGroup.RUNNING,
            "NAME",
            "Time for each file and thread count: quick (6 s), normal (10 s) or full (60 s).",
            "quick",
        ),
    ]
    shape: Annotated[
        Sequence[int] | None,
        Option(
            OptionGroup.QUESTION, "SHAPE", "Shape of the first input, if the file leaves it open."
        ),
    ]
    kernels: Annotated[
        str,
        Option(
            OptionGroup.DEVICES,
            "NAME",
            "Kernels: default (XNNPACK where it applies) or builtin.",
            "default",
        ),
    ]
    runtime: Annotated[
        Text,
        Option(
            OptionGroup.DEVICES,
            "PACKAGE",
            "Another runtime, in a separate environment: tflite-runtime==2.14.0.",
        ),
    ]
    cpus: Annotated[
        Sequence[int] | None,
        Option(OptionGroup.DEVICES, "NUMBERS", "Processors that run the threads. Default: all."),
    ]
    contended: Annotated[
        bool,
        Option(
            OptionGroup.RUNNING, "", "Also measure with a load on the other processors.", False
        ),
    ]
    sustained_s: Annotated[
        float | None,
        Option(
            OptionGroup.RUNNING,
            "SECONDS",
            "Also run for this time without a rest, to see it slow down.",
        ),
    ]
    pipeline: Annotated[
        bool,
        Option(
            OptionGroup.RUNNING,
            "",
            "Also time the way from an image to an answer, if the file takes one image.",
            True,
            usual="",
        ),
    ]
    image: Annotated[
        Place,
        Option(
            OptionGroup.QUESTION,
            "FILE",
            "Image for end-to-end timing. Default: a bundled photograph.",
        ),
    ]
    force: Annotated[
        bool,
        Option(
            OptionGroup.RUNNING, "", "Measure on a busy machine, too; the verdict says so.", False
        ),
    ]


class _ConnectionKeywords(UploadOptions, total=False):
    """The options that connect to a device, and the folders of its profile."""

    ssh: Annotated[
        str,
        Option(
            OptionGroup.DEVICES,
            "HOST",
            "Connect over ssh: host, user@host or a name of your ssh configuration.",
            "",
        ),
    ]
    adb: Annotated[
        str,
        Option(
            OptionGroup.DEVICES,
            "SERIAL",
            "Connect over adb to the phone with this serial; usb: the only one.",
            "",
        ),
    ]
    python: Annotated[
        str,
        Option(
            OptionGroup.DEVICES,
            "PATH",
            "Python interpreter of the device that has a TFLite runtime (--ssh).",
            "python3",
        ),
    ]
    benchmark_model: Annotated[
        Place,
        Option(
            OptionGroup.DEVICES,
            "PATH",
            "TensorFlow Lite's benchmark_model for the phone's processor (--adb). Default: the"
            " published one.",
        ),
    ]
    cores: Annotated[
        str,
        Option(
            OptionGroup.DEVICES,
            "MASK",
            "Hexadecimal mask of the cores that run the models, such as f0 (--adb).",
            "",
        ),
    ]
    profiles: Annotated[
        Sequence[str | Path],
        Option(
            OptionGroup.DEVICES, "DIR", "Folder of your own device profiles; repeat for more.", ()
        ),
    ]


class DeviceBenchmarkKeywords(_ConnectionKeywords, total=False):
    """The options of :func:`advisor.benchmark_device`."""

    device: Annotated[
        str,
        Option(
            OptionGroup.DEVICES,
            "NAME",
            "Device profile, or name:target; aihub:NAME is one of a cloud;"
            " host:litert,host:onnxruntime compares runtimes of this machine. Measured over its"
            " connection, else predicted. Default: this machine.",
            "",
        ),
    ]
    accelerator: Annotated[
        str,
        Option(
            OptionGroup.DEVICES,
            "NAME",
            "Processor: cpu or gpu; with --device also npu and tpu. Default: cpu.",
            "",
        ),
    ]
    threads: Annotated[
        Sequence[int | str],
        Option(
            OptionGroup.DEVICES,
            "COUNTS",
            "CPU threads: numbers, or 'all'. Default: the thread count of the target.",
            (),
        ),
    ]
    effort: Annotated[
        str,
        Option(OptionGroup.RUNNING, "NAME", "Time for each file: quick, normal or full.", "quick"),
    ]


class ReevaluateKeywords(_ConnectionKeywords, total=False):
    """The options of :func:`advisor.reevaluate` about devices."""

    device: Annotated[
        Sequence[str],
        Option(
            OptionGroup.DEVICES,
            "NAME",
            "Also answer for this device (a profile's name, or name:target; aihub:NAME is one of a"
            " cloud): measured over its connection, else predicted; repeat, or join by commas."
            " Default: all of your own profiles.",
            (),
        ),
    ]
    measure: Annotated[
        int,
        Option(
            OptionGroup.RUNNING,
            "N",
            "Most files of a run to measure on a connected device; 0 asks no device.",
            5,
        ),
    ]
    time_limit: Annotated[
        str,
        Option(
            OptionGroup.RUNNING,
            "TIME",
            "Begin no measurement on a device after this time, such as 10min.",
            "10min",
        ),
    ]


class CalibrateKeywords(_ConnectionKeywords, total=False):
    """The options of :func:`advisor.devices.calibrate`."""

    here: Annotated[bool, Option(OptionGroup.DEVICES, "", "The device is this machine.", False)]
    models: Annotated[int, Option(OptionGroup.RUNNING, "N", "Number of models to measure.", 5)]
    candidates: Annotated[
        Sequence[str],
        Option(
            OptionGroup.RUNNING,
            "NAMES",
            "Names, families or globs of the networks to choose from.",
            (),
            "all",
        ),
    ]
    kernels: Annotated[
        bool,
        Option(
            OptionGroup.RUNNING,
            "",
            "First time the operators of the candidates; their sum predicts a network.",
            False,
        ),
    ]
    budget: Annotated[
        str,
        Option(
            OptionGroup.QUESTION,
            "TIME",
            "Latency budget to choose the models for, such as 50ms.",
            "",
        ),
    ]


class AddPhoneKeywords(TypedDict, total=False):
    """The options of :func:`advisor.devices.add_phone`."""

    adb: Annotated[
        str,
        Option(
            OptionGroup.DEVICES,
            "SERIAL",
            "Serial of the phone. Default: the only one that is attached.",
            "usb",
            usual="",
        ),
    ]
    benchmark_model: Annotated[
        Place,
        Option(
            OptionGroup.DEVICES,
            "PATH",
            "TensorFlow Lite's benchmark_model for the phone's processor. Default: the published"
            " one, fetched once.",
        ),
    ]
    name: Annotated[
        str,
        Option(
            OptionGroup.OUTPUT,
            "NAME",
            "Name of the device. Default: that of the phone, such as pixel-8.",
            "",
        ),
    ]
    into: Annotated[
        Place,
        Option(OptionGroup.OUTPUT, "DIR", "Folder that takes the profile. Default: your own."),
    ]
    mirror: Annotated[
        str,
        Option(
            OptionGroup.RUNNING,
            "PLACE",
            "Folder or address that is asked for benchmark_model first.",
            "",
        ),
    ]
    offline: Annotated[
        bool, Option(OptionGroup.RUNNING, "", "Open no connection to the network.", False)
    ]
    force: Annotated[
        bool,
        Option(
            OptionGroup.OUTPUT, "", "Replace the profile of another phone with this name.", False
        ),
    ]


class CheckDataKeywords(TypedDict, total=False):
    """The options of :func:`advisor.check_data`."""

    task: Annotated[
        str, Option(OptionGroup.QUESTION, "TASK", f"Task; {images_needed()}.", DEFAULT_TASK)
    ]
    fix: Annotated[
        Place, Option(OptionGroup.OUTPUT, "FILE", "Manifest (CSV) to write without the suspects.")
    ]
    card: Annotated[
        str,
        Option(
            OptionGroup.CANDIDATES,
            "NAME",
            "Model card whose features judge the labels. Default: the best on this machine.",
            "",
        ),
    ]
    cache_size: Annotated[Text, CACHE_SIZE]
    labels: Annotated[
        bool,
        Option(
            OptionGroup.QUESTION,
            "",
            "Look for wrong labels and crops with a network.",
            True,
            usual="",
        ),
    ]
    mirror: Annotated[
        str,
        Option(
            OptionGroup.CANDIDATES,
            "PLACE",
            "Folder or address of weights that is asked first.",
            "",
        ),
    ]
    offline: Annotated[bool, Option(OptionGroup.RUNNING, "", "Open no connection.", False)]
    catalog: Annotated[
        Sequence[str | Path],
        Option(
            OptionGroup.CANDIDATES,
            "FILE",
            "Catalogue file of your own (YAML); repeat for more.",
            (),
        ),
    ]

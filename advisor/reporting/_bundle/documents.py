"""Render the texts of a bundle from templates: model card, README, and code for each platform.

The export calls these functions with an evaluation and its shipped model; integrations render
their own templates with :func:`render_template` and :func:`render_html`. Labels and names come
from files of strangers, so each language of code encodes its texts in one place,
:func:`_environment`. Templates in Markdown apply the filter ``md`` themselves.
The keywords of a call are the names that its template in ``templates/`` uses; a missing one
raises an error.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import PurePath
from types import MappingProxyType
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from advisor.core import (
    FLOAT,
    HOST,
    METRICS,
    TASKS,
    DeviceFigures,
    Evaluation,
    Provenance,
    Target,
    plain,
    plural,
    recipe_of,
    show_bytes,
    show_figure,
    show_ms,
    show_probability,
    visible,
)
from advisor.datasets import DEMO_NOTE
from advisor.engine import LoadedRun, Question
from advisor.reporting._app_size import app_growth
from advisor.reporting._bundle.model import ShippedModel
from advisor.reporting._bundle.shipping import Shipping, parts_of, shipping_of
from advisor.reporting._foundations import on_all_images
from advisor.reporting._risk import Risk
from advisor.reporting._text import escape_markdown
from advisor.tflite import CENTRE_DISTANCE

PLATFORMS = ("android", "ios", "python")
INTERPRETER_CODE = "InterpreterNetwork.kt"

DELEGATES: Mapping[str, tuple[str, ...]] = {
    "android": ("cpu", "gpu", "npu"),
    "ios": ("cpu", "gpu"),
    "python": ("cpu",),
}
"""Accelerators that the code of each platform supports."""

NPU_RUNTIMES = ("ai-edge-litert", "litert", "qnn", "tflite")
"""Beginnings of the runtimes whose NPU figures hold on Android, as LiteRT 2 runs on Qualcomm,
MediaTek and Google.
"""

_ON_ACCELERATORS: Mapping[str, str] = MappingProxyType(
    {"cpu": "--use_xnnpack=true", "gpu": "--use_gpu=true", "npu": "--use_nnapi=true"}
)
"""Options of ``benchmark_model`` that put a model on an accelerator (its own help text)."""

LABELS_SHOWN = 50

CONTENTS: Mapping[str, str] = {
    "model.tflite": "the model, with labels and normalization in its metadata",
    "model_measured.tflite": "the file that the search made, unchanged",
    "labels.txt": "one label per line, in the order of the output",
    "model_card.md": "figures with provenance, warnings, data, use, licence",
    "bundle.json": "the same facts for programs",
    "check.py": "checks every file and the model's answers to the test vectors",
    "test_vectors/": "images as raw RGB bytes, and the {answers} that the model computes for them",
    "android/": "Kotlin for an app: LiteRT's compiled model, or the older Interpreter",
    "ios/": "Swift for an app",
    "python/": "a program that {does}",
    "edgetpu/": "a program for a Coral Edge TPU",
}
"""Content of each file or folder of a bundle, without the parts of integrations;
the task's words are filled in.
"""

CHECKSUMS: Mapping[str, str] = {"SHA256SUMS": "sha256sum -c SHA256SUMS"}

LITERT = "2.3.0"
"""Version of LiteRT that the code for Android names.
The package ``ai-edge-litert`` of a search has the same one.
"""


def render_template(
    template: str, package: str = "advisor.reporting._bundle", **values: object
) -> str:
    """Return a template of a package with its variables.

    In code every text is encoded for its language;
    in Markdown the filter ``md`` escapes untrusted text.
    """
    language = template.removesuffix(".j2").rpartition(".")[2]
    return _environment(package, language).get_template(template).render(**values)


def render_html(template: str, package: str, **values: object) -> str:
    """Return a template of HTML with its variables, which are escaped."""
    return _environment(package, "html").get_template(template).render(**values)


def _in_comment(text: str) -> str:
    """Return a text as it can stand in a comment of one line:
    C would join a line that ends in a backslash.
    """
    # In C, ??/ is a trigraph: the compiler may read it as a backslash.
    return re.sub(r"(\\|\?\?/)$", "/", visible(" ".join(text.splitlines())))


def _in_string(text: str) -> str:
    """Return a text as it can stand in a string or docstring of Python."""
    return visible(" ".join(text.splitlines())).replace("\\", "\\\\").replace('"', '\\"')


@cache
def _map_encoders() -> Mapping[str, Callable[[str], str]]:
    """Return the function that encodes the texts in code, by the ending of its file."""
    return MappingProxyType(
        dict.fromkeys(("cc", "h", "kt", "swift"), _in_comment) | {"py": _in_string}
    )


@cache
def _environment(package: str, language: str) -> Environment:
    encode = _map_encoders().get(language, str)
    environment = Environment(
        autoescape=language == "html",  # noqa: S701 (Markdown escapes where it needs it)
        # Names come from run folders of others.
        # Encoded here, no template can forget that a quote would end a text.
        finalize=lambda value: encode(value) if type(value) is str else value,
        # The templates of a task may include those of this package.
        loader=ChoiceLoader(
            list(map(PackageLoader, dict.fromkeys((package, "advisor.reporting._bundle"))))
        ),
        # A name that is missing must fail here:
        # an empty place in code would fail in the user's app.
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["md"] = escape_markdown
    environment.globals["litert"] = LITERT
    return environment


def render_code(
    shipping: Shipping, platform: str, model: ShippedModel, evaluation: Evaluation
) -> tuple[str, str]:
    """Return path within the bundle and content of the snippet for ``android``,
    ``ios`` or ``python``.
    """
    path = shipping.snippets[platform]
    target = evaluation.configuration.target
    folder, _, name = path.rpartition("/")
    return path, render_template(
        f"{name}.j2",
        shipping.package,
        folder=folder,
        accelerator=_choose_accelerator(target, platform),
        size=model.size,
        mean=repr(model.mean),
        std=repr(model.std),
        threshold=repr(model.threshold),
        least_of=model.by_place(model.thresholds.by_class),
        may_show=model.by_place(model.thresholds.recall),
        near=CENTRE_DISTANCE,
        threads=target.threads,
        remark=_describe_settings(evaluation, platform),
    )


def interpreter_code(shipping: Shipping, evaluation: Evaluation) -> tuple[str, str]:
    """Return path within the bundle and content of the code for Android apps
    that have the older ``Interpreter``.
    """
    folder, _, name = shipping.snippets["android"].rpartition("/")
    return f"{folder}/{INTERPRETER_CODE}", render_template(
        f"{INTERPRETER_CODE}.j2",
        app=name.removesuffix(".kt").lower(),
        threads=evaluation.configuration.target.threads,
    )


def render_edgetpu(
    path: str, measured: str, mean: tuple[float, ...], std: tuple[float, ...]
) -> str:
    """Return the snippet for a Coral Edge TPU.

    ``measured`` is the name of the file with int8 input and output;
    mean and deviation are those of RGB values 0..255.
    """
    return render_template(
        f"{path.rpartition('/')[2]}.j2",
        integer_model=measured,
        # Google's compiler for the Edge TPU names its output so.
        compiled=measured.replace(".tflite", "_edgetpu.tflite"),
        means=repr(list(mean)),
        stds=repr(list(std)),
    )


def _describe_settings(evaluation: Evaluation, platform: str) -> str:
    """Return a line that says where the settings come from, and whether the code supports them."""
    target = evaluation.configuration.target
    threads = plural(target.threads, "thread")
    figure = ""
    if evaluation.latency:
        figure = f", {show_ms(evaluation.latency.value)} {evaluation.latency.provenance}"
    best = (
        f"Best on {_name_place(target.device)} with {threads}, {target.accelerator},"
        f" {target.runtime}{figure}."
    )
    _, *others = devices_of(evaluation).items()
    if others:
        settings = []
        for name, figures in others:
            settings.append(f"{name}: {figures.accelerator}, threads {figures.threads}")
        best += f" Other devices: {'; '.join(settings)}."
    if target.accelerator != _choose_accelerator(target, platform):
        best += " This code runs on the CPU: measure the latency there."
    return plain(best)


def _name_place(device: str) -> str:
    """Return a device in words for a reader elsewhere:
    the profile ``host`` is the machine that searched.
    """
    return "the machine of the search" if device == HOST else device


def _choose_accelerator(target: Target, platform: str) -> str:
    """Return the accelerator that the code of a platform uses:
    that of the target if it can, else the CPU.
    """
    accelerator = target.accelerator
    if accelerator not in DELEGATES[platform]:
        return "cpu"
    if accelerator == "npu" and not target.runtime.startswith(NPU_RUNTIMES):
        return "cpu"
    return accelerator


def devices_of(evaluation: Evaluation) -> dict[str, DeviceFigures]:
    """Return the figures on every device that the evaluation's file runs on;
    the evaluation's own device is first.
    """
    target_figures = {evaluation.configuration.target.device: evaluation.figures}
    known = {**target_figures, **evaluation.device_figures, **(evaluation.required_figures or {})}
    return {device: figures for device, figures in known.items() if not figures.reason}


def benchmark_options(figures: DeviceFigures) -> str:
    """Return the options of ``benchmark_model`` for a device."""
    delegate = _ON_ACCELERATORS.get(figures.accelerator, _ON_ACCELERATORS["cpu"])
    return (
        f"--num_threads={figures.threads} {delegate} --warmup_runs=10 --num_runs=200 --max_secs=30"
    )


def benchmark_lines(figures: DeviceFigures) -> tuple[str, ...]:
    """Return the commands that time the model on an Android phone and
    on a computer with benchmark_model.
    """
    options = benchmark_options(figures)
    return (
        "adb push model.tflite benchmark_model /data/local/tmp/",
        "adb shell chmod +x /data/local/tmp/benchmark_model",
        (
            "adb shell /data/local/tmp/benchmark_model --graph=/data/local/tmp/model.tflite"
            f" {options}"
        ),
        f"./benchmark_model --graph=model.tflite {options}",
    )


def model_card(
    run: LoadedRun, evaluation: Evaluation, model: ShippedModel, all_risks: Sequence[Risk]
) -> str:
    """Return the card as Markdown; the template escapes names of classes, cards and sources."""
    configuration = evaluation.configuration
    pick = run.decision.pick
    shipping = shipping_of(run.question)
    weights: Any = (run.manifest.get("weights") or {}).get(configuration.card) or {}
    versions = run.manifest.get("versions") or {}
    weights_sha256 = weights.get("sha256", "") if isinstance(weights, dict) else ""
    accelerator = _choose_accelerator(configuration.target, "android")
    demonstration = DEMO_NOTE if DEMO_NOTE in (run.dataset.get("notes") or ()) else ""
    return render_template(
        shipping.card,
        shipping.package,
        run=run,
        task=run.question.of_task,
        evaluation=evaluation,
        configuration=configuration,
        target=configuration.target,
        threads=plural(configuration.target.threads, "thread"),
        trained=recipe_of(configuration.training).result or configuration.training,
        selected_by_hand=pick is not None and pick.configuration != configuration,
        model=model,
        near=CENTRE_DISTANCE,
        labels=model.labels,
        labels_shown=LABELS_SHOWN,
        told_apart=evaluation.unknown is not None
        and model.labels[-1:] == (evaluation.unknown.label,),
        on_all=on_all_images(evaluation),
        learnt_all=evaluation.on_all is not None and bool(evaluation.on_all.file),
        demonstration=demonstration,
        place=_name_place(configuration.target.device),
        warnings=[risk for risk in all_risks if risk.warns],
        risks=[risk for risk in all_risks if not risk.warns],
        figures=list(_list_figures(run.question, evaluation)),
        limits=[
            f"{name} {show_figure(name, value)}"
            for name, value in run.question.limits.by_figure.items()
        ],
        devices=devices_of(evaluation),
        latency=lambda device: (
            f"{device.provenance} {show_ms(device.latency_ms)}" if device.latency_ms else "unknown"
        ),
        share=lambda value: "none" if value is None else f"{100 * value:.0f} %",
        probability=lambda device: (
            show_probability(device.budget_probability)
            if device.budget_probability is not None
            else ""
        ),
        answers=evaluation.holdout_answers or evaluation.answers,
        counts=run.dataset.get("boxes_per_class") or run.dataset.get("pictures_per_class") or {},
        images=sum((run.dataset.get("pictures_per_class") or {}).values()),
        folder=PurePath(str(run.dataset.get("folder", ""))).name,
        growth=app_growth(len(model.content), accelerator),
        size_of=show_bytes,
        weights_sha256=weights_sha256,
        versions=", ".join(f"{name} {version}" for name, version in versions.items()),
    )


def _list_figures(
    question: Question, evaluation: Evaluation
) -> Iterator[tuple[str, str, str, int | None, str]]:
    """Yield name, value, interval, number of images or runs, and provenance of
    each known figure.
    """
    metric = question.of_task.metric
    usual = TASKS[question.task].metric
    judged = evaluation.holdout_answers or evaluation.answers
    judged_on = "hold-out" if evaluation.holdout_answers else "validation part"
    part = evaluation.holdout_part
    images = f"{part.shown}, as {part.reason}; " if part else ""
    metrics = [name for name in METRICS if name in judged.metrics]
    others = [name for name in metrics if name != question.metric]
    # Only a hold-out figure was not used for selection.
    selected_on = " on validation, used for selection" if evaluation.holdout_accuracy else ""
    # The hold-out of a split of the user's own stands above already.
    expected = evaluation.new_conditions
    if expected is not None and expected.provenance is Provenance.MEASURED:
        expected = None
    rows = (
        (f"{metric}{selected_on}", evaluation.accuracy),
        (f"{metric} on the hold-out ({images}images like these)", evaluation.holdout_accuracy),
        *((f"{METRICS[name].label} on the {judged_on}", judged.metrics[name]) for name in others),
        *((f"{name} on the {judged_on}", figure) for name, figure in judged.figures.items()),
        (f"{usual} in new conditions (another visit, camera or day)", expected),
        (f"{usual} on the hold-out under capture conditions", evaluation.capture.holdout),
        # On a busy machine another time stands for the median; its provenance says which.
        ("latency" if evaluation.contended else "latency, median", evaluation.latency),
        (_name_slow_latency(evaluation), evaluation.latency_p90),
        ("file size", evaluation.size),
        ("peak memory", evaluation.memory),
        (
            "lost by compression",
            None if evaluation.configuration.compression == FLOAT else evaluation.drop,
        ),
    )
    for name, quantity in rows:
        if quantity is None:
            continue
        low = _show_quantity(quantity.low, quantity.unit)
        high = _show_quantity(quantity.high, quantity.unit)
        interval = f"{low} to {high}" if low and high else ""
        source = f": {quantity.source}" if quantity.source else ""
        provenance = f"{quantity.provenance}{source}"
        yield name, _show_quantity(quantity.value, quantity.unit), interval, quantity.n, provenance


def _name_slow_latency(evaluation: Evaluation) -> str:
    """Return what a latency budget limits: of a prediction, the end that it hardly exceeds."""
    p90 = evaluation.latency_p90
    if p90 is not None and p90.provenance is Provenance.PREDICTED:
        return "latency, not exceeded with the confidence of the question"
    return "latency, 90th percentile"


def _show_quantity(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    if unit == "ms":
        return show_ms(value)
    return show_bytes(value) if unit == "bytes" else f"{value:.1f} {unit}"


def render_readme(shipping: Shipping, evaluation: Evaluation, files: Iterable[str]) -> str:
    """Return README.md for a bundle of ``files``."""
    # The list of hashes is made after all files, as it has the hash of the README too,
    # and so is not among them.
    present = set(CHECKSUMS)
    for path in files:
        folder, slash, _ = path.partition("/")
        present.add(f"{folder}/" if slash else path)
    known = dict(CONTENTS)
    for name, part in parts_of([path.removesuffix("/") for path in present]).items():
        known[f"{name}/"] = part.CONTENT
    known |= CHECKSUMS
    contents = {}
    for name, content in known.items():
        if name in present:
            contents[name] = content.format(answers=shipping.answers, does=shipping.does)
    (device, figures), *others = devices_of(evaluation).items()
    return render_template(
        "README.md.j2",
        configuration=evaluation.configuration,
        contents=contents,
        program=shipping.snippets["python"],
        device=_name_place(device),
        benchmark_lines=benchmark_lines(figures),
        benchmark_options=benchmark_options,
        others=others,
    )

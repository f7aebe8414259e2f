"""Write what an app needs to choose its file on the phone:
files, ``tiers.json``, selectors in four languages.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files as resources
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.core import Evaluation, Status, UsageError, form_of, show_bytes
from advisor.devices import CALIBRATED, Measurement, arm_cores
from advisor.engine import DevicePredictor, TargetDevice
from advisor.exporting import (
    ExportedModel,
    ShippedModel,
    Shipping,
    draw_vector_images,
    make_exported_model,
    make_runners,
)
from advisor.integrations.fleet._answer import FleetOption, fleet_answer
from advisor.integrations.fleet._choice import Floats
from advisor.integrations.fleet._phones import THREADS, Fleet, compute_speed, index_socs
from advisor.integrations.fleet.selector import plain
from advisor.reporting import text

if TYPE_CHECKING:
    from numpy.typing import NDArray

FOLDER = "tiers"
DOCUMENT = "tiers.json"
SCHEMA_VERSION = 1
SELECTORS = (
    "selector.py",
    "selectors/selector.js",
    "selectors/TierSelector.kt",
    "selectors/TierSelector.swift",
)

WINDOW_MS = 300
"""Time for which an app runs the fastest file at its first start."""

VECTORS = 8
VECTOR_SIDE = 16
OUTPUTS = 64
"""Test vectors, the side of their pixels, which an app repeats up to a file's side,
and values of an output at most.
"""

LEAST_TOLERANCE = 0.05

RULES = {"up": 0.8, "late": 1.1, "window": 20, "memory_share": 0.25}
"""Hysteresis: a better file is tried again only if it is expected below ``up`` times the budget; a
file is left if the 90th percentile of ``window`` runs exceeds the budget ``late`` times. A file
may take ``memory_share`` of the memory.
"""

ANDROID_API = 21
IOS = 15
"""Least versions of the systems that LiteRT's current packages state."""

REFERENCES = 5
"""Phones, from slow to fast, on which the predictor says what a measurement moves."""

RATIO = 1.25
"""Factor by which the measured file is assumed to be slower, and faster, than predicted on
them.
"""

LEAST_GAIN = 0.05
"""Least share by which a measurement moves a file of a related form:
below it, the predictor keeps both forms apart.
"""


def core_macs() -> dict[str, int]:
    """Return the float32 multiply-accumulates a cycle of Arm's own cores by their part numbers."""
    return {part: round(core.macs) for part, core in arm_cores().items()}


@dataclass(frozen=True)
class KnownPhone:
    """A phone that rules can recognise:
    its names, its GPU, its speed, and what predictions are made for.
    """

    names: tuple[str, ...]
    gpu: str
    speed: float
    device: TargetDevice


def list_phones(fleet: Fleet) -> tuple[KnownPhone, ...]:
    """Return the phones of a fleet, each once.
    A selector places other phones among them, by cores and times.
    """
    phones = list[KnownPhone]()
    listed_names = set[str]()
    for phone in fleet.known:
        device = phone.device
        if device is None:
            continue
        soc = index_socs().get(plain(device.profile.soc)) or index_socs().get(plain(device.label))
        soc_names = soc.names if soc else ()
        names = set(map(plain, (device.label, device.profile.soc, *soc_names)))
        # A selector cannot tell phones with one SoC apart by its name:
        # the first one stands for all.
        if names & listed_names:
            continue
        listed_names |= names
        gpu = plain(soc.gpu) if soc else ""
        phones.append(KnownPhone(tuple(sorted(names)), gpu, compute_speed(device.profile), device))
    return tuple(phones)


def rules_document(
    files: Sequence[Evaluation],
    phones: Sequence[KnownPhone],
    budget_ms: float,
    confidence: float,
    predictor: DevicePredictor,
) -> dict[str, Any]:
    """Return the part of ``tiers.json`` that selectors decide by.

    ``files`` are ordered by accuracy, the floor first. A phone has the median of each file in
    ms, and the latency that is not exceeded with the confidence; None where nothing can be
    predicted. ``measuring`` says how the measured file moves the others: log ms of a file rise
    by ``gain`` times the log of the ratio, and ``factor`` times the median is not exceeded
    with the confidence.
    """
    references = list[tuple[KnownPhone, Floats]]()
    for phone in phones:
        figures = _figures_of_files(files, phone.device, confidence, predictor)
        # A selector compares the files of one phone,
        # so a phone that lacks one of them cannot serve as a reference.
        if len(figures) == len(files):
            references.append((phone, figures))
    if not references:
        raise UsageError(
            "--tiers: no known phone runs all files",
            "choose files of other forms with --compressions",
        )
    # Means of logarithms: a slow phone must not outweigh the fast ones.
    mean_log_ms = np.mean([np.log(figures[:, 0]) for _, figures in references], axis=0)
    fastest = int(np.argmin(mean_log_ms))
    # A selector takes the first phone with the GPU that it sees,
    # and the slowest one is the cautious choice.
    references.sort(key=lambda reference: reference[0].speed)
    return {
        "budget_ms": budget_ms,
        "confidence": confidence,
        "measured_tier": fastest,
        "window_ms": WINDOW_MS,
        "measuring": _describe_measuring(
            files, fastest, [phone for phone, _ in references], confidence, predictor
        ),
        "rules": RULES,
        "core_macs": core_macs(),
        "phones": [
            {
                "names": phone.names,
                "gpu": phone.gpu,
                "speed": _shorten(phone.speed),
                "ms": list(map(_shorten, figures[:, 0])),
                "sure_ms": list(map(_shorten, figures[:, 1])),
            }
            for phone, figures in references
        ],
    }


def _figures_of(evaluation: Evaluation, confidence: float) -> tuple[float, float] | None:
    distribution = evaluation.latency_distribution
    if evaluation.status is not Status.OK or distribution is None or evaluation.latency is None:
        return None
    return evaluation.latency.value, distribution.at(confidence)


def _figures_of_files(
    files: Sequence[Evaluation],
    device: TargetDevice,
    confidence: float,
    predictor: DevicePredictor,
) -> Floats:
    """Return the two figures (files, 2) of each file that a phone runs."""
    predictions = [
        _figures_of(evaluation, confidence)
        for evaluation in predictor.evaluate(files, device, None)
    ]
    predicted = [figures for figures in predictions if figures is not None]
    return np.array(predicted).reshape(-1, 2)


def _shorten(value: float) -> float:
    return float(f"{value:.4g}")


def set_measured(device: TargetDevice, file: Evaluation, milliseconds: float) -> TargetDevice:
    """Return a device on which a file took some time, for the predictor."""
    form = form_of(file.configuration.compression).like
    row = Measurement(
        device.target.name,
        file.configuration.card,
        form,
        milliseconds,
        "median",
        source_repo=CALIBRATED,
    )
    profile = replace(device.profile, measurements=(*device.profile.measurements, row))
    return replace(device, profile=profile)


def _describe_measuring(
    files: Sequence[Evaluation],
    fastest: int,
    phones: Sequence[KnownPhone],
    confidence: float,
    predictor: DevicePredictor,
) -> list[dict[str, float]]:
    """Return what a measurement of the fastest file says of each:
    by the predictor, on phones from slow to fast.

    The gain is the mean, the factor the largest one. The predictor keeps forms apart that compute
    otherwise. So a file whose form the measurement does not reach is moved in full, and keeps the
    factor of the prediction alone.
    """
    ordered = sorted(phones, key=lambda phone: phone.speed)
    places = np.linspace(0, len(ordered) - 1, min(REFERENCES, len(ordered)))
    gains = []
    factors = []
    for phone in (ordered[round(place)] for place in places):
        base_ms = _figures_of_files(files, phone.device, confidence, predictor)[fastest, 0]
        fast_device = set_measured(phone.device, files[fastest], base_ms / RATIO)
        slow_device = set_measured(phone.device, files[fastest], base_ms * RATIO)
        low = _figures_of_files(files, fast_device, confidence, predictor)
        high = _figures_of_files(files, slow_device, confidence, predictor)
        # The slope of log ms of a file over log ms of the measured one,
        # between the two measurements.
        gains.append(np.log(high[:, 0] / low[:, 0]) / (2 * np.log(RATIO)))
        # The geometric mean of the factors at both ends.
        low_factor = low[:, 1] / low[:, 0]
        high_factor = high[:, 1] / high[:, 0]
        factors.append(np.sqrt(low_factor * high_factor))
    gain = np.clip(np.mean(gains, axis=0), 0.0, 1.0)
    factor = np.max(factors, axis=0)
    # No gain means that the form is not reached, not that the phone's speed does not matter to it.
    gain = np.where(gain < LEAST_GAIN, 1.0, gain)
    measuring = []
    for gain_of_file, factor_of_file in zip(gain, factor, strict=True):
        measuring.append(
            {"gain": _shorten(float(gain_of_file)), "factor": _shorten(float(factor_of_file))}
        )
    return measuring


# ---- the bundle ----


class TiersPart:
    """The files of a fleet in a bundle; see :class:`advisor.exporting._shipping.BundlePart`."""

    CONTENT = "the files for a fleet of phones: tiers.json, selectors for apps, notes on delivery"
    WITH_UNKNOWN_CLASS = False

    def check(self, shipping: Shipping) -> None:
        """Every task has files for a fleet."""

    def files(self, exported: ExportedModel) -> Mapping[str, bytes]:
        """Return the files for the fleet of the run's question; see the protocol."""
        run = exported.run
        wanted = exported.tiers or None
        if not run.question.fleet:
            raise UsageError(
                "--tiers: the run has no fleet",
                f"advisor reevaluate {run.folder.path} --fleet phones-2026 makes a run with one;"
                " export that",
            )
        answer = fleet_answer(run.question, run.evaluations)
        option = answer.with_files(wanted)
        models = [make_exported_model(run, evaluation, False).model for evaluation in option.files]
        limits = run.question.limits
        rules = rules_document(
            option.files,
            list_phones(answer.fleet),
            limits.latency_ms or 0.0,
            limits.confidence,
            DevicePredictor(),
        )
        return bundle_files(option, models, rules, answer.fleet.title)


def bundle_files(
    option: FleetOption, models: Sequence[ShippedModel], rules: Mapping[str, Any], title: str
) -> dict[str, bytes]:
    """Return the files of the folder ``tiers`` by their paths in the bundle."""
    vectors = _make_vectors(models)
    tiers = list[dict[str, Any]]()
    for place, (evaluation, model) in enumerate(zip(option.files, models, strict=True)):
        tier = {
            "file": f"tier{place}.tflite",
            "name": text.file(evaluation),
            "accuracy": _shorten(evaluation.accuracy_percent),
            "bytes": len(model.content),
            "sha256": hashlib.sha256(model.content).hexdigest(),
            "memory_bytes": round(evaluation.memory.value) if evaluation.memory else None,
            "input": {"size": model.size, "mean": model.mean, "std": model.std},
            "delivery": "with the app" if place == 0 else "on demand",
            "expected": vectors["expected"][place],
        }
        tiers.append(tier)
    # An app forgets its choice when the id changes:
    # by other files or other rules, not by another title.
    content = json.dumps([rules, [tier["sha256"] for tier in tiers]], sort_keys=True)
    document = {
        "schema_version": SCHEMA_VERSION,
        "id": hashlib.sha256(content.encode()).hexdigest()[:16],
        "fleet": title,
        "threads": THREADS,
        "requires": {"android_api": ANDROID_API, "ios": IOS},
        **rules,
        "tiers": tiers,
        "vectors": {
            "side": VECTOR_SIDE,
            "pixels": vectors["pixels"],
            "stride": vectors["stride"],
            "tolerance": vectors["tolerance"],
        },
    }
    folder = resources("advisor.integrations.fleet")
    texts = {path.rpartition("/")[2]: (folder / path).read_bytes() for path in SELECTORS}
    return {
        f"{FOLDER}/{DOCUMENT}": (json.dumps(document, indent=1) + "\n").encode(),
        f"{FOLDER}/README.md": _render_notes(option, document).encode(),
        **{f"{FOLDER}/tier{place}.tflite": model.content for place, model in enumerate(models)},
        **{f"{FOLDER}/{name}": content for name, content in texts.items()},
    }


def _make_vectors(models: Sequence[ShippedModel]) -> dict[str, Any]:
    """Return eight small images as base64 RGB,
    and values of the first output of each model for them.

    An app repeats each pixel up to the side of a file's input: pixel (x, y) is that of (16 x //
    side, 16 y // side). Of a large output, every ``stride``-th value is kept. The tolerance is at
    least twice the difference between two kernels of LiteRT here.
    """
    crops = draw_vector_images(VECTOR_SIDE)
    crop_places = np.linspace(0, len(crops) - 1, VECTORS).astype(int)
    images = [crops[place]() for place in crop_places]
    expected = []
    strides = []
    tolerances = []
    for model in models:
        run, reference_run = make_runners(
            model, [partial(enlarge_image, image, model.size) for image in images]
        )
        outputs = []
        for place in range(VECTORS):
            outputs.append(np.asarray(run(place)[0], np.float32).ravel())
        references = []
        for place in range(VECTORS):
            references.append(np.asarray(reference_run(place)[0], np.float32).ravel())
        # Outputs that are all alike have no spread, and a tolerance of 0 would fail every phone.
        spread = max(float(np.ptp(output)) for output in outputs) or 1.0
        # Kernels sum in other orders: what two of them give here is
        # as right as what a phone gives.
        differences = []
        for output, reference in zip(outputs, references, strict=True):
            differences.append(np.abs(output - reference))
        apart = max(float(difference.max()) for difference in differences)
        stride = math.ceil(len(outputs[0]) / OUTPUTS)
        expected.append([list(map(_shorten, output[::stride].tolist())) for output in outputs])
        strides.append(stride)
        tolerances.append(_shorten(max(LEAST_TOLERANCE * spread, 2 * apart)))
    pixels = [base64.b64encode(image.tobytes()).decode("ascii") for image in images]
    return {"pixels": pixels, "expected": expected, "stride": strides, "tolerance": tolerances}


def enlarge_image(image: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """Return a small square image with its pixels repeated up to a side, as apps do it."""
    places = np.arange(side) * len(image) // side
    return np.asarray(image[places][:, places])


def _render_notes(option: FleetOption, document: Mapping[str, Any]) -> str:
    tier_rows = ""
    for place, tier in enumerate(document["tiers"]):
        size = show_bytes(tier["bytes"])
        tier_rows += (
            f"| {place} | `{tier['file']}` | {tier['name']} | {tier['accuracy']:.1f} % | {size} "
        )
        tier_rows += f"| {tier['delivery']} |\n"
    measuring_rows = ""
    for place, change in enumerate(document["measuring"]):
        measuring_rows += f"| {place} | {change['gain']:.2f} | {change['factor']:.2f} |\n"
    names_on_demand = [f"`{tier['file']}`" for tier in document["tiers"][1:]]
    template = (resources("advisor.integrations.fleet") / "selectors" / "README.md").read_text(
        encoding="utf-8"
    )
    return template.format(
        sentence=option.sentence,
        rows=tier_rows,
        files=", ".join(names_on_demand) or "no file",
        certain=measuring_rows,
        window=document["window_ms"],
        budget=document["budget_ms"],
        android=ANDROID_API,
        ios=IOS,
    )

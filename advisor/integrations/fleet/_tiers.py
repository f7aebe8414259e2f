"""Make the folder ``tiers`` of a bundle: files, ``tiers.json``, and selectors in four languages.

The export calls :class:`TiersPart` (``BundlePart``). An app reads
``tiers.json`` through a selector, and forgets its choice when the ``id`` in it changes. Apps that
are shipped already read the keys: they stay, or :data:`SCHEMA_VERSION` rises. ``_rules.py`` makes
the part that a selector decides by.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.resources import files as resources
from typing import TYPE_CHECKING, Any

import numpy as np

from advisor.core import UsageError, show_bytes
from advisor.engine import DevicePredictor
from advisor.integrations.fleet._answer import FleetOption, fleet_answer
from advisor.integrations.fleet._phone_devices import THREADS
from advisor.integrations.fleet._rules import list_phones, rules_document, shorten_number
from advisor.reporting import (
    ExportedModel,
    ShippedModel,
    Shipping,
    draw_vector_images,
    make_runners,
    text,
)

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

VECTORS = 8
VECTOR_SIDE = 16
"""Test vectors, and the side of their pixels, which an app repeats up to a file's side."""

OUTPUTS = 64
"""Values of an output in a test vector, at most."""

LEAST_TOLERANCE = 0.05
"""Share of the range of an output by which a phone may differ at least."""

ANDROID_API = 21
IOS = 15
"""Least versions of the systems that LiteRT's current packages state."""


class TiersPart:
    """The files of a fleet in a bundle; see ``BundlePart``."""

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
        models = [
            ExportedModel.of_evaluation(run, evaluation, False).model
            for evaluation in option.files
        ]
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
            "accuracy": shorten_number(evaluation.accuracy_percent),
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
        samples = [output[::stride].tolist() for output in outputs]
        expected.append([list(map(shorten_number, values)) for values in samples])
        strides.append(stride)
        tolerances.append(shorten_number(max(LEAST_TOLERANCE * spread, 2 * apart)))
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

"""Export a run: choose the candidate, collect the files of its bundle, sign and write them.

``advisor export`` calls :func:`export` through ``advisor.api``. All files are made in memory, and
written last, so an error leaves nothing behind. The same run gives the same bytes: nothing here
may depend on the clock, except the date of a signature. Without its runtime, which is downloaded,
the web page is left out. Apps and pipelines read the names of the
files and the keys of ``bundle.json``: they stay, or ``SCHEMA_VERSION`` rises.
"""

import hashlib
import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path

from advisor.core import (
    Decision,
    DeviceFigures,
    Evaluation,
    Status,
    UsageError,
    list_registered,
    load_integration,
    nearest,
    require_extra,
    require_known,
    units,
)
from advisor.engine import LoadedRun
from advisor.isolation import Scratch
from advisor.reporting._app_size import app_growth
from advisor.reporting._bundle import check
from advisor.reporting._bundle.documents import (
    PLATFORMS,
    benchmark_lines,
    devices_of,
    interpreter_code,
    model_card,
    render_code,
    render_edgetpu,
    render_readme,
)
from advisor.reporting._bundle.folder import replace_bundle, require_replaceable
from advisor.reporting._bundle.model import ShippedModel, suggest_list
from advisor.reporting._bundle.shipping import PARTS, ExportedModel, parts_of
from advisor.reporting._bundle.vectors import vector_files
from advisor.reporting._risk import Risk
from advisor.reporting._risks import list_run_risks
from advisor.store import read_bytes
from advisor.tflite import one_line

SCHEMA_VERSION = 1
MODEL = "model.tflite"
MEASURED = "model_measured.tflite"
EDGETPU = "edgetpu"
WEB = "web"
KEY_BYTES = 2**16  # Largest file of a key
FIGURES = (
    "accuracy",
    "holdout_accuracy",
    "new_conditions",
    "latency",
    "latency_p90",
    "size",
    "memory",
    "drop",
)
"""Quantities of an evaluation in ``bundle.json``."""

SETTINGS = (
    "runtime",
    "accelerator",
    "threads",
    "latency_ms",
    "provenance",
    "budget_probability",
)
"""Fields of a device's figures in ``bundle.json``."""


def list_choices(decision: Decision) -> tuple[Evaluation, ...]:
    """Return the candidates that ``--pick N`` counts: pick, runner-up, ties, then the front;
    one entry an artefact.
    """
    ordered = [decision.pick, decision.runner_up, *decision.ties, *decision.front]
    by_file: dict[str, Evaluation] = {}
    for evaluation in ordered:
        if evaluation is None or not evaluation.artefact:
            continue
        earlier = by_file.setdefault(evaluation.artefact, evaluation)
        is_faster = evaluation.latency_ms < earlier.latency_ms
        # One file runs with several settings:
        # its fastest ones stand for it, but those of the pick stay.
        if is_faster and earlier is not decision.pick:
            by_file[evaluation.artefact] = evaluation
    return tuple(by_file.values())


def choose_candidate(run: LoadedRun, pick: str | None) -> Evaluation:
    """Return the evaluation to ship:
    a number of :func:`list_choices` from 1, a key, or None for the pick.
    """
    offered = list_choices(run.decision)
    if not offered:
        raise UsageError(
            f"'{run.folder.path}' has no candidate to ship: {run.decision.reason}",
            f"resume it: advisor search --resume {shlex.quote(str(run.folder.path))}",
        )
    if pick is None:
        return offered[0]
    place = units.whole_number(pick)
    see = f"{suggest_list(run)} shows the candidates"
    if place is not None:
        if not 1 <= place <= len(offered):
            raise UsageError(
                f"--pick: there is no candidate {place}; the numbers are 1 to {len(offered)}", see
            )
        return offered[place - 1]
    by_key = {evaluation.configuration.key: evaluation for evaluation in run.evaluations}
    candidate = by_key.get(pick)
    if candidate is None:
        raise UsageError(f"--pick: the run has no candidate '{pick}'{nearest(pick, by_key)}", see)
    if candidate.status is not Status.OK:
        raise UsageError(
            f"--pick: '{pick}' has no artefact; its status is {candidate.status}"
            f" ({candidate.reason})",
            see,
        )
    return candidate


@dataclass(frozen=True)
class Bundle:
    """An exported bundle.

    Attributes:
        path: the folder.
        evaluation: the evaluation that was exported.
        model: the shipped model.
        files: paths within the folder.
        without_page: why the page to try the model could not be made; empty if it is there, or was
            not to be.
    """

    path: Path
    evaluation: Evaluation
    model: ShippedModel
    files: tuple[str, ...]
    without_page: str = ""


def export(
    run: Path | str,
    to: Path | str,
    pick: str | None = None,
    targets: Sequence[str] = (),
    force: bool = False,
    unknown_class: bool = False,
    web: bool | None = None,
    sign: Path | str | None = None,
    tiers: int = 0,
) -> Bundle:
    """Write the bundle of a run's pick, or of another of its candidates;
    :func:`advisor.api.export` explains it all.

    Raises:
        UsageError: no such candidate, its artefact is missing or was changed, a target that it
            cannot serve, no file with a class for unknown things, a run that does not prove
            itself, a key that cannot sign, or a folder in the way. Nothing is written then.
    """
    # What is typed wrong is an error before the run is read; what this machine lacks, after it.
    known_targets = (*PLATFORMS, EDGETPU, *list_registered(PARTS))
    wanted = tuple(require_known("targets", target, known_targets) for target in targets)
    wanted = wanted or PLATFORMS
    wanted = (*wanted, WEB) if web else wanted
    folder = require_replaceable(Path(to), force)
    stored = LoadedRun.load(run)
    key = None if sign is None else _read_key(Path(sign))
    evaluation = choose_candidate(stored, pick)
    # Another row cannot change what was named.
    others = ("evaluations.jsonl", "answers/") if pick is not None else ()
    stored.require_proof(others)
    exported = replace(ExportedModel.of_evaluation(stored, evaluation, unknown_class), tiers=tiers)
    _check_targets(wanted, exported, unknown_class)
    sign_bytes = None if key is None else load_signer(key, str(sign))
    parts, without_page = _make_parts(exported, wanted, web is not False)
    contents = _collect_contents(exported, wanted, parts)
    if sign_bytes:
        # An older bundle that was signed with the same key is another one by its date.
        moment = datetime.now(UTC).isoformat(timespec="seconds")
        contents[check.SUMS] = f"# signed on {moment}\n".encode() + contents[check.SUMS]
        contents[check.SIGNATURE] = sign_bytes(contents[check.SUMS])
    replace_bundle(folder, contents)
    return Bundle(folder, evaluation, exported.model, tuple(sorted(contents)), without_page)


@contextmanager
def export_for_block(run: Path) -> Iterator[Path]:
    """Yield the folder of the bundle of a run's pick, and remove it after the block."""
    with Scratch() as scratch:
        export(run, scratch / "bundle")
        yield scratch / "bundle"


def _make_parts(
    exported: ExportedModel, targets: Sequence[str], page: bool
) -> tuple[dict[str, bytes], str]:
    """Return the files of the parts among the targets, and with ``page`` those of the page,
    or why it is missing.
    """
    contents: dict[str, bytes] = {}
    for part in parts_of(targets).values():
        contents |= part.files(exported)
    if not page or WEB in targets or not exported.shipping.page.script:
        return contents, ""
    try:
        return {**contents, **load_integration(PARTS, WEB).files(exported)}, ""
    except UsageError as error:  # its runtime cannot be fetched
        return contents, f"the bundle has no page to try the model: {error.message}; {error.hint}"


def _check_targets(targets: Sequence[str], exported: ExportedModel, unknown_class: bool) -> None:
    """Refuse targets that the task, the model or the class for unknown things does not allow."""
    shipping = exported.shipping
    types = exported.model.types
    parts = parts_of(targets)
    for part in parts.values():
        part.check(shipping)
    if unknown_class:
        able = set(PLATFORMS)
        for name, part in parts.items():
            if part.WITH_UNKNOWN_CLASS:
                able.add(name)
        unable = [target for target in targets if target not in able]
        if unable:
            reason = f"--{unable[0]}: the class for unknown things is computed in float32"
            raise UsageError(reason, "leave --unknown-class out")
    if EDGETPU not in targets:
        return
    if not shipping.edgetpu:
        raise UsageError(
            f"--edgetpu: there is no program for it that {shipping.does}", "leave it out"
        )
    if not types <= {"int8", "uint8"}:
        raise UsageError(
            "--edgetpu: it runs fully quantized models only, and"
            f" {exported.evaluation.configuration.key} takes {'/'.join(sorted(types))}",
            f"choose an int8 candidate with --pick; {suggest_list(exported.run)} shows them",
        )


def _collect_contents(
    exported: ExportedModel, targets: Sequence[str], parts: Mapping[str, bytes]
) -> dict[str, bytes]:
    """Return all files of a bundle by their paths, the list of hashes last."""
    run = exported.run
    shipping = exported.shipping
    evaluation = exported.evaluation
    model = exported.model
    contents = {MODEL: model.content}
    if model.edits:
        # The figures are those of the measured file, so it is in the bundle, too.
        contents[MEASURED] = exported.artefact
    all_risks = list_run_risks(run, evaluation)
    texts = {
        "labels.txt": "".join(f"{one_line(label)}\n" for label in model.labels),
        "model_card.md": model_card(run, evaluation, model, all_risks),
        "check.py": (files("advisor.reporting._bundle") / "check.py").read_text(encoding="utf-8"),
    }
    for target in targets:
        if target in PLATFORMS:
            path, code = render_code(shipping, target, model, evaluation)
            texts[path] = code
    if "android" in targets:
        path, code = interpreter_code(shipping, evaluation)
        texts[path] = code
    if EDGETPU in targets:
        # The program gives integers to the network, and an edited file takes floats.
        file = MEASURED if model.edits else MODEL
        texts[shipping.edgetpu] = render_edgetpu(
            shipping.edgetpu, file, model.measured.mean, model.measured.std
        )
    contents |= {**vector_files(model, shipping.answering), **parts}
    names = [*contents, *texts, "bundle.json"]
    texts["README.md"] = render_readme(shipping, evaluation, names)
    texts["bundle.json"] = _write_summary(run, evaluation, model, all_risks)
    contents |= {name: text.encode() for name, text in texts.items()}
    # In the form that sha256sum reads, and sorted: the same run gives the same bytes.
    hashes = ""
    for name in sorted(contents):
        sha256 = hashlib.sha256(contents[name]).hexdigest()
        hashes += f"{sha256}  {name}\n"
    return {**contents, check.SUMS: hashes.encode()}


def _read_key(path: Path) -> bytes:
    """Return the content of a file with a key; a UsageError names the option."""
    try:
        return read_bytes(path, KEY_BYTES)
    except UsageError as error:
        raise UsageError(f"--sign: {error.message}", error.hint) from error


def load_signer(key: bytes, file: str) -> Callable[[bytes], bytes]:
    """Return what signs with a private Ed25519 key in PEM, the content of a file.

    Raises:
        UsageError: it is no such key, or the package cryptography is missing.
    """
    require_extra("cryptography", "sign", "--sign needs cryptography, which is not installed")
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    private_key = None
    what = "holds a key of another kind than Ed25519"
    try:
        private_key = load_pem_private_key(key, None)
    except TypeError:  # it needs a password
        what = "holds an encrypted key"
    except (ValueError, UnsupportedAlgorithm):
        what = "holds no private key in PEM"
    if not isinstance(private_key, Ed25519PrivateKey):
        raise UsageError(
            f"--sign: '{file}' {what}",
            "make one without a password: openssl genpkey -algorithm ed25519 -out key.pem",
        )
    return private_key.sign


def _write_summary(
    run: LoadedRun, evaluation: Evaluation, model: ShippedModel, all_risks: Sequence[Risk]
) -> str:
    """Return ``bundle.json``: what the model card says, for programs."""
    target = evaluation.configuration.target
    pick = run.decision.pick
    devices = devices_of(evaluation)
    growth = app_growth(len(model.content), target.accelerator)
    figures = evaluation.to_json()
    document = {
        "schema_version": SCHEMA_VERSION,
        "run": run.name,
        "configuration": evaluation.configuration.key,
        "is_the_pick": pick is not None and pick.configuration == evaluation.configuration,
        "meets_the_budget": run.question.limits.met_by(evaluation),
        "model": MODEL,
        "model_sha256": hashlib.sha256(model.content).hexdigest(),
        "measured_sha256": evaluation.artefact_sha256,
        **({"on_all_images": asdict(evaluation.on_all)} if evaluation.on_all else {}),
        "edits": model.edits,
        "input": {
            "size": model.size,
            "mean": model.mean,
            "std": model.std,
            "channels": "RGB",
            "type": "float32",
        },
        "labels": model.labels,
        **_describe_thresholds(model),
        "run_with": {
            "threads": target.threads,
            "accelerator": target.accelerator,
            "runtime": target.runtime,
            # Loading reads only the pages that are needed,
            # and the programs of the bundle do it so, too.
            "memory_mapped": True,
            "measured_on": target.device,
        },
        "benchmark_model": benchmark_lines(next(iter(devices.values()))),
        "devices": {name: _describe_device(name, device) for name, device in devices.items()},
        "app_growth_bytes": growth.by_abi,
        "app_growth_litert": growth.release,
        "figures": {name: quantity for name, quantity in figures.items() if name in FIGURES},
        "risks": list(map(asdict, all_risks)),
    }
    # JSON has no NaN, and readers in other languages refuse the one that Python writes.
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _describe_thresholds(model: ShippedModel) -> dict[str, object]:
    """Return the scores from which on answers are shown; those that are not set are left out."""
    thresholds = {
        "threshold": model.thresholds.plain,
        "class_thresholds": model.thresholds.by_class,
        "recall_thresholds": model.thresholds.recall,
    }
    return {name: value for name, value in thresholds.items() if value not in (None, {})}


def _describe_device(name: str, figures: DeviceFigures) -> dict[str, object]:
    """Return how the file runs on a device, and how fast."""
    return {"device": name} | {setting: getattr(figures, setting) for setting in SETTINGS}

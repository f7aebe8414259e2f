"""Load a run and the files that its question names, and decide anew."""

import shlex
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from advisor.core import (
    HEAD,
    HEAD_SUBSET,
    Decision,
    Evaluation,
    Status,
    UsageError,
    parse,
    parse_known,
    units,
    without_passwords,
)
from advisor.datasets import InputSpec
from advisor.engine._decide import decide_run
from advisor.engine._question import Question, Request, resolve
from advisor.store import CHANGED, REPORTS, SEAL, Problem, RunFolder, read_yaml, seal_problems

INPUTS = "inputs.json"
CATALOGS = "catalogs"
LABELS = "labels.json"
PATHS = ("data", "profiles", "catalog")
"""Options of the question that name files."""

CONTINUES_FOR = "10min"
"""Time that a command gives a search that is continued."""


def keep_inputs(run: RunFolder, question: Question) -> None:
    """Write the folder that relative paths of the question are counted from, and a copy of each catalogue."""
    copies = {}
    for number, path in enumerate(question.catalog):
        # Numbers and not names: two catalogues may have one name in different folders.
        copies[_text(path)] = name = f"{CATALOGS}/{number}.yaml"
        values = {**read_yaml(path).values, "folder": _text(path.absolute().parent)}
        run.write(name, yaml.safe_dump(without_passwords(values), sort_keys=False, allow_unicode=True))
    run.write_json(INPUTS, {"folder": _text(Path.cwd()), "catalogs": copies})


def locate_paths(request: Request, run: RunFolder) -> Request:
    """Return the request of a run with paths that can be opened from the current folder.

    A path counts from the folder that the run was started in. The copy of a catalogue in the run takes its place if it
    is no longer there. Other paths stay as they were typed. As many images are read as the run has drawn.
    """
    question = request.question
    data = None if question.data is None else _find_copy(question.data, run)
    profiles = tuple(_find_copy(path, run) for path in question.profiles)
    catalog = tuple(_find_copy(path, run) for path in question.catalog)
    dataset = run.read_json("dataset.json")
    most = dataset.get("most_images", 0) if dataset else None
    return replace(request, question=replace(question, data=data, profiles=profiles, catalog=catalog, most_images=most))


def images_folder(run: RunFolder) -> Path:
    """Return the folder that the paths of the images in ``split.json`` are relative to."""
    return _find_copy(Path(str(run.read_json("dataset.json").get("folder", ""))), run)


def _find_copy(path: Path, run: RunFolder) -> Path:
    # `inputs.json` and the request may have been edited, so that they have paths that no system can have.
    inputs = run.read_json(INPUTS)
    started = Path(str(inputs.get("folder", "")))
    # In the same folder a path stays as the user typed it, for messages and commands.
    there = path if started == Path.cwd() else started / path
    with suppress(OSError, ValueError):
        if there.exists():
            return there
    copies = parse_known({CATALOGS: dict[str, str]}, inputs).get(CATALOGS, {})
    with suppress(OSError, ValueError):
        copy = run.path / copies.get(_text(path), "")
        # A copy outside of the run is not read.
        if copy.is_file() and copy.resolve().is_relative_to(run.path):
            return copy
    return path


def _text(path: Path) -> str:
    """Return a path as JSON and YAML can hold it; a name that is not UTF-8 is not found again."""
    # JSON and YAML in UTF-8 cannot hold the surrogates by which Python keeps other bytes.
    return str(path).encode("utf-8", "backslashreplace").decode("utf-8")


def continue_command(folder: object) -> str:
    """Return the command that continues a search which its time limit ended."""
    return f"advisor search --resume {shlex.quote(str(folder))} --extend {CONTINUES_FOR}"


@dataclass(frozen=True)
class Unfinished:
    """A search that has not ended.

    Attributes:
        evaluated: number of configurations with a result, or with a reason why they have none.
        configurations: number of all configurations of the search.
        running: the search itself gives this answer; otherwise it may run or have been stopped.
        at: date and time as ISO 8601 in UTC, to the second.
    """

    evaluated: int
    configurations: int
    running: bool
    at: str

    def sentence(self, folder: str) -> str:
        """Return the state in words, with the command that continues a stopped search in ``folder``."""
        state = "Search is running" if self.running else "The search has not ended"
        when = units.show_time(datetime.fromisoformat(self.at))
        return (
            f"{state}, {self.evaluated} of {self.configurations} configurations have results ({when}). "
            f"If it was stopped, continue it: advisor search --resume {shlex.quote(folder)}"
        )


@dataclass(frozen=True)
class LoadedRun:
    """The content of a run folder, and the decision over it under the limits of ``request``, its own or others.

    Manifest and dataset are empty where they are missing, damaged or changed. ``decision`` is the one model for all
    devices. ``problems`` say what does not prove itself, see :func:`advisor.store.seal_problems`.
    """

    folder: RunFolder
    request: Request
    manifest: Mapping[str, Any]
    dataset: Mapping[str, Any]
    evaluations: tuple[Evaluation, ...]
    decision: Decision
    by_device: Mapping[str, Decision] = field(default_factory=dict)
    own_question: bool = True
    problems: tuple[Problem, ...] = ()

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.path.name

    @property
    def question(self) -> Question:
        """The question, with the limits that the decision was made under."""
        return self.request.question

    @property
    def too_early(self) -> str:
        """That its time limit or an interruption ended the search before its first result; empty if there is one."""
        # The manifest is written before the first job and once more at the end. Without the reason, the search was
        # killed.
        killed = not self.manifest or "configurations" in self.manifest
        stopped = read_section(self.manifest, "stopped").get("why", "interrupt" if killed else "")
        ended = {"time_limit": "Time ran out", "interrupt": "The search ended"}.get(stopped)
        if ended is None or "reevaluated" in self.manifest or any(e.status != Status.SKIPPED for e in self.evaluations):
            return ""
        advice = "Give it more time, or continue it." if stopped == "time_limit" else "Continue it."
        return f"{ended} before the first result, so nothing is known about the limits. {advice}"

    def require_proof(self, beside: tuple[str, ...] = ()) -> None:
        """Refuse a run that has changed since it was written; files that begin with ``beside`` may have."""
        for problem in self.problems:
            # Reports are written anew by later commands, so a changed one proves nothing against the figures.
            if problem.kind == CHANGED and not problem.file.startswith((*REPORTS, *beside)):
                raise UsageError(
                    f"'{self.folder.path}' does not prove itself: {problem}",
                    f"advisor doctor {self.folder.path} names all that does not fit; restore the run, or search again",
                )


def load_run(run: Path | str | RunFolder, changes: Mapping[str, object] | None = None) -> LoadedRun:
    """Load a run folder, complete or not, and decide; refuse a damaged request or one of another version.

    ``changes`` are options of the request to change, such as ``{"budget": "30ms"}``; None values change nothing.
    """
    folder = run if isinstance(run, RunFolder) else RunFolder.open(Path(run))
    try:
        stored = resolve(_without_version(read_stored_request(folder)))
    except UsageError as error:
        raise UsageError(
            f"the request of '{folder.path}' is damaged or of another version: {error.message}",
            "correct its request.yaml, or open it with the version that wrote it (manifest.json names it)",
        ) from None
    stored = locate_paths(stored, folder)
    # The stored request is resolved again only with changes: its own paths were found above already.
    wanted = {}
    for key, value in (changes or {}).items():
        if value is not None:
            wanted[key] = value
    request = resolve({**stored.written, **wanted}) if wanted else stored
    question = replace(
        request.question, **{name: getattr(stored.question, name) for name in PATHS if name not in wanted}
    )
    request = replace(request, question=question)
    answer = decide_run(folder, _with_required(folder.evaluations(), question), question)
    loaded = LoadedRun(
        folder=folder,
        request=request,
        manifest=_without_version(folder.read_json("manifest.json")),
        dataset=_without_version(folder.read_json("dataset.json")),
        evaluations=answer.evaluations,
        decision=answer.decision,
        by_device=answer.by_device,
        own_question=_deciding(question) == _deciding(stored.question),
        problems=tuple(seal_problems(folder)),
    )
    early = loaded.too_early
    return replace(loaded, decision=replace(loaded.decision, reason=early)) if early else loaded


def _deciding(question: Question) -> tuple[object, ...]:
    return question.limits, question.preference, question.fleet


@dataclass(frozen=True)
class WrongLabel:
    """An image whose label is likely wrong.

    Attributes:
        path: path of the image, relative to the data set.
        label: its class.
        suggested: the class that fits best.
        given: probability (0-1) of its class.
        better: probability (0-1) of the class that fits best.
    """

    path: str
    label: str
    suggested: str
    given: float
    better: float


@dataclass(frozen=True)
class CheckedLabels:
    """The result of the check.

    Attributes:
        card: the card whose features checked the labels.
        images: number of images that were checked: all but the hold-out.
        found: the images whose labels are likely wrong, the least likely label first.
    """

    card: str
    images: int
    found: tuple[WrongLabel, ...]


def read_label_check(run: RunFolder) -> CheckedLabels | None:
    """Return what the search found in the labels; None if it did not check them, or the document is damaged."""
    document = run.read_json(LABELS)
    try:
        checked: CheckedLabels = parse(CheckedLabels, {name: document[name] for name in ("card", "images", "found")})
    except (KeyError, TypeError, ValueError):
        return None
    return checked


def read_unfinished_search(run: LoadedRun, running: bool) -> Unfinished | None:
    """Return how far a search came; None if its manifest says why it ended, or is missing or damaged."""
    configurations = run.manifest.get("configurations")
    if not isinstance(configurations, int) or (run.manifest.get("stopped") and not running):
        return None
    devices = Counter(evaluation.configuration.target.device for evaluation in run.evaluations)
    evaluated = min(configurations, max(devices.values(), default=0))
    return Unfinished(evaluated, configurations, running, datetime.now(UTC).isoformat(timespec="seconds"))


def _with_required(evaluations: tuple[Evaluation, ...], question: Question) -> tuple[Evaluation, ...]:
    """Return the evaluations, with predictions on required devices that the run has no evaluations for."""
    known = {evaluation.configuration.target.device for evaluation in evaluations}
    missing = [device for device in question.limits.must_run_on if device not in known]
    if not missing or not any(evaluation.status is Status.OK for evaluation in evaluations):
        return evaluations
    from advisor.engine._targets.device_prediction import DevicePredictor
    from advisor.engine._targets.target_devices import select_devices

    devices = select_devices(missing, question.profiles, "--must-run-on")
    for device in devices:
        if device.runtime is not None:
            raise UsageError(
                f"--must-run-on: the run has no measurements with '{device.label}'",
                f"measure its files first: advisor reevaluate RUN --device {device.label}",
            )
    predictor = DevicePredictor()
    limits = question.limits
    predicted = list[Evaluation]()
    for device in devices:
        predicted += predictor.evaluate(evaluations, device, limits.latency_ms, limits.confidence)
    return (*evaluations, *predicted)


def read_stored_request(folder: RunFolder) -> dict[str, Any]:
    """Return the request of a run. A run from before fine-tuning was a default keeps its heads alone."""
    request = dict(folder.read_request())
    trained = read_section(folder.read_json("manifest.json"), "space").get("training")
    # Without this, reading an old run would ask for fine-tuning that it never planned.
    if not request.get("training") and trained in ([HEAD], [HEAD_SUBSET, HEAD]):
        request["training"] = [HEAD]
    return request


def _without_version(document: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in ("schema_version", SEAL)}


def read_section(document: Mapping[str, object], name: str) -> Mapping[str, Any]:
    """Return the object under ``name`` of a JSON document; an empty one where there is none, as in a damaged file."""
    value = document.get(name)
    return value if isinstance(value, Mapping) else {}


def input_spec(evaluation: Evaluation) -> InputSpec:
    """Return size and normalisation of the model's input; ValueError if the evaluation does not know them."""
    size = evaluation.card_facts.input_size
    preprocessing = evaluation.card_facts.preprocessing
    if size is None or preprocessing is None:
        raise ValueError(f"the run does not say how {evaluation.configuration.card} takes its images")
    return InputSpec(size, preprocessing.mean, preprocessing.std)

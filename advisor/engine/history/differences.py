"""Find what differs between two runs besides figures: question, data, catalogue, devices, versions, candidates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import asdict, dataclass, replace

from advisor.core.evaluation import Evaluation, Status
from advisor.engine.history.loaded_run import LoadedRun, section
from advisor.engine.question import QUESTION_OPTIONS
from advisor.store.files import sha256_json

_HOST_FACTS = ("cpu", "cores", "memory_bytes", "system", "fingerprint")


@dataclass(frozen=True)
class Difference:
    """One thing that differs between two runs.

    Attributes:
        topic: ``question``, ``data``, ``catalogue``, ``devices``, ``versions`` or ``candidates``.
        what: its name.
        before: its value in the earlier run, empty where it had none.
        after: its value in the later run, empty where it has none.
    """

    topic: str
    what: str
    before: str
    after: str


def find_differences(before: LoadedRun, after: LoadedRun) -> tuple[Difference, ...]:
    """Return everything that differs between two runs besides figures.

    A card that only one run considered is one difference: what the other run does not know of it is none.
    """
    both = _cards(before) & _cards(after)
    return (
        *_rows("question", _question(before), _question(after)),
        *_rows("data", _data(before), _data(after)),
        *_changed("catalogue", _catalogue(before), _catalogue(after)),
        *_rows("devices", _devices(before), _devices(after)),
        *_rows("versions", _versions(before), _versions(after)),
        *_rows("candidates", _considered(before, after, "first"), _considered(after, before, "second")),
        *_rows("candidates", _forms(before, both), _forms(after, both)),
    )


def _rows(topic: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterable[Difference]:
    for what in dict.fromkeys([*before, *after]):
        if before.get(what, "") != after.get(what, ""):
            yield Difference(topic, what, before.get(what, ""), after.get(what, ""))


def _changed(topic: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterable[Difference]:
    """Return the differences of what both runs know."""
    return (row for row in _rows(topic, before, after) if row.before and row.after)


def _question(run: LoadedRun) -> dict[str, str]:
    values = {name: _text(run.request.written[name]) for name in QUESTION_OPTIONS}
    costs = sha256_json(values["costs"])[:16] if values["costs"] else ""
    return {**values, "prefer": str(run.question.preference), "metric": run.question.metric, "costs": costs}


def _data(run: LoadedRun) -> dict[str, str]:
    counts = section(run.dataset, "pictures_per_class")
    classes = {f"images of '{name}'": str(count) for name, count in counts.items()}
    rest = {name: _text(run.dataset.get(name)) for name in ("train", "validation", "holdout", "fingerprint")}
    return {**classes, **{name: value for name, value in rest.items() if value}}


def _catalogue(run: LoadedRun) -> dict[str, str]:
    """Return the facts of each card: the hash of its content, its weights, its size."""
    found: dict[str, str] = {}
    for name, digest in section(run.manifest, "cards").items():
        found[f"card {name}"] = str(digest)[:16]
    for name, file in section(run.manifest, "weights").items():
        found[f"weights of {name}"] = str(file.get("sha256", ""))[:16] if isinstance(file, Mapping) else str(file)
    for evaluation in run.evaluations:
        facts = replace(evaluation.card_facts, weights=None)
        for name, value in asdict(facts).items():
            if value is not None:
                found[f"{name} of {evaluation.configuration.card}"] = _text(value)
    return found


def _devices(run: LoadedRun) -> dict[str, str]:
    host = section(run.manifest, "host")
    facts = {f"host {name}": _text(host.get(name)) for name in _HOST_FACTS}
    targets = {(e.configuration.target.device, e.configuration.target.accelerator) for e in run.evaluations}
    profiles = section(run.manifest, "devices")
    hashes = {f"profile {name}": str(value)[:16] for name, value in profiles.items()}
    return {
        **facts,
        **hashes,
        **{f"device {device}, {accelerator}": "evaluated" for device, accelerator in sorted(targets)},
    }


def _versions(run: LoadedRun) -> dict[str, str]:
    found = {name: str(version) for name, version in section(run.manifest, "versions").items()}
    return {"advisor": _text(run.manifest.get("advisor")), **found}


def _cards(run: LoadedRun) -> set[str]:
    """Return the cards that a run considered."""
    return {*section(run.manifest, "cards"), *(e.configuration.card for e in run.evaluations)}


def _considered(run: LoadedRun, other: LoadedRun, ordinal: str) -> dict[str, str]:
    """Return what ``run`` says of each card that only one of the two runs considered; ``ordinal`` names ``run``."""
    own, others = _cards(run), _cards(other)
    absent = f"not a candidate in the {ordinal} run"
    return {**dict.fromkeys(sorted(own - others), "candidate"), **dict.fromkeys(sorted(others - own), absent)}


def _forms(run: LoadedRun, cards: Set[str]) -> dict[str, str]:
    """Return the status of each configuration of ``cards``."""
    return {e.configuration.key: _status(e) for e in run.evaluations if e.configuration.card in cards}


def _status(evaluation: Evaluation) -> str:
    return str(evaluation.status) if evaluation.status is Status.OK else f"{evaluation.status}: {evaluation.reason}"


def _text(value: object) -> str:
    if value is None or value == "" or value == []:
        return ""
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)

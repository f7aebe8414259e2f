"""Which run came from which: a re-evaluated run names its parent in its manifest."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from advisor.core.evaluation import Evaluation
from advisor.core.evaluation_json import evaluation_to_json
from advisor.core.figures import HOST
from advisor.engine.history.loaded_run import LoadedRun
from advisor.store import RunFolder
from advisor.store.atomic import write_atomically
from advisor.version import __version__

_STAMP = re.compile(r"^\d{8}-\d{6}-")


@dataclass(frozen=True)
class Relation:
    """What a manifest says of a run's origin.

    Attributes:
        path: the run folder.
        parent: name of the run that it was made from, empty for one that was searched.
        root: name of the search at the beginning, its own name for a search.
        device: the device that it answers for.
        environment: hash of what it was evaluated under, empty for a search.
        made: when, as ISO 8601.
    """

    path: Path
    parent: str
    root: str
    device: str
    environment: str
    made: str


def relations(out: Path) -> tuple[Relation, ...]:
    """Return every run under ``out``, oldest first; folders that are no whole run are left out."""
    found = [
        _relation(path)
        for path in sorted(out.iterdir() if out.is_dir() else ())
        if not path.is_symlink() and (path / "request.yaml").is_file()
    ]
    return tuple(sorted(found, key=lambda relation: (relation.made, relation.path.name)))


def relation_of(path: Path, known: Sequence[Relation]) -> Relation:
    """Return the relation of one run."""
    resolved = path.resolve()
    return next((relation for relation in known if relation.path.resolve() == resolved), _relation(resolved))


def newest(root: str, device: str, known: Sequence[Relation]) -> Relation | None:
    """Return the latest run that came from ``root`` and answers for ``device``, the root itself among them."""
    return next((r for r in reversed(known) if r.root == root and r.device == device), None)


def made_already(parent: str, environment: str, known: Sequence[Relation]) -> Relation | None:
    """Return the run that was made from ``parent`` under the same environment, or None."""
    return next((r for r in known if r.parent == parent and r.environment == environment), None)


def _relation(path: Path) -> Relation:
    manifest = RunFolder(path).read_json("manifest.json")
    origin = manifest.get("reevaluated")
    facts: Mapping[str, Any] = origin if isinstance(origin, Mapping) else {}
    return Relation(
        path=path,
        parent=str(facts.get("parent", "")),
        root=str(facts.get("root", path.name)),
        device=str(facts.get("device", "host")),
        environment=str(facts.get("environment", "")),
        made=str(manifest.get("updated", "")),
    )


@dataclass(frozen=True)
class Child:
    """What a new run is to hold.

    Attributes:
        evaluations: all of them.
        device: what it answers for.
        environment: hash of what it was evaluated under.
        changes: entries of the manifest that differ from the parent's.
        answers: new answers on the hold-out by path within the run; the parent's are shared for the others.
        sources: runs to take files from that the parent does not have.
    """

    evaluations: Sequence[Evaluation]
    device: str
    environment: str
    changes: Mapping[str, Any]
    answers: Mapping[str, Sequence[int]] = field(default_factory=dict)
    sources: Sequence[Path] = ()


def write_child(parent: LoadedRun, relation: Relation, child: Child) -> RunFolder:
    """Write a new run beside its parent; files that are as they were are shared with it.

    The request comes last: what was killed half-way is no run.

    Args:
        parent: the run that it is made from.
        relation: the parent's origin.
        child: what it is to hold.
    """
    base = _STAMP.sub("", relation.root)
    run = RunFolder.create(parent.folder.path.parent, f"{base[:20]} {child.device}")
    origin = {"parent": parent.name, "root": relation.root, "device": child.device, "environment": child.environment}
    manifest = {
        **parent.manifest,
        **child.changes,
        "advisor": __version__,
        "updated": datetime.now(UTC).isoformat(timespec="microseconds"),
        "reevaluated": origin,
    }
    run.write_json("manifest.json", manifest)
    for name, labels in child.answers.items():
        run.keep_answers(Path(name).stem, labels)
    for source in (parent.folder.path, *child.sources):
        _share(source, run, child.evaluations)
    lines = [json.dumps(evaluation_to_json(evaluation), ensure_ascii=False) for evaluation in child.evaluations]
    write_atomically(run.evaluations_file, "".join(f"{line}\n" for line in lines))
    asked = parent.request.written["device"] if child.device == HOST else child.device
    run.write_request({**parent.request.written, "device": asked})
    return run


def _share(parent: Path, run: RunFolder, evaluations: Sequence[Evaluation]) -> None:
    names = {"dataset.json", "split.json"}
    names |= {evaluation.artefact for evaluation in evaluations if evaluation.artefact}
    names |= {name for evaluation in evaluations for name in _answers(evaluation)}
    for name in sorted(names):
        source = parent / name
        if source.is_file() and source.resolve().is_relative_to(parent.resolve()):
            run.share(source, name)


def _answers(evaluation: Evaluation) -> tuple[str, ...]:
    """Return the files of the artefact's answers, on the validation part and on the hold-out."""
    known = (evaluation.answers, evaluation.holdout_answers)
    return tuple(answers.file for answers in known if answers is not None and answers.file)

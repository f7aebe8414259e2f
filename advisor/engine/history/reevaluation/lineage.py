"""The origin of runs: a re-evaluated run names its parent in its manifest."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from advisor.core.evaluation import Evaluation
from advisor.core.evaluation_json import evaluation_to_json
from advisor.core.figures import HOST
from advisor.engine.history.inputs import CATALOGS, INPUTS
from advisor.engine.history.loaded_run import LoadedRun, section
from advisor.store import RunFolder
from advisor.store.files import write_atomically
from advisor.version import __version__

_STAMP = re.compile(r"^\d{8}-\d{6}-")


@dataclass(frozen=True)
class Origin:
    """The origin of a run, as its manifest says.

    Attributes:
        path: the run folder.
        parent: name of the run that it was made from, empty for a search.
        root: name of the search at the beginning; a search is its own root.
        device: the device that it answers for.
        environment: hash of what its figures depend on, empty for a search.
        updated: when the manifest was written, as ISO 8601.
    """

    path: Path
    parent: str
    root: str
    device: str
    environment: str
    updated: str


def read_origins(out: Path) -> tuple[Origin, ...]:
    """Return the origin of every run under ``out``, oldest first; incomplete run folders are left out."""
    origins = [
        read_origin(path)
        for path in sorted(out.iterdir() if out.is_dir() else ())
        if not path.is_symlink() and (path / "request.yaml").is_file()
    ]
    return tuple(sorted(origins, key=lambda origin: (origin.updated, origin.path.name)))


def read_origin(path: Path) -> Origin:
    """Return the origin of one run."""
    manifest = RunFolder(path).read_json("manifest.json")
    facts = section(manifest, "reevaluated")
    return Origin(
        path=path,
        parent=str(facts.get("parent", "")),
        root=str(facts.get("root", path.name)),
        device=str(facts.get("device", HOST)),
        environment=str(facts.get("environment", "")),
        updated=str(manifest.get("updated", "")),
    )


def latest_descendant(root: str, device: str, known: Sequence[Origin]) -> Origin | None:
    """Return the latest run that came from ``root`` and answers for ``device``; it may be the root itself."""
    return next((origin for origin in reversed(known) if origin.root == root and origin.device == device), None)


@dataclass(frozen=True)
class Child:
    """The content of a run that is made from another one.

    Attributes:
        evaluations: all of them.
        device: the device that it answers for.
        environment: hash of what its figures depend on.
        manifest: entries of the manifest that differ from the parent's.
        answers: new answers on the hold-out by path within the run; other answers are shared with the parent.
        sources: further runs to take files from.
    """

    evaluations: Sequence[Evaluation]
    device: str
    environment: str
    manifest: Mapping[str, object]
    answers: Mapping[str, Sequence[float]] = field(default_factory=dict)
    sources: Sequence[Path] = ()


def write_child(parent: LoadedRun, origin: Origin, child: Child) -> RunFolder:
    """Write a new run beside its parent; files that did not change are shared with it.

    The request is written last: a run folder without one is incomplete.

    Args:
        parent: the run that it is made from.
        origin: the parent's origin.
        child: the content.
    """
    name = _STAMP.sub("", origin.root)
    run = RunFolder.create(parent.folder.path.parent, f"{name[:20]} {child.device}")
    run.write_json("manifest.json", _manifest(parent, origin, child))
    for file, labels in child.answers.items():
        run.keep_answers(Path(file).stem, labels)
    for source in (parent.folder.path, *child.sources):
        _share_files(source, run, child.evaluations)
    lines = [json.dumps(evaluation_to_json(evaluation), ensure_ascii=False) for evaluation in child.evaluations]
    write_atomically(run.evaluations_file, "".join(f"{line}\n" for line in lines))
    device = parent.request.written["device"] if child.device == HOST else child.device
    run.write_request({**parent.request.written, "device": device})
    return run


def _manifest(parent: LoadedRun, origin: Origin, child: Child) -> dict[str, object]:
    facts = {"parent": parent.name, "root": origin.root, "device": child.device, "environment": child.environment}
    return {
        **parent.manifest,
        **child.manifest,
        "advisor": __version__,
        "updated": datetime.now(UTC).isoformat(timespec="microseconds"),
        "reevaluated": facts,
    }


def _share_files(source: Path, run: RunFolder, evaluations: Sequence[Evaluation]) -> None:
    names = {"dataset.json", "split.json", INPUTS}
    names |= {f"{CATALOGS}/{file.name}" for file in (source / CATALOGS).glob("*.yaml")}
    names |= {evaluation.artefact for evaluation in evaluations if evaluation.artefact}
    answers = [answers for evaluation in evaluations for answers in (evaluation.answers, evaluation.holdout_answers)]
    names |= {file for each in answers if each is not None for file in (each.file, each.shares) if file}
    for name in sorted(names):
        file = source / name
        if file.is_file() and file.resolve().is_relative_to(source.resolve()):
            run.share(file, name)

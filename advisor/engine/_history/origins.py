"""Read where runs came from, and write a run that is made from an earlier one.

A re-evaluation reads the ``Origin`` of all runs of a folder and writes each answer as a ``Child``.
Answers for a fleet and timings of a browser become runs in the same way. The attributes of
``Origin`` are entries of ``reevaluated`` in ``manifest.json``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from advisor.core import HOST, Evaluation
from advisor.devices import ConnectionSettings
from advisor.engine._history.loaded_run import LoadedRun
from advisor.engine._history.run_inputs import CATALOGS, INPUTS, read_section
from advisor.store import RunFolder, chain_lines
from advisor.version import __version__


@dataclass(frozen=True)
class Origin:
    """The origin of a run, as its manifest says:
    names of its parent, empty for a search, and of the first search.

    ``environment`` hashes what its figures for ``device`` depend on, empty for a search;
    ``predictions`` hashes what its predictions alone depend on. ``settled`` hashes this with the
    software of a connected device, if all files were measured there that may become the pick.
    ``updated`` is in ISO 8601.
    """

    path: Path
    parent: str
    root: str
    device: str
    environment: str
    updated: str
    predictions: str = ""
    settled: str = ""

    def is_current(self, predictions: str, settled: str) -> bool:
        """Return whether the figures depend on the same as now;
        ``settled`` is empty if nothing can be measured now.
        """
        if settled:
            return self.settled == settled
        return self.predictions == predictions


def read_origins(out: Path) -> tuple[Origin, ...]:
    """Return the origin of every run under ``out``, oldest first;
    incomplete run folders are left out.
    """
    paths = sorted(out.iterdir()) if out.is_dir() else []
    origins = []
    for path in paths:
        # `latest` is a link to one of the runs, which would count twice.
        if not path.is_symlink() and (path / "request.yaml").is_file():
            origins.append(read_origin(path))
    return tuple(sorted(origins, key=lambda origin: (origin.updated, origin.path.name)))


def read_origin(path: Path) -> Origin:
    """Return the origin of one run."""
    manifest = RunFolder(path).read_json("manifest.json")
    facts = read_section(manifest, "reevaluated")
    environment = str(facts.get("environment", ""))
    return Origin(
        path,
        parent=str(facts.get("parent", "")),
        root=str(facts.get("root", path.name)),
        device=str(facts.get("device", HOST)),
        environment=environment,
        updated=str(manifest.get("updated", "")),
        # Runs of versions that measured nothing here have predictions alone.
        predictions=str(facts.get("predictions", environment)),
        settled=str(facts.get("settled", "")),
    )


def find_latest_descendant(root: str, device: str, known: Sequence[Origin]) -> Origin | None:
    """Return the latest run that came from ``root`` and answers for ``device``;
    it may be the root itself.
    """
    for origin in reversed(known):
        if origin.root == root and origin.device == device:
            return origin
    return None


@dataclass(frozen=True)
class Child:
    """The content of a run that is made from another one, for a device.

    Attributes:
        evaluations: all its evaluations.
        device: the device that it answers for.
        environment: hash of what its figures depend on.
        manifest: the entries that differ from the parent's.
        answers: the new answers on the hold-out by path within the run.
        sources: folders whose files it shares, beside those of the parent.
        origin: the further entries of :class:`Origin`.
    """

    evaluations: Sequence[Evaluation]
    device: str
    environment: str
    manifest: Mapping[str, object]
    answers: Mapping[str, Sequence[float]] = field(default_factory=dict)
    sources: Sequence[Path] = ()
    origin: Mapping[str, str] = field(default_factory=dict)

    def write(self, parent: LoadedRun, origin: Origin) -> RunFolder:
        """Write a new run beside its parent, with which it shares unchanged files;
        the request is written last.

        Its name has ``again`` and the device.
        """
        # Without the time of the first search, because the new folder begins with its own time.
        name = re.sub(r"^\d{8}-\d{6}-", "", origin.root)
        # ``latest`` stays the search's, so that exporting it ships what somebody decided.
        run = RunFolder.create(
            parent.folder.path.parent, f"{name[:20]} again {self.device}", is_latest=False
        )
        facts = {
            "parent": parent.name,
            "root": origin.root,
            "device": self.device,
            "environment": self.environment,
            **self.origin,
        }
        updated = datetime.now(UTC).isoformat(timespec="microseconds")
        entries = {
            **parent.manifest,
            **self.manifest,
            "advisor": __version__,
            "updated": updated,
            "reevaluated": facts,
        }
        for file, labels in self.answers.items():
            run.keep_answers(Path(file).stem, labels)
        for source in (parent.folder.path, *self.sources):
            _share_files(source, run, self.evaluations)
        run.write(run.evaluations_file.name, chain_lines(self.evaluations)[0])
        run.write_json("manifest.json", entries)
        device = parent.request.written["device"] if self.device == HOST else self.device
        request = {**parent.request.written, "device": device}
        if ConnectionSettings.names_cloud(str(device)):
            # A search that opened no connection does not forbid
            # to ask about a device of a cloud afterwards.
            request["offline"] = False
        # Last, because a folder without a request is not taken for a run:
        # a kill before leaves nothing that looks complete.
        run.write_request(request)
        run.reseal("request.yaml")
        return run


def _share_files(source: Path, run: RunFolder, evaluations: Sequence[Evaluation]) -> None:
    """Link the files of the earlier run that the evaluations name into the new run;
    none from outside of the run.
    """
    names = {"dataset.json", "split.json", INPUTS}
    # Only what an evaluation names is shared:
    # a run folder may also hold what its user has put there.
    names |= {f"{CATALOGS}/{file.name}" for file in (source / CATALOGS).glob("*.yaml")}
    for evaluation in evaluations:
        if evaluation.artefact:
            names.add(evaluation.artefact)
        for copy in (evaluation.unknown, evaluation.on_all):
            if copy is not None and copy.file:
                names.add(copy.file)
        for answers in (evaluation.answers, evaluation.holdout_answers):
            if answers is not None:
                names.update(filter(None, (answers.file, answers.shares)))
    for name in sorted(names):
        file = source / name
        # Names come from a file that may have been edited:
        # a link or `..` must not take files from elsewhere.
        if file.is_file() and file.resolve().is_relative_to(source.resolve()):
            run.share(file, name)

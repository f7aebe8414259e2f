"""Store one search in one folder; every result is written at once, so that a killed search loses only running work."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
import yaml
from filelock import FileLock, Timeout

from advisor.core.errors import UsageError
from advisor.core.evaluation import Evaluation, Status, evaluation_from_json, evaluation_to_json
from advisor.core.units import plural
from advisor.isolation.resources import no_follow
from advisor.store.files import (
    copy_atomically,
    full_disk,
    is_full_disk,
    remove_unfinished,
    sha256_file,
    write_atomically,
)
from advisor.store.jsonfile import KINDS, MAX_BYTES, SCHEMA_VERSION, parse_json, read_document
from advisor.store.yamlfile import read_text, read_yaml

REQUEST_BYTES = 4 * 2**20  # Largest request in bytes: a command line is at most half as long


def answers_file(name: str) -> str:
    """Return the path within a run of the answers of this name."""
    return f"answers/{name}.npy"


class RunFolder:
    """A folder under ``runs/``; the files in it are part of the product's contract (``docs/design.md``)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.evaluations_file = path / "evaluations.jsonl"
        self.study_file = path / "study.journal"
        self.log_file = path / "log.txt"
        self.artefacts = path / "artifacts"
        self._lock = FileLock(path / ".lock", thread_local=False)  # the thread that works releases it

    @classmethod
    def create(cls, out: Path, slug: str, now: datetime | None = None) -> RunFolder:
        """Make a new folder ``out/<date>-<time>-<slug>`` and link ``out/latest`` to it."""
        stamp = (now or datetime.now()).strftime("%Y%m%d-%H%M%S")
        name = f"{stamp}-{re.sub(r'[^a-z0-9]+', '-', slug.lower()).strip('-')[:40] or 'run'}"
        try:
            out.mkdir(parents=True, exist_ok=True)
            path = _new_folder(out, name)
            (path / "artifacts").mkdir()
            unfinished = out / f".latest-{os.getpid()}"
            unfinished.unlink(missing_ok=True)  # of a killed process with the same id
            unfinished.symlink_to(path.name)
            unfinished.replace(out / "latest")
        except OSError as error:
            raise UsageError(
                f"--out: cannot write to the folder '{out}' ({error.strerror or error})",
                "choose another folder, for example --out runs",
            ) from None
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open an existing run.

        UsageError if it is not a run folder, its request is damaged, or its schema is newer; or an entry at any level
        is a pipe or a device, or leads out of the folder: nothing may be read or written through such an entry.
        """
        request = path / "request.yaml"
        if not request.is_file() and (path / "artifacts").is_dir():
            raise UsageError(
                f"the search in '{path}' was ended before it began", "there is nothing to continue: start it again"
            )
        if not request.is_file():
            raise UsageError(
                f"'{path}' is not a run folder (no request.yaml)", "runs are under runs/, the newest at runs/latest"
            )
        root = path.resolve()
        for entry in (Path(top, name) for top, folders, files in os.walk(root) for name in (*folders, *files)):
            if not _inside(entry, root) and os.path.lexists(entry):  # files that a running search replaces are gone
                name = entry.relative_to(root)
                raise UsageError(
                    f"the run folder '{path}' is damaged: {name} is neither a file nor a folder in it",
                    f"remove {name}, or restore it",
                )
        version = _mapping(request).get("schema_version", 0)
        if not isinstance(version, int):
            raise _damaged(request, f"its schema_version is '{version}'")
        if version > SCHEMA_VERSION:
            raise UsageError(
                f"'{path}' was written by a newer advisor (schema {version}, this one reads {SCHEMA_VERSION})",
                "upgrade advisor to open it",
            )
        return cls(root)

    def place(self, name: str) -> Path:
        """Return the path of a file of the run to write to, with its folder made; every writer into a run asks here.

        UsageError if the name leads out of the run, or the file or a folder above it is a link.
        """
        parts = Path(name).parts
        if Path(name).is_absolute() or ".." in parts:
            raise UsageError(f"'{name}' leads out of the run folder '{self.path}'", "start a new run")
        for count in range(1, len(parts) + 1):
            if (part := self.path.joinpath(*parts[:count])).is_symlink():
                link = part.relative_to(self.path)
                raise UsageError(
                    f"the run folder '{self.path}' is damaged: {link} is a link, and nothing is written through it",
                    f"remove {link}, or restore it",
                )
        path = self.path / name
        path.parent.mkdir(exist_ok=True)
        return path

    def write(self, name: str, content: str | bytes) -> None:
        """Write a file of the run as a whole, see :func:`advisor.store.files.write_atomically`."""
        write_atomically(self.place(name), content)

    def hold(self) -> FileLock:
        """Return the lock of the run, acquired; release it at the end. UsageError if another process uses the run."""
        holder, _ = self.place(".holder"), self.place(".lock")
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            who = holder.read_text(encoding="utf-8") if holder.is_file() else "another process"
            raise UsageError(f"'{self.path}' is in use by {who}", "wait until it ends, or start a new run") from None
        write_atomically(holder, f"process {os.getpid()}")
        for folder in filter(Path.is_dir, (self.path, self.artefacts)):
            remove_unfinished(folder)
        return self._lock

    def in_use(self) -> bool:
        """Return whether a process of this machine works on the run; it is not disturbed.

        The lock is tried only if its last holder lives: a search that begins must not find it taken.
        """
        files = self.path / ".holder", self.path / ".lock"
        if not all(file.is_file() and not file.is_symlink() for file in files):
            return False
        try:
            holder = (self.path / ".holder").read_text(encoding="utf-8")
            if not psutil.pid_exists(int(holder.removeprefix("process "))):
                return False
            self._lock.acquire(timeout=0)
        except Timeout:
            return True
        except (OSError, ValueError):
            return False
        self._lock.release()
        return False

    def write_request(self, request: Mapping[str, Any]) -> None:
        """Write the resolved request; this happens once, before any work."""
        text = yaml.safe_dump({"schema_version": SCHEMA_VERSION, **request}, sort_keys=False, allow_unicode=True)
        self.write("request.yaml", text)

    def read_request(self) -> dict[str, Any]:
        """Return the resolved request."""
        return _mapping(self.path / "request.yaml")

    def write_json(self, name: str, value: dict[str, Any]) -> None:
        """Write a JSON document with its ``schema_version``."""
        document = {"schema_version": SCHEMA_VERSION, **value}
        self.write(name, json.dumps(document, indent=2, ensure_ascii=False) + "\n")

    def read_json(self, name: str) -> dict[str, Any]:
        """Return a JSON document of the run; see :func:`advisor.store.jsonfile.read_document`."""
        return dict(read_document(self.path / name).entries)

    def append(self, evaluation: Evaluation) -> None:
        """Add one evaluation; one that took work is on the disk then. StageError if the disk is full."""
        line = json.dumps(evaluation_to_json(evaluation), ensure_ascii=False) + "\n"
        try:
            with open(self.place(self.evaluations_file.name), "ab+", opener=no_follow) as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(size - 1, 0))
                torn = file.read(1) not in (b"", b"\n")  # the last line has no end
                file.write(("\n" * torn + line).encode())
                file.flush()
                if evaluation.status is not Status.SKIPPED:  # dozens at the end of a search, 30 ms each on a slow disk
                    os.fsync(file.fileno())
        except OSError as error:
            if is_full_disk(error):
                raise full_disk(self.path) from error
            raise

    def evaluations(self) -> tuple[Evaluation, ...]:
        """Return the last evaluation of each configuration; a line that a killed process left incomplete is ignored."""
        latest = {evaluation.configuration: evaluation for _, evaluation in self._lines() if evaluation is not None}
        return tuple(latest.values())

    def unread_lines(self) -> tuple[int, ...]:
        """Return the numbers (from 1) of the lines of the evaluations that are incomplete or damaged."""
        return tuple(number for number, evaluation in self._lines() if evaluation is None)

    def _lines(self) -> Iterator[tuple[int, Evaluation | None]]:
        """Return the number of each line of the evaluations that is not empty, and its evaluation if it has one."""
        if not self.evaluations_file.is_file():
            return
        text = read_text(self.evaluations_file, MAX_BYTES, errors="replace")
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                yield number, _evaluation(line)

    def keep_answers(self, name: str, answers: Sequence[float]) -> str:
        """Write the predicted label of each image, and return the file's path in the run.

        Numbers that are not whole by type are each image's share in the figure that decides.
        """
        import numpy as np

        values, file, content = np.asarray(answers), answers_file(name), io.BytesIO()
        np.save(content, values.astype(np.int32 if values.dtype.kind in "iu" else np.float32))
        self.write(file, content.getvalue())
        return file

    def keep_artefact(self, source: Path, name: str) -> Path:
        """Copy an artefact into the run, as a hard link if possible, and return its path."""
        return self.share(source, f"{self.artefacts.name}/{name}")

    def share(self, source: Path, name: str) -> Path:
        """Copy a file to ``name`` in the run, as a hard link if possible, and return its path.

        A file of that name that has other content, because a process was killed while it wrote it, is replaced.
        """
        target = self.place(name)
        same = target.is_file() and (source.samefile(target) or sha256_file(source) == sha256_file(target))
        if not same:
            copy_atomically(source, target)
        return target


def _inside(entry: Path, root: Path) -> bool:
    """Return whether an entry of the run folder ``root`` is a file or a folder that does not lead out of it."""
    if not (entry.is_file() or entry.is_dir()):
        return False
    return not entry.is_symlink() or entry.resolve().is_relative_to(root)


def _new_folder(out: Path, name: str) -> Path:
    for suffix in ("", *(f"-{count}" for count in range(2, 1000))):
        path = out / f"{name}{suffix}"
        with contextlib.suppress(FileExistsError):
            path.mkdir()
            return path.resolve()
    raise FileExistsError(f"{out / name} and 998 others exist")


def _mapping(file: Path) -> dict[str, Any]:
    try:
        data = read_yaml(file, REQUEST_BYTES).values
    except UsageError as error:
        raise _damaged(file, error.message.removeprefix(str(file)).lstrip(": ")) from None
    if not isinstance(data, dict):
        raise _damaged(file, "it is not a mapping")
    return data


def _damaged(file: Path, why: str) -> UsageError:
    return UsageError(
        f"the run folder '{file.parent}' is damaged: {file.name} cannot be read ({why})",
        "restore this file; advisor does not change the other files of the run",
    )


def _evaluation(line: str) -> Evaluation | None:
    """Return the evaluation of a line, None if the line is incomplete or damaged."""
    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
        found = parse_json(line)
        return evaluation_from_json(found) if isinstance(found, dict) else None
    return None


SHOWN = 5  # Most line numbers in a message


@dataclass(frozen=True)
class Problem:
    """One problem of a run folder."""

    file: str  # path within the run folder
    what: str  # what is wrong with it, and the consequence

    def __str__(self) -> str:
        return f"{self.file} {self.what}"


def integrity_problems(run: RunFolder, artefacts: bool = True) -> tuple[Problem, ...]:
    """Return all problems of a run; ``artefacts``: also hash every artefact (a second a gigabyte)."""
    found: list[Problem] = []
    for name in KINDS:
        if (path := run.path / name).exists():
            found += [Problem(name, what) for what in read_document(path).problems]
        elif name == "manifest.json":
            found.append(Problem(name, "is missing: versions, host and weights are not known"))
    lines, unread = run.evaluations_file, run.unread_lines()
    if not lines.is_file():
        found.append(Problem(lines.name, "is missing: nothing was evaluated"))
    if unread:
        shown = ", ".join(map(str, unread[:SHOWN])) + (", ..." if len(unread) > SHOWN else "")
        found.append(Problem(lines.name, f"has {plural(len(unread), 'unreadable line')} ({shown}): ignored"))
    evaluations = [evaluation for evaluation in run.evaluations() if evaluation.status is Status.OK]
    for name in sorted({evaluation.answers.file for evaluation in evaluations} - {""}):
        if not (run.path / name).is_file():
            found.append(Problem(name, "is missing: ties are decided by intervals, not by a paired test"))
    if artefacts:
        shipped = {evaluation.artefact: evaluation for evaluation in evaluations if evaluation.artefact}
        for each in evaluations:
            if (more := each.on_all) is not None and more.file:
                shipped[more.file] = replace(each, artefact=more.file, artefact_sha256=more.sha256)
        found += filter(None, (artefact_problem(run, evaluation) for evaluation in shipped.values()))
    return tuple(found)


def artefact_problem(run: RunFolder, evaluation: Evaluation) -> Problem | None:
    """Return the problem of one evaluation's artefact, or None."""
    if not evaluation.artefact:
        return Problem("evaluations.jsonl", f"names no artefact for {evaluation.configuration.key}")
    path = run.path / evaluation.artefact
    if not path.resolve().is_relative_to(run.path.resolve()):
        return Problem(evaluation.artefact, "is outside the run folder: it is not read")
    if not path.is_file():
        return Problem(evaluation.artefact, "is missing: it cannot be shipped or measured again")
    if sha256_file(path) != evaluation.artefact_sha256:
        return Problem(evaluation.artefact, "has changed since it was measured (its hash differs): it is not used")
    return None

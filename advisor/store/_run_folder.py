"""Store one search in one folder; every result is written at once, so that a killed search loses only running work."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
import yaml
from filelock import FileLock, Timeout

from advisor.core import (
    Evaluation,
    Status,
    UsageError,
    broken_rule,
    evaluation_from_json,
    evaluation_to_json,
    parse,
    plural,
)
from advisor.isolation import no_follow
from advisor.store._files import (
    copy_atomically,
    full_disk,
    is_full_disk,
    remove_unfinished,
    sha256_file,
    sha256_json,
    walk_folder,
    write_atomically,
)
from advisor.store._jsonfile import KINDS, MAX_BYTES, SCHEMA_VERSION, parse_json, read_document, read_json
from advisor.store._yamlfile import read_text, read_yaml

REQUEST_BYTES = 4 * 2**20  # Largest request in bytes: a command line is at most half as long
KEPT_BYTES = 2**22  # Largest JSON document that is kept in memory: the split of 25,000 images fits

MANIFEST = "manifest.json"
SEAL = "seal"
REPORTS = ("recommendation.json", "front.", "report.")  # How the names of reports begin
UNSEALED = (".", MANIFEST, "evaluations.jsonl", "study.journal", "study.sqlite", "log.txt", "progress.json")
SEALED_SINCE = "0.2.0"

GITIGNORE = """\
# What a re-evaluation reads: the request and the answers. The files of models and the reports stay out of git.
*
!.gitignore
!request.yaml
!manifest.json
!evaluations.jsonl
!dataset.json
!split.json
!inputs.json
!answers/
!answers/*
!catalogs/
!catalogs/*
"""
"""Content of ``.gitignore`` in a run folder."""

SHOWN = 5  # Most line numbers in a message
CHANGED = "changed"
OLD = "old"


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
        self._written = set[str]()  # files that were written here since the manifest
        self._head = 0, ""  # size of the evaluations after the last line that was added here, and its hash
        # what was read from a file by a function, with the file's state then
        self._read: dict[tuple[Path, Callable[[Path], Any]], tuple[object, Any]] = {}
        self._lock = FileLock(path / ".lock", thread_local=False)  # the thread that works releases it

    @classmethod
    def create(cls, out: Path, slug: str, now: datetime | None = None, is_latest: bool = True) -> RunFolder:
        """Make a new folder ``out/<date>-<time>-<slug>``, and link ``out/latest`` to it if ``is_latest``."""
        stamp = (now or datetime.now()).strftime("%Y%m%d-%H%M%S")
        name = f"{stamp}-{re.sub(r'[^a-z0-9]+', '-', slug.lower()).strip('-')[:40] or 'run'}"
        latest = out / "latest"
        if is_latest and latest.exists() and not latest.is_symlink():
            raise UsageError(
                f"--out: '{latest}' is no link, and the link to the newest run would replace it",
                "move it away, or choose another folder, for example --out other-runs",
            )
        try:
            out.mkdir(parents=True, exist_ok=True)
            path = _make_folder(out, name)
            (path / "artifacts").mkdir()
            (path / ".gitignore").write_text(GITIGNORE, encoding="utf-8")
            if is_latest:
                _link_latest(out, path.name)
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
        for entry in (top / name for top, folders, files in walk_folder(root) for name in (*folders, *files)):
            if not _is_inside(entry, root) and os.path.lexists(entry):  # files that a running search replaces are gone
                name = entry.relative_to(root)
                raise UsageError(
                    f"the run folder '{path}' is damaged: {name} is neither a file nor a folder in it",
                    f"remove {name}, or restore it",
                )
        version = _read_mapping(request).get("schema_version", 0)
        if not isinstance(version, int):
            raise _damage_error(request, f"its schema_version is '{version}'")
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
        self._written.add(name)
        return path

    def write(self, name: str, content: str | bytes) -> None:
        """Write a file of the run as a whole, see :func:`advisor.store.write_atomically`."""
        write_atomically(self.place(name), content)

    def hold(self) -> FileLock:
        """Return the lock of the run, acquired; release it at the end. UsageError if another process uses the run."""
        holder = self.place(".holder")
        _ = self.place(".lock")
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
        return _read_mapping(self.path / "request.yaml")

    def write_json(self, name: str, value: Mapping[str, Any]) -> None:
        """Write a JSON document with its ``schema_version``; the manifest gets its :class:`Seal`."""
        document = {"schema_version": SCHEMA_VERSION, **value}
        if name == MANIFEST:
            document = with_hash(document | {SEAL: self._make_seal()})
            self._written.clear()
        self.write(name, json.dumps(document, indent=2, ensure_ascii=False) + "\n")

    def _make_seal(self) -> dict[str, Any]:
        """Return the seal of the run as it is now, without reports: a search writes them again until it has ended.

        A file that was not written here keeps the hash that it had, so that a changed one does not get one that fits.
        """
        rows = [row for row in self.rows() if row.hash]
        known = self.seal.files
        hashes = {file: sha256 for row in rows if row.evaluation for file, sha256 in files_of(row.evaluation)}
        for path in sorted(filter(Path.is_file, self.path.rglob("*"))):
            name = path.relative_to(self.path).as_posix()
            if not name.startswith((*UNSEALED, *REPORTS, f"{self.artefacts.name}/")):
                hashes[name] = known[name] if name in known.keys() - self._written else sha256_file(path)
        return {"lines": len(rows), "head": rows[-1].hash if rows else "", "files": hashes}

    def reseal(self, *names: str) -> None:
        """Take the hashes of files that were written after the manifest into it; one without a seal gets none."""
        if self.seal.hash:
            document: Any = read_json(self.path / MANIFEST)
            document[SEAL]["files"] |= {name: sha256_file(self.path / name) for name in names}
            self.write(MANIFEST, json.dumps(with_hash(document), indent=2, ensure_ascii=False) + "\n")

    @property
    def seal(self) -> Seal:
        """What the manifest says of the other files."""
        seal: Seal = self._read_once(self.path / MANIFEST, _read_seal)
        return seal

    def _read_once(self, path: Path, read: Callable[[Path], Any]) -> Any:
        """Return what ``read`` makes of a file, which is read again only if it has changed."""
        facts = path.stat() if path.is_file() else None
        stamp = facts and (facts.st_ino, facts.st_mtime_ns, facts.st_size)
        if (path, read) not in self._read or self._read[path, read][0] != stamp:
            self._read[path, read] = stamp, read(path)
        return self._read[path, read][1]

    def is_unchanged(self, name: str) -> bool:
        """Return whether a file is as it was written: it is missing, has its hash of the manifest, or none is there."""
        if name == MANIFEST:
            return self.seal.whole
        path = self.path / name
        sha256 = self.seal.files.get(name)
        return (
            sha256 is None
            or name in self._written
            or not path.is_file()
            or self._read_once(path, sha256_file) == sha256
        )

    def read_json(self, name: str) -> dict[str, Any]:
        """Return a JSON document of the run; see :func:`advisor.store.read_document`. Empty if changed."""
        path = self.path / name
        if not self.is_unchanged(name):
            return {}
        small = path.is_file() and path.stat().st_size <= KEPT_BYTES
        return dict((self._read_once(path, read_document) if small else read_document(path)).entries)

    def append(self, evaluation: Evaluation) -> None:
        """Add one evaluation; one that took work is on the disk then. StageError if the disk is full."""
        try:
            with open(self.place(self.evaluations_file.name), "ab+", opener=no_follow) as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(size - 1, 0))
                torn = file.read(1) not in (b"", b"\n")  # the last line has no end
                if size != self._head[0]:
                    self._head = size, next((row.hash for row in reversed(self.rows()) if row.hash), "")
                line, head = chain_lines([evaluation], self._head[1])
                file.write(("\n" * torn + line).encode())
                self._head = file.tell(), head
                file.flush()
                if evaluation.status is not Status.SKIPPED:  # dozens at the end of a search, 30 ms each on a slow disk
                    os.fsync(file.fileno())
        except OSError as error:
            if is_full_disk(error):
                raise full_disk(self.path) from error
            raise

    def evaluations(self) -> tuple[Evaluation, ...]:
        """Return the last evaluation of each configuration; lines that are incomplete, or do not fit, are ignored."""
        latest = {row.evaluation.configuration: row.evaluation for row in self.rows() if row.evaluation is not None}
        return tuple(latest.values())

    def rows(self) -> list[Row]:
        """Return the lines of the evaluations that are not empty."""
        rows: list[Row] = self._read_once(self.evaluations_file, _read_rows)
        return rows

    def keep_answers(self, name: str, answers: Sequence[float]) -> str:
        """Write the predicted label of each image, and return the file's path in the run.

        Numbers that are not whole by type are each image's share in the figure that decides.
        """
        import numpy as np

        values = np.asarray(answers)
        file = answers_file(name)
        content = io.BytesIO()
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


def _is_inside(entry: Path, root: Path) -> bool:
    """Return whether an entry of the run folder ``root`` is a file or a folder that does not lead out of it."""
    if not (entry.is_file() or entry.is_dir()):
        return False
    return not entry.is_symlink() or entry.resolve().is_relative_to(root)


def _link_latest(out: Path, name: str) -> None:
    """Make ``out/latest`` lead to a run folder, in one step: a reader sees the old one or the new one."""
    unfinished = out / f".latest-{os.getpid()}"
    unfinished.unlink(missing_ok=True)  # of a killed process with the same id
    unfinished.symlink_to(name)
    unfinished.replace(out / "latest")


def _make_folder(out: Path, name: str) -> Path:
    for suffix in ("", *(f"-{count}" for count in range(2, 1000))):
        path = out / f"{name}{suffix}"
        with contextlib.suppress(FileExistsError):
            path.mkdir()
            return path.resolve()
    raise FileExistsError(f"{out / name} and 998 others exist")


def _read_mapping(file: Path) -> dict[str, Any]:
    try:
        data = read_yaml(file, REQUEST_BYTES).values
    except UsageError as error:
        raise _damage_error(file, error.message.removeprefix(str(file)).lstrip(": ")) from None
    if not isinstance(data, dict):
        raise _damage_error(file, "it is not a mapping")
    return data


def _damage_error(file: Path, why: str) -> UsageError:
    return UsageError(
        f"the run folder '{file.parent}' is damaged: {file.name} cannot be read ({why})",
        "restore this file; advisor does not change the other files of the run",
    )


@dataclass(frozen=True)
class Row:
    """One line of the evaluations."""

    number: int  # of the line, from 1
    evaluation: Evaluation | None = None  # None if it is left out
    hash: str = ""  # what it states as its hash; empty in a run of an older version
    key: str = ""  # its configuration; empty if the line is incomplete or damaged
    fault: str = ""  # what does not fit


def chain_lines(evaluations: Iterable[Evaluation], last: str = "") -> tuple[str, str]:
    """Return the lines of evaluations and the hash of the last one.

    Each line has the hash of the line ``before`` it, and at its end the SHA-256 of its own text without this ``hash``.
    """
    lines = []
    for evaluation in evaluations:
        text = json.dumps({**evaluation_to_json(evaluation), "before": last}, ensure_ascii=False)
        last = hashlib.sha256(text.encode()).hexdigest()
        lines.append(f'{text[:-1]}, "hash": "{last}"}}\n')
    return "".join(lines), last


def _read_rows(file: Path) -> list[Row]:
    rows = list[Row]()
    last = ""
    text = read_text(file, MAX_BYTES, errors="replace") if file.is_file() else ""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            rows.append(_read_row(number, line, last))
            last = rows[-1].hash or last
    return rows


def _read_row(number: int, line: str, last: str) -> Row:
    """Return a line; ``last`` is the hash of the last line before it that has one."""
    try:
        values: Any = parse_json(line)
        own_hash, before = (str(values.get(name, "")) for name in ("hash", "before"))
        evaluation = evaluation_from_json(values)
    except (ValueError, KeyError, TypeError, AttributeError):
        return Row(number)
    text = line.rstrip().removesuffix(f', "hash": "{own_hash}"}}') + "}"
    fault = ""
    if own_hash and hashlib.sha256(text.encode()).hexdigest() != own_hash:
        fault = "has changed since it was written"
    elif last and not own_hash:
        fault = "has no hash, as the lines before it have"
    elif rule := broken_rule(evaluation, values.get("key")):
        fault = f"breaks the rule that {rule}"
    elif own_hash and before != last:
        moved = "does not follow the line before it: a line was removed, added or moved"
        return Row(number, evaluation, own_hash, evaluation.configuration.key, moved)
    key = evaluation.configuration.key
    if fault:
        return Row(number, None, own_hash, key, f"{fault}: left out")
    return Row(number, evaluation, own_hash, key)


def files_of(evaluation: Evaluation) -> tuple[tuple[str, str], ...]:
    """Return path and hash of each model file that an evaluation names."""
    files = [(evaluation.artefact, evaluation.artefact_sha256)]
    for variant in (evaluation.unknown, evaluation.on_all):
        if variant is not None:
            files.append((variant.file, variant.sha256))
    return tuple((file, sha256) for file, sha256 in files if file)


@dataclass(frozen=True)
class Seal:
    """What the manifest of a run says of its other files; those of a search that goes on may be newer."""

    lines: int = 0  # number of lines of the evaluations that have a hash
    head: str = ""  # hash of the last of them
    files: Mapping[str, str] = field(default_factory=dict)  # hash of each other file by its path
    hash: str = ""  # hash of the manifest without this entry; empty if there is no seal
    whole: bool = True  # the manifest has this hash


def with_hash(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return a manifest with the hash of its other content in its seal."""
    document: dict[str, Any] = json.loads(json.dumps(manifest))
    document[SEAL].pop("hash", None)
    document[SEAL]["hash"] = sha256_json(document)
    return document


def _read_seal(manifest: Path) -> Seal:
    """Return the seal of a manifest; an empty one if it has none, or is missing or damaged."""
    with contextlib.suppress(UsageError, LookupError, TypeError, ValueError, AttributeError):
        document: Any = read_json(manifest)
        if with_hash(document)[SEAL] != document[SEAL]:
            return Seal(hash=str(document[SEAL]), whole=False)
        seal: Seal = parse(Seal, document[SEAL])
        return seal
    return Seal()


@dataclass(frozen=True)
class Problem:
    """One problem of a run folder."""

    file: str  # path within the run folder
    what: str  # what is wrong with it, and the consequence
    kind: str = ""  # CHANGED: it is not as it was written. OLD: nobody can tell, and nothing else is wrong

    def __str__(self) -> str:
        return f"{self.file} {self.what}"


def seal_problems(run: RunFolder) -> Iterator[Problem]:
    """Return what is not as it was written: lines of the evaluations, and files other than artefacts."""
    lines = run.evaluations_file.name
    seal = run.seal
    rows = run.rows()
    faults = [Problem(lines, f"line {row.number} ({row.key}) {row.fault}", CHANGED) for row in rows if row.fault]
    yield from faults[:SHOWN]
    if faults[SHOWN:]:
        yield Problem(lines, f"has {len(faults)} such lines in all", CHANGED)
    hashes = [row.hash for row in rows if row.hash]
    aged = [row for row in rows if row.evaluation and not row.hash]
    if not seal.hash and not hashes:
        yield Problem("the run", f"was made before {SEALED_SINCE}: not verifiable", OLD)
    elif aged:
        what = f"has {plural(len(aged), 'line')} that were made before {SEALED_SINCE}: not verifiable"
        yield Problem(lines, what, OLD)
    if hashes and not seal.hash and not read_document(run.path / MANIFEST).problems:
        yield Problem(MANIFEST, "has no hashes, as the lines of the evaluations have: not verifiable", CHANGED)
    if not seal.whole:
        yield Problem(MANIFEST, "has changed since it was written: its content is ignored", CHANGED)
    if len(hashes) < seal.lines and run.evaluations_file.is_file():
        yield Problem(lines, f"has {len(hashes)} of the {seal.lines} lines that {MANIFEST} counts", CHANGED)
    elif seal.lines and hashes[seal.lines - 1 :][:1] not in ([], [seal.head]):
        yield Problem(lines, f"has other lines than {MANIFEST} names, up to line {seal.lines}", CHANGED)
    for name in (name for name in seal.files if not name.startswith(f"{run.artefacts.name}/")):
        if not run.is_unchanged(name):
            yield Problem(name, "has changed since it was written: it is not used", CHANGED)
        elif not (run.path / name).exists() and not name.startswith((*REPORTS, "answers/")):
            yield Problem(name, "is missing, and was there when the search ended", CHANGED)
    ended = seal.hash and {"stopped", "reevaluated"} & run.read_json(MANIFEST).keys()
    for name in KINDS.keys() - seal.files.keys() - {MANIFEST}:
        if ended and (run.path / name).exists():
            yield Problem(name, f"was added after the search: {MANIFEST} does not name it", CHANGED)


def integrity_problems(run: RunFolder, artefacts: bool = True) -> tuple[Problem, ...]:
    """Return all problems of a run; ``artefacts``: also hash every artefact (a second a gigabyte)."""
    problems: list[Problem] = []
    for name in KINDS:
        if (path := run.path / name).exists():
            problems += [Problem(name, what) for what in read_document(path).problems]
        elif name == MANIFEST:
            problems.append(Problem(name, "is missing: versions, host and weights are not known"))
    lines = run.evaluations_file
    unread = [str(row.number) for row in run.rows() if not row.key]
    if not lines.is_file():
        problems.append(Problem(lines.name, "is missing: nothing was evaluated"))
    if unread:
        shown = ", ".join(unread[:SHOWN]) + (", ..." if len(unread) > SHOWN else "")
        problems.append(Problem(lines.name, f"has {plural(len(unread), 'unreadable line')} ({shown}): ignored"))
    problems += seal_problems(run)
    evaluations = [evaluation for evaluation in run.evaluations() if evaluation.status is Status.OK]
    for name in sorted({evaluation.answers.file for evaluation in evaluations} - {""}):
        if not (run.path / name).is_file():
            what = "is missing: ties are decided by intervals, not by a paired test"
            problems.append(Problem(name, what, CHANGED if name in run.seal.files else ""))
    if artefacts:
        shipped = {
            file: replace(evaluation, artefact=file, artefact_sha256=sha256)
            for evaluation in evaluations
            for file, sha256 in files_of(evaluation)
        }
        unnamed = (evaluation for evaluation in evaluations if not evaluation.artefact)
        problems += filter(None, (artefact_problem(run, evaluation) for evaluation in (*unnamed, *shipped.values())))
    return tuple(problems)


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
        what = "has changed since it was measured (its hash differs): it is not used"
        return Problem(evaluation.artefact, what, CHANGED)
    return None

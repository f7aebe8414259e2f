"""Store one search in one folder;
every result is written at once, so that a killed search loses only running work.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
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
)
from advisor.isolation import no_follow
from advisor.store._evaluation_rows import Row, chain_lines, files_of, read_rows
from advisor.store._files import (
    copy_atomically,
    full_disk,
    is_full_disk,
    remove_unfinished,
    sha256_file,
    walk_folder,
    write_atomically,
)
from advisor.store._jsonfile import SCHEMA_VERSION, read_document, read_json
from advisor.store._run_seal import SEAL, Seal, read_seal, with_hash
from advisor.store._yamlfile import read_yaml

REQUEST_BYTES = 4 * 2**20  # Largest request in bytes: a command line is at most half as long
KEPT_BYTES = 2**22  # Largest JSON document that is kept in memory: the split of 25,000 images fits

MANIFEST = "manifest.json"
REPORTS = ("recommendation.json", "front.", "report.")  # How the names of reports begin
UNSEALED = (
    ".",
    MANIFEST,
    "evaluations.jsonl",
    "study.journal",
    "study.sqlite",
    "log.txt",
    "progress.json",
)

GITIGNORE = """\
# What a re-evaluation reads: the request and the answers. The files of models and the reports
# stay out of git.
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

COPY_RUN = "copy the run to another folder, and name it there"
"""The hint where the folder of a run cannot be written."""

READ_ONLY = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


LONGEST_SLUG = 60
"""Letters of a run's name behind its time:
enough for the images and a device, of which no letter may be lost.
"""


def answers_file(name: str) -> str:
    """Return the path within a run of the answers of this name."""
    return f"answers/{name}.npy"


class RunFolder:
    """A folder under ``runs/``; the files in it are part
    of the product's contract (``docs/design.md``).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.evaluations_file = path / "evaluations.jsonl"
        self.study_file = path / "study.journal"
        self.log_file = path / "log.txt"
        self.artefacts = path / "artifacts"
        # Files that were written here since the manifest.
        self._written = set[str]()
        self._earlier: Path | None = None  # the run that ``latest`` led to before this one
        # Size of the evaluations after the last line that was added here, and its hash.
        self._head = 0, ""
        # what was read from a file by a function, with the file's state then
        self._read: dict[tuple[Path, Callable[[Path], Any]], tuple[object, Any]] = {}
        # The thread that works releases it.
        self._lock = FileLock(path / ".lock", thread_local=False)

    @classmethod
    def create(
        cls, out: Path, slug: str, now: datetime | None = None, is_latest: bool = True
    ) -> RunFolder:
        """Make a new folder ``out/<date>-<time>-<slug>``,
        and link ``out/latest`` to it if ``is_latest``.
        """
        stamp = (now or datetime.now()).strftime("%Y%m%d-%H%M%S")
        plain_slug = re.sub(r"[^a-z0-9]+", "-", slug.lower()).strip("-")
        name = f"{stamp}-{plain_slug[:LONGEST_SLUG].strip('-') or 'run'}"
        latest = out / "latest"
        if is_latest and latest.exists() and not latest.is_symlink():
            raise UsageError(
                f"--out: '{latest}' is no link, and the link to the newest run would replace it",
                "move it away, or choose another folder, for example --out other-runs",
            )
        earlier = latest.resolve() if is_latest and latest.is_dir() else None
        try:
            out.mkdir(parents=True, exist_ok=True)
            path = _make_folder(out, name)
            (path / "artifacts").mkdir()
            (path / ".gitignore").write_text(GITIGNORE, encoding="utf-8")
            if is_latest:
                _link_latest(out, path.name)
        except OSError as error:
            why = f"cannot write to the folder '{out}' ({error.strerror or error})"
            # A run beside its parent has its place from it, and no option for another one.
            if not is_latest:
                raise UsageError(why, COPY_RUN) from None
            raise UsageError(
                f"--out: {why}", "choose another folder, for example --out runs"
            ) from None
        run = cls(path)
        run._earlier = earlier
        return run

    @staticmethod
    def require_parent(out: Path) -> None:
        """Refuse a folder that cannot take a run, before a search spends anything: UsageError.
        Nothing is made.
        """
        place = out.absolute()
        nearest = next(path for path in (place, *place.parents) if path.exists())
        why = ""
        if not nearest.is_dir():
            why = f"'{nearest}' is a file"
        elif not os.access(nearest, os.W_OK | os.X_OK):
            why = f"no permission in '{nearest}'"
        if why:
            message = f"--out: cannot write to the folder '{out}' ({why})"
            raise UsageError(message, "choose another folder, for example --out runs")

    def give_latest_back(self, earlier: Path | None = None) -> None:
        """Let ``latest`` lead to the earlier run again,
        if there is one and no newer run has the link.

        ``earlier`` is that run; None for the one that had the link when this folder was made.
        """
        earlier = earlier or self._earlier
        latest = self.path.parent / "latest"
        if earlier is not None and earlier.is_dir() and latest.resolve() == self.path:
            _link_latest(latest.parent, earlier.name)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open an existing run.

        UsageError if it is not a run folder, its request is damaged, or its schema is newer; or an
        entry at any level is a pipe or a device, or leads out of the folder: nothing may be read
        or written through such an entry.
        """
        request = path / "request.yaml"
        if not request.is_file() and (path / "artifacts").is_dir():
            raise UsageError(
                f"the search in '{path}' was ended before it began",
                "there is nothing to continue: start it again",
            )
        if not request.is_file():
            raise UsageError(
                f"'{path}' is not a run folder (no request.yaml)",
                "runs are under runs/, the newest at runs/latest",
            )
        root = path.resolve()
        for top, folders, files in walk_folder(root):
            for entry in map(top.joinpath, (*folders, *files)):
                # Files that a running search replaces are gone.
                if not _is_inside(entry, root) and os.path.lexists(entry):
                    name = entry.relative_to(root)
                    raise UsageError(
                        f"the run folder '{path}' is damaged: {name} is neither a file nor a"
                        " folder in it",
                        f"remove {name}, or restore it",
                    )
        version = _read_mapping(request).get("schema_version", 0)
        if not isinstance(version, int):
            raise _damage_error(request, f"its schema_version is '{version}'")
        if version > SCHEMA_VERSION:
            raise UsageError(
                f"'{path}' was written by a newer advisor (schema {version}, this one reads"
                f" {SCHEMA_VERSION})",
                "upgrade advisor to open it",
            )
        return cls(root)

    def place(self, name: str) -> Path:
        """Return the path of a file of the run to write to, with its folder made;
        every writer into a run asks here.

        UsageError if the name leads out of the run, or the file or a folder above it is a link.
        """
        parts = Path(name).parts
        if Path(name).is_absolute() or ".." in parts:
            raise UsageError(
                f"'{name}' leads out of the run folder '{self.path}'", "start a new run"
            )
        for count in range(1, len(parts) + 1):
            part = self.path.joinpath(*parts[:count])
            if part.is_symlink():
                link = part.relative_to(self.path)
                raise UsageError(
                    f"the run folder '{self.path}' is damaged: {link} is a link, and nothing is"
                    " written through it",
                    f"remove {link}, or restore it",
                )
        path = self.path / name
        path.parent.mkdir(exist_ok=True)
        self._written.add(name)
        return path

    def write(self, name: str, content: str | bytes) -> None:
        """Write a file of the run as a whole, see :func:`advisor.store.write_atomically`."""
        write_atomically(self.place(name), content)

    @contextlib.contextmanager
    def require_writable(self, hint: str = COPY_RUN) -> Iterator[None]:
        """Name the run, and what to do, if the block cannot write into it:
        UsageError with the hint.
        """
        try:
            yield
        except OSError as error:
            if error.errno not in READ_ONLY:
                raise
            raise UsageError(f"'{self.path}' cannot be written ({error.strerror})", hint) from None

    def hold(self) -> FileLock:
        """Return the lock of the run, acquired; release it at the end.
        UsageError if another process uses the run.
        """
        holder = self.place(".holder")
        _ = self.place(".lock")
        try:
            with self.require_writable():
                self._lock.acquire(timeout=0)
        except Timeout:
            who = holder.read_text(encoding="utf-8") if holder.is_file() else "another process"
            raise UsageError(
                f"'{self.path}' is in use by {who}", "wait until it ends, or start a new run"
            ) from None
        write_atomically(holder, f"process {os.getpid()}")
        # Only the holder may do this: what looks unfinished may be a file
        # that another process writes now.
        for folder in filter(Path.is_dir, (self.path, self.artefacts)):
            remove_unfinished(folder)
        return self._lock

    def in_use(self) -> bool:
        """Return whether a process of this machine works on the run; it is not disturbed.

        The lock is tried only if its last holder lives:
        a search that begins must not find it taken.
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
        text = yaml.safe_dump(
            {"schema_version": SCHEMA_VERSION, **request}, sort_keys=False, allow_unicode=True
        )
        self.write("request.yaml", text)

    def read_request(self) -> dict[str, Any]:
        """Return the resolved request."""
        return _read_mapping(self.path / "request.yaml")

    def write_json(self, name: str, value: Mapping[str, Any]) -> None:
        """Write a JSON document with its ``schema_version``; the manifest gets its
        :class:`Seal`.
        """
        document = {"schema_version": SCHEMA_VERSION, **value}
        if name == MANIFEST:
            document = with_hash(document | {SEAL: self._make_seal()})
            self._written.clear()
        self.write(name, json.dumps(document, indent=2, ensure_ascii=False) + "\n")

    def _make_seal(self) -> dict[str, Any]:
        """Return the seal of the run as it is now, without reports:
        a search writes them again until it has ended.

        A file that was not written here keeps the hash that it had,
        so that a changed one does not get one that fits.
        """
        rows = [row for row in self.rows() if row.hash]
        known = self.seal.files
        hashes: dict[str, str] = {}
        for row in rows:
            if row.evaluation:
                hashes.update(files_of(row.evaluation))
        for path in sorted(filter(Path.is_file, self.path.rglob("*"))):
            name = path.relative_to(self.path).as_posix()
            if not name.startswith((*UNSEALED, *REPORTS, f"{self.artefacts.name}/")):
                hashes[name] = (
                    known[name] if name in known.keys() - self._written else sha256_file(path)
                )
        return {"lines": len(rows), "head": rows[-1].hash if rows else "", "files": hashes}

    def reseal(self, *names: str) -> None:
        """Take the hashes of files that were written after the manifest into it;
        one without a seal gets none.
        """
        # A seal that was not there cannot be renewed:
        # it would vouch for files that nobody has checked.
        if self.seal.hash:
            document: Any = read_json(self.path / MANIFEST)
            document[SEAL]["files"] |= {name: sha256_file(self.path / name) for name in names}
            self.write(
                MANIFEST, json.dumps(with_hash(document), indent=2, ensure_ascii=False) + "\n"
            )

    @property
    def seal(self) -> Seal:
        """What the manifest says of the other files."""
        seal: Seal = self._read_once(self.path / MANIFEST, read_seal)
        return seal

    def _read_once(self, path: Path, read: Callable[[Path], Any]) -> Any:
        """Return what ``read`` makes of a file, which is read again only if it has changed."""
        facts = path.stat() if path.is_file() else None
        stamp = facts and (facts.st_ino, facts.st_mtime_ns, facts.st_size)
        if (path, read) not in self._read or self._read[path, read][0] != stamp:
            self._read[path, read] = stamp, read(path)
        return self._read[path, read][1]

    def is_unchanged(self, name: str) -> bool:
        """Return whether a file is as it was written:
        it is missing, has its hash of the manifest, or none is there.
        """
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
        """Return a JSON document of the run; see :func:`advisor.store.read_document`.
        Empty if changed.
        """
        path = self.path / name
        if not self.is_unchanged(name):
            return {}
        # Large documents would stay in memory as long as the run is open.
        small = path.is_file() and path.stat().st_size <= KEPT_BYTES
        return dict(
            (self._read_once(path, read_document) if small else read_document(path)).entries
        )

    def append(self, evaluation: Evaluation) -> None:
        """Add one evaluation; one that took work is on the disk then.
        StageError if the disk is full.
        """
        try:
            with open(self.place(self.evaluations_file.name), "ab+", opener=no_follow) as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(size - 1, 0))
                torn = file.read(1) not in (b"", b"\n")  # the last line has no end
                # Another process has added lines since, or this one has just opened the run.
                if size != self._head[0]:
                    self._head = (
                        size,
                        next((row.hash for row in reversed(self.rows()) if row.hash), ""),
                    )
                line, head = chain_lines([evaluation], self._head[1])
                file.write(("\n" * torn + line).encode())
                self._head = file.tell(), head
                file.flush()
                # Dozens at the end of a search, 30 ms each on a slow disk.
                if evaluation.status is not Status.SKIPPED:
                    os.fsync(file.fileno())
        except OSError as error:
            if is_full_disk(error):
                raise full_disk(self.path) from error
            raise

    def evaluations(self) -> tuple[Evaluation, ...]:
        """Return the last evaluation of each configuration;
        lines that are incomplete, or do not fit, are ignored.
        """
        latest = {}
        for row in self.rows():
            if row.evaluation is not None:
                latest[row.evaluation.configuration] = row.evaluation
        return tuple(latest.values())

    def rows(self) -> list[Row]:
        """Return the lines of the evaluations that are not empty."""
        rows: list[Row] = self._read_once(self.evaluations_file, read_rows)
        return rows

    def keep_answers(self, name: str, answers: Sequence[float]) -> str:
        """Write the predicted label of each image, and return the file's path in the run.

        Numbers that are not whole by type are each image's share in the figure that decides.
        """
        import numpy as np

        values = np.asarray(answers)
        file = answers_file(name)
        content = io.BytesIO()
        dtype = np.int32 if values.dtype.kind in "iu" else np.float32
        np.save(content, values.astype(dtype))
        self.write(file, content.getvalue())
        return file

    def keep_artefact(self, source: Path, name: str) -> Path:
        """Copy an artefact into the run, as a hard link if possible, and return its path."""
        return self.share(source, f"{self.artefacts.name}/{name}")

    def share(self, source: Path, name: str) -> Path:
        """Copy a file to ``name`` in the run, as a hard link if possible, and return its path.

        A file of that name that has other content, because a process was killed while it wrote it,
        is replaced.
        """
        target = self.place(name)
        same = target.is_file() and (
            source.samefile(target) or sha256_file(source) == sha256_file(target)
        )
        if not same:
            copy_atomically(source, target)
        return target


def _is_inside(entry: Path, root: Path) -> bool:
    """Return whether an entry of the run folder ``root`` is a file
    or a folder that does not lead out of it.
    """
    if not (entry.is_file() or entry.is_dir()):
        return False
    return not entry.is_symlink() or entry.resolve().is_relative_to(root)


def _link_latest(out: Path, name: str) -> None:
    """Make ``out/latest`` lead to a run folder, in one step:
    a reader sees the old one or the new one.
    """
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

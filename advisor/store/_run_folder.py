"""Store one search in one folder, so that a killed search loses only running work.

The engine writes through a :class:`RunFolder`, result by result; ``LoadedRun.load``, reports and
re-evaluations read through one. The names of the files and their content are a part of the
product's contract (``docs/design.md``, "Run folder"): runs of older versions must stay readable.
``_run_place.py`` makes the folder, ``_run_opening.py`` checks one that is there,
``_evaluation_rows.py`` has the lines of the evaluations and ``_run_seal.py`` the hashes.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
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
from advisor.store._evaluation_rows import Row, chain_lines, list_model_files, read_rows
from advisor.store._files import (
    copy_atomically,
    full_disk_error,
    is_full_disk,
    remove_unfinished,
    sha256_file,
    write_atomically,
)
from advisor.store._jsonfile import read_json
from advisor.store._run_documents import SCHEMA_VERSION, read_document
from advisor.store._run_opening import read_request_file, require_run_folder
from advisor.store._run_place import (
    COPY_RUN,
    find_latest_run,
    link_latest,
    make_run_folder,
    require_parent,
)
from advisor.store._run_seal import SEAL, Seal, read_seal, with_hash

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

HEAD_WEIGHTS = "-head.npz"
"""End of the name of a file with the weights of a head, among the artefacts."""

READ_ONLY = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


class RunFolder:
    """The folder of one run: it reads and writes all files of a search."""

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
        # The value that a function read from a file, with the file's state then.
        self._read: dict[tuple[Path, Callable[[Path], Any]], tuple[object, Any]] = {}
        # The thread that works releases it.
        self._lock = FileLock(path / ".lock", thread_local=False)

    @classmethod
    def create(
        cls,
        out: Path,
        slug: str,
        now: datetime | None = None,
        is_latest: bool = True,
    ) -> RunFolder:
        """Make the folder of a new run, and link ``out/latest`` to it if ``is_latest``.

        UsageError as of :func:`._run_place.make_run_folder`.
        """
        earlier = find_latest_run(out) if is_latest else None
        run = cls(make_run_folder(out, slug, now or datetime.now(), is_latest))
        run._earlier = earlier
        return run

    @staticmethod
    def require_parent(out: Path) -> None:
        """Refuse a folder that cannot take a run, see :func:`._run_place.require_parent`."""
        require_parent(out)

    def give_latest_back(self, earlier: Path | None = None) -> None:
        """Let ``latest`` lead to the earlier run again, unless a newer run has the link.

        ``earlier`` is that run; None for the one that had the link when this folder was made.
        """
        earlier = earlier or self._earlier
        latest = self.path.parent / "latest"
        if earlier is not None and earlier.is_dir() and latest.resolve() == self.path:
            link_latest(latest.parent, earlier.name)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open an existing run; UsageError as of :func:`._run_opening.require_run_folder`."""
        return cls(require_run_folder(path))

    def place(self, name: str) -> Path:
        """Return the path of a file to write to, and make its folder; every writer asks here.

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
        """Raise UsageError with the hint if the block cannot write into the run."""
        try:
            yield
        except OSError as error:
            if error.errno not in READ_ONLY:
                raise
            raise UsageError(f"'{self.path}' cannot be written ({error.strerror})", hint) from None

    def hold(self) -> FileLock:
        """Return the acquired lock of the run, which the caller releases at the end.

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
        return read_request_file(self.path / "request.yaml")

    def write_json(self, name: str, value: Mapping[str, Any]) -> None:
        """Write a JSON document with its ``schema_version``; the manifest also gets its seal."""
        document = {"schema_version": SCHEMA_VERSION, **value}
        if name == MANIFEST:
            document = with_hash(document | {SEAL: self._make_seal()})
            self._written.clear()
        self.write(name, json.dumps(document, indent=2, ensure_ascii=False) + "\n")

    def _make_seal(self) -> dict[str, Any]:
        """Return the seal of the run as it is now.

        Reports are left out, because a search writes them again until it has ended. A file that
        was not written by this process keeps the hash that it had: a changed file must not get a
        hash that fits.
        """
        rows = [row for row in self.rows() if row.hash]
        known = self.seal.files
        hashes: dict[str, str] = {}
        for row in rows:
            if row.evaluation:
                hashes.update(list_model_files(row.evaluation))
        for path in sorted(filter(Path.is_file, self.path.rglob("*"))):
            name = path.relative_to(self.path).as_posix()
            if name.startswith((*UNSEALED, *REPORTS, f"{self.artefacts.name}/")):
                continue
            is_known = name in known and name not in self._written
            hashes[name] = known[name] if is_known else sha256_file(path)
        return {"lines": len(rows), "head": rows[-1].hash if rows else "", "files": hashes}

    def reseal(self, *names: str) -> None:
        """Put the hashes of files that were written after the manifest into its seal.

        A manifest without a seal gets none.
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
        """The hashes that the manifest states of the other files."""
        seal: Seal = self._read_once(self.path / MANIFEST, read_seal)
        return seal

    def _read_once(self, path: Path, read: Callable[[Path], Any]) -> Any:
        """Return ``read(path)``; the file is read again only if it has changed."""
        facts = path.stat() if path.is_file() else None
        stamp = facts and (facts.st_ino, facts.st_mtime_ns, facts.st_size)
        if (path, read) not in self._read or self._read[path, read][0] != stamp:
            self._read[path, read] = stamp, read(path)
        _, value = self._read[path, read]
        return value

    def is_unchanged(self, name: str) -> bool:
        """Return whether a file has the hash of the manifest; True if one of both is missing."""
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
        """Return the entries of a JSON document of the run, without those of a wrong type.

        Empty if the file is missing, damaged, or not as it was written.
        """
        path = self.path / name
        if not self.is_unchanged(name):
            return {}
        # Large documents would stay in memory as long as the run is open.
        is_small = path.is_file() and path.stat().st_size <= KEPT_BYTES
        document = self._read_once(path, read_document) if is_small else read_document(path)
        return dict(document.entries)

    def append(self, evaluation: Evaluation) -> None:
        """Add the line of one evaluation; flush it to the disk unless it was skipped.

        StageError if the disk is full.
        """
        try:
            with open(self.place(self.evaluations_file.name), "ab+", opener=no_follow) as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(size - 1, 0))
                is_torn = file.read(1) not in (b"", b"\n")  # the last line has no end
                known_size, last_hash = self._head
                # Another process has added lines since, or this one has just opened the run.
                if size != known_size:
                    last_hash = self._find_last_hash()
                line, new_hash = chain_lines([evaluation], last_hash)
                file.write(("\n" * is_torn + line).encode())
                self._head = file.tell(), new_hash
                file.flush()
                # Dozens at the end of a search, 30 ms each on a slow disk.
                if evaluation.status is not Status.SKIPPED:
                    os.fsync(file.fileno())
        except OSError as error:
            if is_full_disk(error):
                raise full_disk_error(self.path) from error
            raise

    def _find_last_hash(self) -> str:
        """Return the hash of the last line that has one; empty if none has."""
        for row in reversed(self.rows()):
            if row.hash:
                return row.hash
        return ""

    def evaluations(self) -> tuple[Evaluation, ...]:
        """Return the last evaluation of each configuration.

        Lines that are incomplete, or do not fit, are ignored.
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

        Floats are each image's share in the metric instead, see ``docs/words.md``.
        """
        import numpy as np

        values = np.asarray(answers)
        file = RunFolder.name_answers(name)
        content = io.BytesIO()
        dtype = np.int32 if values.dtype.kind in "iu" else np.float32
        np.save(content, values.astype(dtype))
        self.write(file, content.getvalue())
        return file

    def keep_artefact(self, source: Path, name: str) -> Path:
        """Copy an artefact into the run, as a hard link if possible, and return its path."""
        return self.share(source, f"{self.artefacts.name}/{name}")

    def keep_head(self, source: Path, card: str) -> Path:
        """Keep the weights of a card's head, from which another search may start."""
        return self.keep_artefact(source, f"{card}{HEAD_WEIGHTS}")

    @property
    def heads(self) -> dict[str, Path]:
        """The weights of heads that :meth:`keep_head` kept, by the names of their cards."""
        heads = {}
        for file in sorted(self.artefacts.glob(f"*{HEAD_WEIGHTS}")):
            heads[file.name.removesuffix(HEAD_WEIGHTS)] = file
        return heads

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

    @staticmethod
    def name_answers(name: str) -> str:
        """Return the path within a run of the answers of this name."""
        return f"answers/{name}.npy"

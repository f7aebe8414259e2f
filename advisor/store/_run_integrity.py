"""Compare the files of a run with its seal, and say what is not as it was written.

``LoadedRun.load`` asks :meth:`Problem.list_in_seal`, and ``advisor doctor RUN`` all of
:meth:`Problem.list_in_run`. A problem is told and never repaired: the file is not used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from advisor.core import Evaluation, Status, plural
from advisor.store._evaluation_rows import Row, list_model_files
from advisor.store._files import sha256_file
from advisor.store._run_documents import KINDS, read_document
from advisor.store._run_folder import MANIFEST, REPORTS, RunFolder

SEALED_SINCE = "0.2.0"

SHOWN = 5  # Most line numbers in a message

# Kinds of problems.
CHANGED = "changed"
OLD = "old"


@dataclass(frozen=True)
class Problem:
    """One problem of a run folder."""

    file: str  # path within the run folder
    what: str  # what is wrong with it, and the consequence
    # CHANGED: it is not as it was written. OLD: it has no hash, and nothing else is wrong. Empty:
    # it is missing or damaged.
    kind: str = ""

    def __str__(self) -> str:
        return f"{self.file} {self.what}"

    @property
    def is_of_report(self) -> bool:
        """True if the file is a report.

        Later commands write reports anew, so a changed one proves nothing against the figures.
        """
        return self.file.startswith(REPORTS)

    @property
    def is_change(self) -> bool:
        """True if something is not as it was written."""
        return self.kind == CHANGED

    @property
    def is_old(self) -> bool:
        """True if the file has no hash because an earlier version wrote it."""
        return self.kind == OLD

    @classmethod
    def find_in_artefact(cls, run: RunFolder, evaluation: Evaluation) -> Problem | None:
        """Return the problem of one evaluation's artefact, or None."""
        if not evaluation.artefact:
            return cls(
                "evaluations.jsonl", f"names no artefact for {evaluation.configuration.key}"
            )
        path = run.path / evaluation.artefact
        if not path.resolve().is_relative_to(run.path.resolve()):
            return cls(evaluation.artefact, "is outside the run folder: it is not read")
        if not path.is_file():
            return cls(evaluation.artefact, "is missing: it cannot be shipped or measured again")
        if sha256_file(path) != evaluation.artefact_sha256:
            what = "has changed since it was measured (its hash differs): it is not used"
            return cls(evaluation.artefact, what, CHANGED)
        return None

    @classmethod
    def list_in_run(cls, run: RunFolder, artefacts: bool = True) -> tuple[Problem, ...]:
        """Return all problems of a run, with ``artefacts`` those of every artefact, too.

        To hash artefacts takes a second a gigabyte.
        """
        problems: list[Problem] = []
        for name in KINDS:
            path = run.path / name
            if path.exists():
                problems += [cls(name, what) for what in read_document(path).problems]
            elif name == MANIFEST:
                problems.append(cls(name, "is missing: versions, host and weights are not known"))
        lines = run.evaluations_file
        unread = []
        for row in run.rows():
            if not row.key:
                unread.append(str(row.number))
        if not lines.is_file():
            problems.append(cls(lines.name, "is missing: nothing was evaluated"))
        if unread:
            shown = ", ".join([*unread[:SHOWN], "..."] if len(unread) > SHOWN else unread)
            problems.append(
                cls(lines.name, f"has {plural(len(unread), 'unreadable line')} ({shown}): ignored")
            )
        problems += Problem.list_in_seal(run)
        evaluations = []
        for evaluation in run.evaluations():
            if evaluation.status is Status.OK:
                evaluations.append(evaluation)
        for name in sorted({evaluation.answers.file for evaluation in evaluations} - {""}):
            if not (run.path / name).is_file():
                what = "is missing: ties are decided by intervals, not by a paired test"
                kind = CHANGED if name in run.seal.files else ""
                problems.append(cls(name, what, kind))
        if artefacts:
            problems += _list_artefact_problems(run, evaluations)
        return tuple(problems)

    @classmethod
    def list_in_seal(cls, run: RunFolder) -> Iterator[Problem]:
        """Yield what is not as it was written: lines of the evaluations, and all files but
        artefacts.

        The artefacts have their hashes in the lines, see :meth:`Problem.find_in_artefact`.
        """
        rows = run.rows()
        yield from _list_damaged_rows(run, rows)
        yield from _list_missing_seals(run, rows)
        if not run.seal.whole:
            yield cls(
                MANIFEST, "has changed since it was written: its content is ignored", CHANGED
            )
        yield from _compare_rows_with_seal(run, rows)
        yield from _compare_files_with_seal(run)


def _list_damaged_rows(run: RunFolder, rows: Sequence[Row]) -> Iterator[Problem]:
    """Yield the first lines that do not fit, and how many there are."""
    lines = run.evaluations_file.name
    faulty = [row for row in rows if row.fault]
    for row in faulty[:SHOWN]:
        yield Problem(lines, f"line {row.number} ({row.key}) {row.fault}", CHANGED)
    if len(faulty) > SHOWN:
        yield Problem(lines, f"has {len(faulty)} such lines in all", CHANGED)


def _list_missing_seals(run: RunFolder, rows: Sequence[Row]) -> Iterator[Problem]:
    """Yield lines and a manifest without hashes: runs before :data:`SEALED_SINCE` had none."""
    lines = run.evaluations_file.name
    has_hashes = any(row.hash for row in rows)
    unsealed = []
    for row in rows:
        if row.evaluation and not row.hash:
            unsealed.append(row)
    if not run.seal.hash and not has_hashes:
        yield Problem("the run", f"was made before {SEALED_SINCE}: not verifiable", OLD)
    elif unsealed:
        count = plural(len(unsealed), "line")
        yield Problem(
            lines, f"has {count} that were made before {SEALED_SINCE}: not verifiable", OLD
        )
    # Lines with hashes were written by a version that seals manifests, too.
    if has_hashes and not run.seal.hash and not read_document(run.path / MANIFEST).problems:
        yield Problem(
            MANIFEST,
            "has no hashes, as the lines of the evaluations have: not verifiable",
            CHANGED,
        )


def _compare_rows_with_seal(run: RunFolder, rows: Sequence[Row]) -> Iterator[Problem]:
    """Yield a problem if lines are gone, or others stand in their place.

    The hash of a line covers all lines before it, so the last one that the seal names is enough.
    """
    lines = run.evaluations_file.name
    seal = run.seal
    hashes = [row.hash for row in rows if row.hash]
    if len(hashes) < seal.lines and run.evaluations_file.is_file():
        yield Problem(
            lines, f"has {len(hashes)} of the {seal.lines} lines that {MANIFEST} counts", CHANGED
        )
    elif seal.lines and hashes[seal.lines - 1 :][:1] not in ([], [seal.head]):
        yield Problem(
            lines, f"has other lines than {MANIFEST} names, up to line {seal.lines}", CHANGED
        )


def _compare_files_with_seal(run: RunFolder) -> Iterator[Problem]:
    """Yield files that changed, are missing, or were added after the search had ended."""
    seal = run.seal
    reports = []
    for name in seal.files:
        if name.startswith(REPORTS) and not run.is_unchanged(name):
            reports.append(name)
    # A report that was killed while it wrote has changed several files,
    # which is one thing to tell.
    if len(reports) > 1:
        yield Problem(
            ", ".join(reports), "have changed since they were written: they are not used", CHANGED
        )
    for name in seal.files:
        # The artefacts have their hashes in the lines of the evaluations.
        if name.startswith(f"{run.artefacts.name}/"):
            continue
        if not run.is_unchanged(name) and (name not in reports or len(reports) == 1):
            yield Problem(name, "has changed since it was written: it is not used", CHANGED)
        elif not (run.path / name).exists() and not name.startswith((*REPORTS, "answers/")):
            yield Problem(name, "is missing, and was there when the search ended", CHANGED)
    has_ended = seal.hash and {"stopped", "reevaluated"} & run.read_json(MANIFEST).keys()
    for name in KINDS.keys() - seal.files.keys() - {MANIFEST}:
        if has_ended and (run.path / name).exists():
            yield Problem(
                name, f"was added after the search: {MANIFEST} does not name it", CHANGED
            )


def _list_artefact_problems(
    run: RunFolder, evaluations: Sequence[Evaluation]
) -> Iterator[Problem]:
    """Yield the problems of all files that evaluations name, and of evaluations that name none."""
    unnamed = []
    # Several evaluations may have one file, which is hashed once.
    by_file = {}
    for evaluation in evaluations:
        if not evaluation.artefact:
            unnamed.append(evaluation)
        for file, sha256 in list_model_files(evaluation):
            by_file[file] = replace(evaluation, artefact=file, artefact_sha256=sha256)
    for evaluation in (*unnamed, *by_file.values()):
        problem = Problem.find_in_artefact(run, evaluation)
        if problem is not None:
            yield problem

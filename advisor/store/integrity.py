"""Integrity of a run folder: files that are damaged, missing or changed since the run wrote them."""

from collections.abc import Iterator
from dataclasses import dataclass

from advisor.core.evaluation import Evaluation, Status
from advisor.core.units import plural
from advisor.store.files import sha256_file
from advisor.store.jsonfile import KINDS, read_document
from advisor.store.run_folder import RunFolder

SHOWN = 5
"""Most line numbers in a message."""


@dataclass(frozen=True)
class Problem:
    """One problem of a run folder.

    Attributes:
        file: path within the run folder.
        what: what is wrong with it, and the consequence.
    """

    file: str
    what: str

    def __str__(self) -> str:
        return f"{self.file} {self.what}"


def integrity_problems(run: RunFolder, artefacts: bool = True) -> tuple[Problem, ...]:
    """Return all problems of a run; files without a problem are reliable.

    Args:
        run: the run.
        artefacts: also hash every artefact (a second a gigabyte).
    """
    found = [problem for name in KINDS for problem in _document(run, name)]
    found += _lines(run)
    evaluations = [evaluation for evaluation in run.evaluations() if evaluation.status is Status.OK]
    for name in sorted({evaluation.answers.file for evaluation in evaluations} - {""}):
        if not (run.path / name).is_file():
            found.append(Problem(name, "is missing: ties are decided by intervals, not by a paired test"))
    if artefacts:
        shipped = {evaluation.artefact: evaluation for evaluation in evaluations if evaluation.artefact}
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


def _document(run: RunFolder, name: str) -> Iterator[Problem]:
    path = run.path / name
    if not path.exists():
        if name == "manifest.json":
            yield Problem(name, "is missing: versions, host and weights are not known")
        return
    yield from (Problem(name, what) for what in read_document(path).problems)


def _lines(run: RunFolder) -> Iterator[Problem]:
    name = run.evaluations_file.name
    if not run.evaluations_file.is_file():
        yield Problem(name, "is missing: nothing was evaluated")
        return
    unread = run.unread_lines()
    if unread:
        shown = ", ".join(map(str, unread[:SHOWN])) + (", ..." if len(unread) > SHOWN else "")
        yield Problem(name, f"has {plural(len(unread), 'unreadable line')} ({shown}): ignored")

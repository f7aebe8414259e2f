"""What the shipped files of a run answer to a photograph, in a child process with limits."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from advisor.core.errors import UsageError
from advisor.core.evaluation import Evaluation, Status
from advisor.core.figures import network_of
from advisor.core.posterior import FLOAT
from advisor.core.tasks import TASKS
from advisor.isolation import WRITES_BELOW, ChildPool, Limits, Scratch

MAX_BYTES = 32 * 2**20
"""Largest photograph in bytes; phones write at most about 20 MB."""

LIMITS = Limits(seconds=60.0, memory_bytes=2_000_000_000, processes=0)
INT8 = "int8"
SHOWN = 5


@dataclass(frozen=True)
class FormAnswer:
    """The answer of one file.

    Attributes:
        form: its compression recipe.
        key: key of its evaluation.
        size_bytes: size of the shipped file.
        picked: it is the pick.
        top: the most probable classes with their probability (0-1), the best first.
        least: probability (0-1) from which on the app shows this answer; 0 if it always does.
    """

    form: str
    key: str
    size_bytes: int
    picked: bool
    top: tuple[tuple[str, float], ...]
    least: float = 0.0

    @property
    def shown(self) -> bool:
        """The app shows this answer, and does not leave it to a person."""
        return self.top[0][1] >= self.least


class Answerer:
    """Answers photographs, one at a time; a context manager, which ends its child process."""

    def __init__(self) -> None:
        self._scratch = Scratch()
        self._pool = ChildPool(Path(os.devnull), {WRITES_BELOW: str(self._scratch.path)})
        self._lock = threading.Lock()

    def __enter__(self) -> Answerer:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()
        self._scratch.remove()

    def answer(self, run: Path, photograph: bytes) -> tuple[FormAnswer, ...]:
        """Return the answers of the pick's network: float32, int8 and the form of the pick, as far as there are files.

        Raises:
            UsageError: the run has no file of a classifier, or the file is not an image that can be read.
            StageError: the work exceeded a limit, or a file cannot run.
        """
        with self._lock:
            path = self._scratch.path / "photograph"
            path.write_bytes(photograph)
            try:
                found: tuple[FormAnswer, ...] = self._pool.call(
                    f"{__name__}:answers", str(run), str(path), limits=LIMITS
                )
            finally:
                path.unlink(missing_ok=True)
            return found


def answers(run: str, photograph: str) -> tuple[FormAnswer, ...]:
    """See :meth:`Answerer.answer`; the child process calls this."""
    from advisor.engine.history.loaded_run import load_run
    from advisor.store.integrity import artefact_problem

    loaded = load_run(run)
    pick = loaded.decision.pick
    if not TASKS[loaded.question.task].probabilities:
        raise UsageError("only the classes of classifiers are shown here", "export the bundle: it has a program")
    if pick is None:
        raise UsageError("the run has no candidate with a file", "wait for its first answer, or search again")
    _require_image(Path(photograph))
    found = []
    for each in _forms(loaded.evaluations, pick):
        problem = artefact_problem(loaded.folder, each)
        if problem is not None:
            raise UsageError(str(problem), "restore the file, or search again")
        found.append(
            _answer(loaded.folder.path / each.artefact, each, Path(photograph), each.artefact == pick.artefact)
        )
    return tuple(found)


def _require_image(path: Path) -> None:
    from advisor.datasets import decode

    try:
        with decode.open_image(path) as image:
            image.load()
    except decode.READ_ERRORS as error:
        raise UsageError(f"the photograph cannot be used: {decode.reason(error)}", "give a JPEG or PNG file") from None


def _forms(evaluations: Sequence[Evaluation], pick: Evaluation) -> list[Evaluation]:
    """Return the evaluations of the pick's network to show, one for each form: float32 first."""
    own = pick.configuration.compression
    rows = [
        each
        for each in evaluations
        if each.status is Status.OK and each.artefact and network_of(each) == network_of(pick)
    ]
    by_form = {each.configuration.compression: each for each in rows} | {own: pick}
    return [by_form[form] for form in dict.fromkeys((FLOAT, INT8, own)) if form in by_form]


def _answer(artefact: Path, evaluation: Evaluation, photograph: Path, picked: bool) -> FormAnswer:
    from advisor.core.tasks import IMAGE_CLASSIFICATION
    from advisor.datasets.images import load
    from advisor.exporting.model import prepare
    from advisor.exporting.shipping import SHIPPING
    from advisor.exporting.vectors import answers as predicted

    applied = SHIPPING[IMAGE_CLASSIFICATION].applied(evaluation)
    model = prepare(artefact.read_bytes(), artefact.name, applied)
    row = predicted(model.content, load(photograph, model.size)[None], model)[0]
    top = sorted(zip(model.labels, row, strict=True), key=lambda pair: -pair[1])[:SHOWN]
    own = evaluation.configuration
    least = applied.least(top[0][0])
    return FormAnswer(own.compression, own.key, len(model.content), picked, tuple(top), least)

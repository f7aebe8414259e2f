"""Run the shipped files of a run on a photograph, in a child process with limits."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from advisor.core.errors import UsageError
from advisor.core.evaluation import Evaluation, Status, network_of
from advisor.core.posterior import FLOAT
from advisor.core.tasks import TASKS
from advisor.exporting.shipping import Found
from advisor.isolation import WRITES_BELOW, CallLimits, ChildPool, Scratch

MAX_BYTES = 32 * 2**20
"""Largest photograph in bytes; phones write at most about 20 MB."""

LIMITS = CallLimits(seconds=60.0, memory_bytes=2_000_000_000, processes=0)
INT8 = "int8"


@dataclass(frozen=True)
class FormAnswer:
    """The answer of one file."""

    form: str  #: its compression recipe
    key: str  #: key of its evaluation
    size_bytes: int  #: size of the shipped file
    picked: bool  #: it is the pick
    found: tuple[Found, ...]  #: the most probable classes, or the objects that the app shows, the surest first
    least: float = 0.0  #: least probability or score (0-1) that the app shows; 0 if it shows all

    @property
    def by_class(self) -> Mapping[str, list[float]]:
        """The scores of what was found by class, the most frequent class first."""
        scores = defaultdict[str, list[float]](list)
        for each in self.found:
            scores[each.label].append(each.score)
        return dict(sorted(scores.items(), key=lambda row: (-len(row[1]), row[0])))


@dataclass(frozen=True)
class PhotographAnswers:
    """The answers of several files to one photograph."""

    task: str  #: the task of the run
    labels: tuple[str, ...]  #: the classes of its files
    width: int  #: of the upright photograph, in pixels
    height: int  #: in pixels
    forms: tuple[FormAnswer, ...]  #: the answers: float32, int8 and the form of the pick, as far as there are files

    @property
    def classes(self) -> bool:
        """The answers are the classes of the image; otherwise they are objects in it."""
        return TASKS[self.task].probabilities

    @property
    def agree(self) -> bool:
        """All files have the same first class, or find as many objects of each class."""
        said = [
            each.found[0].label if self.classes else {label: len(some) for label, some in each.by_class.items()}
            for each in self.forms
        ]
        return all(each == said[0] for each in said)


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

    def answer(self, run: Path, photograph: bytes) -> PhotographAnswers:
        """Return the answers of the files of the pick's network.

        Raises UsageError: the run has no file for the photograph, or the photograph is not an image that can be read.
        StageError: the work exceeded a limit, or a file cannot run.
        """
        with self._lock:
            path = self._scratch.path / "photograph"
            path.write_bytes(photograph)
            try:
                found: PhotographAnswers = self._pool.call(f"{__name__}:answers", str(run), str(path), limits=LIMITS)
            finally:
                path.unlink(missing_ok=True)
            return found


def answers(run: str, photograph: str) -> PhotographAnswers:
    """See :meth:`Answerer.answer`; the child process calls this."""
    from advisor.engine.history.loaded_run import load_run
    from advisor.store.run_folder import artefact_problem

    loaded, path = load_run(run), Path(photograph)
    pick, task = loaded.decision.pick, loaded.question.task
    if pick is None:
        raise UsageError("the run has no candidate with a file", "wait for its first answer, or search again")
    width, height = _size(path)
    forms, labels = [], tuple[str, ...]()
    for each in _forms(loaded.evaluations, pick):
        problem = artefact_problem(loaded.folder, each)
        if problem is not None:
            raise UsageError(str(problem), "restore the file, or search again")
        answer, labels = _answer(loaded.folder.path / each.artefact, each, path, task, each.artefact == pick.artefact)
        forms.append(answer)
    return PhotographAnswers(task, labels, width, height, tuple(forms))


def _size(photograph: Path) -> tuple[int, int]:
    """Return width and height of an upright photograph in pixels; UsageError if it cannot be read."""
    from advisor.datasets.boxes.reading import Frame
    from advisor.datasets.images import READ_ERRORS, open_image, orientation, reason

    try:
        with open_image(photograph) as image:
            image.load()
            return Frame(image.size, orientation(image)).upright
    except READ_ERRORS as error:
        raise UsageError(f"the photograph cannot be used: {reason(error)}", "give a JPEG or PNG file") from None


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


def _answer(
    artefact: Path, evaluation: Evaluation, photograph: Path, task: str, picked: bool
) -> tuple[FormAnswer, tuple[str, ...]]:
    """Return the answer of a file as the app computes it, and its labels."""
    from ai_edge_litert.interpreter import Interpreter

    from advisor.datasets.images import load
    from advisor.exporting.check import outputs
    from advisor.exporting.shipping import prepare

    thresholds = TASKS[task].shipping().thresholds(evaluation)
    model = prepare(artefact.read_bytes(), artefact.name, thresholds)
    interpreter = Interpreter(model_content=model.content, num_threads=1)
    interpreter.allocate_tensors()
    found = TASKS[task].found(outputs(interpreter, load(photograph, model.size), model.mean, model.std), model)
    least = thresholds.least(found[0].label) if found else model.threshold or 0.0
    own = evaluation.configuration
    return FormAnswer(own.compression, own.key, len(model.content), picked, found, least), model.labels

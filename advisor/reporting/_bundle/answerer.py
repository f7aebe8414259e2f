"""Answer a photograph by several files of a run, for the pages that compare them.

``advisor serve`` and ``advisor try`` keep one :class:`Answerer` and call it for each photograph
that a browser sends. It runs the files in a child process, because decoders and runtime are native
code that reads bytes of strangers. The child calls :func:`answers` by module and name.
"""

from __future__ import annotations

import base64
import os
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from advisor.core import FLOAT, TASKS, Evaluation, Status
from advisor.isolation import ChildPool, Scratch
from advisor.reporting._bundle.photograph import LIMITS, ShippedFile, load_with_pick
from advisor.reporting._bundle.shipping import Found

INT8 = "int8"


@dataclass(frozen=True)
class FormAnswer:
    """The answer of one file."""

    form: str  #: its compression recipe
    key: str  #: key of its evaluation
    size_bytes: int  #: size of the shipped file
    picked: bool  #: it is the pick
    #: the most probable classes, or the objects that the app shows, the surest first
    found: tuple[Found, ...]
    least: float = 0.0  #: least probability or score (0-1) that the app shows; 0 if it shows all
    #: PNG in base64 with a colour for each pixel, to lay over the photograph; empty without
    layer: str = ""
    answer: str = ""  #: the answer in words

    @property
    def by_class(self) -> Mapping[str, list[float]]:
        """The scores of what was found by class, the most frequent class first."""
        scores = defaultdict[str, list[float]](list)
        for result in self.found:
            scores[result.label].append(result.score)
        return dict(sorted(scores.items(), key=lambda row: (-len(row[1]), row[0])))


@dataclass(frozen=True)
class PhotographAnswers:
    """The answers of several files to one photograph."""

    task: str  #: the task of the run
    labels: tuple[str, ...]  #: the classes of its files
    width: int  #: of the upright photograph, in pixels
    height: int  #: in pixels
    #: the answers: float32, int8 and the form of the pick, as far as there are files
    forms: tuple[FormAnswer, ...]

    @property
    def classes(self) -> bool:
        """The answers are the classes of the image; otherwise they are objects in it."""
        return TASKS[self.task].probabilities

    @property
    def agree(self) -> bool:
        """All files have the same answer: the first class, or the objects of each class."""
        compared = list(map(self._comparable_answer, self.forms))
        return all(answer == compared[0] for answer in compared)

    def _comparable_answer(self, form: FormAnswer) -> object:
        """Return what must be equal for two files to have one answer."""
        if form.layer:
            return form.answer
        if self.classes:
            return form.found[0].label
        return {label: len(scores) for label, scores in form.by_class.items()}


class Answerer:
    """Answers photographs, one at a time; a context manager, which ends its child process."""

    MOST_BYTES = 32 * 2**20
    """Largest photograph; phones write at most about 20 MB."""

    def __init__(self) -> None:
        self._scratch = Scratch()
        self._pool = ChildPool(Path(os.devnull), writes_below=self._scratch.path)
        # A server answers in several threads, and the child takes one call at a time.
        self._lock = threading.Lock()

    def __enter__(self) -> Answerer:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()
        self._scratch.remove()

    def answer(self, run: Path, photograph: bytes) -> PhotographAnswers:
        """Return the answers of the files of the pick's network.

        Raises UsageError: the run has no file for the photograph, or the photograph is not an
        image that can be read. StageError: the work exceeded a limit, or a file cannot run.
        """
        with self._lock:
            path = self._scratch.path / "photograph"
            path.write_bytes(photograph)
            try:
                photograph_answers: PhotographAnswers = self._pool.call(
                    f"{__name__}:answers", str(run), str(path), limits=LIMITS
                )
            finally:
                # The pages promise that a photograph is not kept.
                path.unlink(missing_ok=True)
            return photograph_answers


def answers(run: str, photograph: str) -> PhotographAnswers:
    """See :meth:`Answerer.answer`; the child process calls this."""
    from advisor.datasets import measure_photograph

    loaded, pick = load_with_pick(run)
    path = Path(photograph)
    width, height = measure_photograph(path)
    forms = []
    labels = tuple[str, ...]()
    for evaluation in forms_of(loaded.evaluations, pick):
        model = ShippedFile(loaded, evaluation)
        configuration = evaluation.configuration
        results, least, layer = model.answer(path)
        labels = model.shipped.labels
        form = FormAnswer(
            form=configuration.compression,
            key=configuration.key,
            size_bytes=len(model.shipped.content),
            picked=evaluation.artefact == pick.artefact,
            found=results,
            least=least,
            layer=base64.b64encode(layer).decode(),
            answer=model.shipping.said(results, least),
        )
        forms.append(form)
    return PhotographAnswers(loaded.question.task, labels, width, height, tuple(forms))


def forms_of(evaluations: Sequence[Evaluation], pick: Evaluation) -> list[Evaluation]:
    """Return the evaluations of the pick's network to show, one for each form: float32 first."""
    compression = pick.configuration.compression
    shown_forms = dict.fromkeys((FLOAT, INT8, compression))
    by_form = {}
    for evaluation in evaluations:
        has_file = evaluation.status is Status.OK and bool(evaluation.artefact)
        if has_file and evaluation.network == pick.network:
            by_form[evaluation.configuration.compression] = evaluation
    # Of several files of its form, the pick is the one that ships.
    by_form[compression] = pick
    return [by_form[form] for form in shown_forms if form in by_form]

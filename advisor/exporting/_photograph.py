"""Run the shipped files of a run on photographs, in a child process with limits."""

from __future__ import annotations

import base64
import os
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, cast

from advisor.core import FLOAT, TASKS, Evaluation, StageError, Status, UsageError, Written
from advisor.exporting._model import prepare_model
from advisor.exporting._shipping import Found, shipping_of
from advisor.exporting.check import outputs
from advisor.isolation import WRITES_BELOW, CallLimits, ChildPool, Scratch
from advisor.store import ensure_output_dir

if TYPE_CHECKING:
    from advisor.datasets import Tiling
    from advisor.engine import LoadedRun

LIMITS = CallLimits(seconds=60.0, memory_bytes=2_000_000_000, processes=0)
EACH_S = 20.0
"""Seconds that one more photograph may take."""

INT8 = "int8"
BOXES = "boxes"  # The answers of a file that finds objects with their sides
SHOWN = 3
OPACITY = 0.6  # of a layer of colours over a photograph
PEN = 200
INK = "#e5342c"
"""Share of a photograph's longer side that a line is thick, and its colour."""


@dataclass(frozen=True)
class PhotographAnswer(Written):
    """The answer of a run's pick to one photograph.

    Attributes:
        photograph: its path as given.
        answer: the class, or ``unknown`` where its probability is below the threshold; of objects,
            their numbers.
        found: the most probable classes, or the objects that the app shows, the surest first.
        least: least probability or score (0-1) that the app shows; 0 if it shows all.
        error: why there is no answer, or empty.
    """

    photograph: str
    answer: str = ""
    found: tuple[Found, ...] = ()
    least: float = 0.0
    error: str = ""

    @property
    def sentence(self) -> str:
        """The answer in words: ``metal (97.1 %; shown from 62 %)``."""
        if self.error or not self.found:
            return self.error or self.answer
        scores = []
        for result in self.found[:SHOWN]:
            scores.append(f"{result.label} {100 * result.score:.1f} %")
        threshold = f"; shown from {100 * self.least:.0f} %" if self.least else ""
        return f"{self.answer} ({', '.join(scores)}{threshold})"


def predict(
    run: Path, photographs: Sequence[Path], to: Path | None = None, tiling: Tiling | None = None
) -> tuple[PhotographAnswer, ...]:
    """Return the answers of the pick, each photograph with its own error;
    see :class:`PhotographAnswer`.

    Of a folder, all images below it are answered.
    With a ``tiling``, a detector runs on each tile of a photograph.

    Photographs are copied to the folder ``to``, if one is given,
    with the objects that were found drawn on them.

    Raises UsageError: a folder has no photograph, the run has no file or finds no objects for
    ``to``, or ``to`` has files. The run has no detector for a ``tiling``. StageError: the work
    exceeded a limit, or the file cannot run.
    """
    photographs = list(chain.from_iterable(map(_files_of, photographs)))
    if tiling is not None:
        _require_boxes(run)
    if to is not None:
        _require_objects(run)
        copies = [
            _name_copy(place, str(photograph)) for place, photograph in enumerate(photographs)
        ]
        is_new = not to.exists()
        # Files in the way are an error before the first photograph is decoded.
        ensure_output_dir(to, copies, force=False)
    scratch = Scratch()
    runs = len(tiling.windows) if tiling else 1
    limits = replace(LIMITS, seconds=LIMITS.seconds + EACH_S * runs * len(photographs))
    # Decoders and runtime are native code that reads files of others,
    # so the child writes below one folder only.
    pool = ChildPool(Path(os.devnull), {WRITES_BELOW: str(to.resolve() if to else scratch.path)})
    try:
        names = list(map(str, photographs))
        folder = str(to.resolve()) if to else ""
        try:
            photograph_answers: Sequence[PhotographAnswer] = pool.call(
                f"{__name__}:predictions", str(run), names, folder, 0, tiling, limits=limits
            )
        except StageError:
            if len(names) < 2:
                raise
            # Nothing says at which photograph the child ended, so each is tried alone.
            photograph_answers = []
            for place, name in enumerate(names):
                photograph_answers.append(
                    _answer_alone(pool, str(run), place, name, folder, tiling)
                )
    finally:
        pool.close()
        scratch.remove()
        if to is not None and is_new:
            # One with files stays.
            with suppress(OSError):
                to.rmdir()
    return tuple(photograph_answers)


def _files_of(path: Path) -> list[Path]:
    """Return a photograph, or those of a folder; UsageError if it has none."""
    from advisor.datasets import images_in

    if not path.is_dir():
        return [path]
    files = images_in(path)
    if not files:
        raise UsageError(
            f"'{path}' has no photograph", "give files of photographs, or a folder of them"
        )
    return files


def _answer_alone(
    pool: ChildPool, run: str, place: int, name: str, to: str, tiling: Tiling | None
) -> PhotographAnswer:
    """Return the answer to one of several photographs, at one of which the child ended:
    only that one has an error.
    """
    try:
        (answer,) = pool.call(
            f"{__name__}:predictions", run, [name], to, place, tiling, limits=LIMITS
        )
    except StageError as error:
        return PhotographAnswer(
            name, error=f"the photograph cannot be used: its reader {error.message}"
        )
    return cast("PhotographAnswer", answer)


def predictions(
    run: str, photographs: Sequence[str], to: str, first: int = 0, tiling: Tiling | None = None
) -> tuple[PhotographAnswer, ...]:
    """See :func:`predict`; the child process calls this. The copies are numbered from
    ``first``.
    """
    model = _Model(*_with_pick(run))
    photograph_answers = []
    for place, name in enumerate(photographs, first):
        copy = Path(to) / _name_copy(place, name) if to else None
        photograph_answers.append(_predict_photograph(model, name, copy, tiling))
    return tuple(photograph_answers)


def _require_objects(run: Path) -> None:
    """Refuse copies with objects of a run that has none, before a folder is made for them:
    UsageError.
    """
    loaded, _pick = _with_pick(str(run))
    if TASKS[loaded.question.task].probabilities:
        raise UsageError(
            "--to: the run has no objects to draw, it names the class of an image",
            "leave --to out",
        )


def _require_boxes(run: Path) -> None:
    """Refuse tiles of a run whose files find no boxes: UsageError."""
    loaded, _pick = _with_pick(str(run))
    if shipping_of(loaded.question).answers != BOXES:
        raise UsageError(
            "--tiles: only detectors run on tiles, whose boxes can be joined", "leave --tiles out"
        )


def _name_copy(place: int, photograph: str) -> str:
    """Return the name of the copy of a photograph;
    several may have the same name in different folders.
    """
    return f"{place + 1:03}-{Path(photograph).stem}.png"


def _predict_photograph(
    model: _Model, name: str, to: Path | None, tiling: Tiling | None
) -> PhotographAnswer:
    from advisor.datasets import measure_photograph

    path = Path(name)
    try:
        size = measure_photograph(path)
    except UsageError as error:
        return PhotographAnswer(name, error=error.message)
    results, least, layer = (
        model.answer(path) if tiling is None else model.answer_tiles(path, tiling)
    )
    if to:
        _draw(path, results, layer, to, size)
    return PhotographAnswer(name, model.shipping.said(results, least), results, least)


def _draw(
    photograph: Path, results: Sequence[Found], layer: bytes, to: Path, size: tuple[int, int]
) -> None:
    """Write the upright photograph with a layer for its pixels,
    or with a box or a ring for each object.
    """
    from PIL import Image, ImageDraw, ImageOps

    from advisor.datasets import open_image

    with open_image(photograph) as image:
        upright = ImageOps.exif_transpose(image).convert("RGB")
    if layer:
        # Each pixel of a mask is one class, so a colour between two would be none of them.
        colours = (
            Image.open(BytesIO(layer))
            .convert("RGBA")
            .resize(upright.size, Image.Resampling.NEAREST)
        )
        mixed = Image.blend(upright, colours.convert("RGB"), OPACITY)
        Image.composite(mixed, upright, colours.getchannel("A")).save(to)
        return
    pen = ImageDraw.Draw(upright)
    thick = max(1, max(size) // PEN)
    width, height = size
    for result in results:
        sides = (height, width, height, width)
        top, left, bottom, right = (
            share * side for share, side in zip(result.box, sides, strict=True)
        )
        # A task that finds centres gives boxes without an area.
        if left < right and top < bottom:
            pen.rectangle((left, top, right, bottom), outline=INK, width=thick)
        else:
            pen.circle((left, top), 3 * thick, outline=INK, width=thick)
        caption = f"{result.label} {result.score:.2f}"
        pen.text((left + thick, top + thick), caption, fill=INK, font_size=8 * thick)
    upright.save(to)


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
        """All files have the same answer: the first class, or the number of objects of each
        class.
        """
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
        self._pool = ChildPool(Path(os.devnull), {WRITES_BELOW: str(self._scratch.path)})
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

    loaded, pick = _with_pick(run)
    path = Path(photograph)
    width, height = measure_photograph(path)
    forms = []
    labels = tuple[str, ...]()
    for evaluation in forms_of(loaded.evaluations, pick):
        model = _Model(loaded, evaluation)
        configuration = evaluation.configuration
        results, least, layer = model.answer(path)
        picked = evaluation.artefact == pick.artefact
        labels = model.shipped.labels
        size = len(model.shipped.content)
        shown = base64.b64encode(layer).decode()
        said = model.shipping.said(results, least)
        forms.append(
            FormAnswer(
                configuration.compression,
                configuration.key,
                size,
                picked,
                results,
                least,
                shown,
                said,
            )
        )
    return PhotographAnswers(loaded.question.task, labels, width, height, tuple(forms))


def _with_pick(run: str) -> tuple[LoadedRun, Evaluation]:
    """Return a run with its pick; UsageError if it has none."""
    from advisor.engine import load_run

    loaded = load_run(run)
    if loaded.decision.pick is None:
        raise UsageError(
            "the run has no candidate with a file", "wait for its first answer, or search again"
        )
    return loaded, loaded.decision.pick


def forms_of(evaluations: Sequence[Evaluation], pick: Evaluation) -> list[Evaluation]:
    """Return the evaluations of the pick's network to show, one for each form: float32 first."""
    compression = pick.configuration.compression
    by_form = {}
    for evaluation in evaluations:
        has_file = evaluation.status is Status.OK and bool(evaluation.artefact)
        if has_file and evaluation.network == pick.network:
            by_form[evaluation.configuration.compression] = evaluation
    # Of several files of its form, the pick is the one that ships.
    by_form[compression] = pick
    return [by_form[form] for form in dict.fromkeys((FLOAT, INT8, compression)) if form in by_form]


class _Model:
    """A file as the app runs it. UsageError if it is missing or has changed."""

    def __init__(self, run: LoadedRun, evaluation: Evaluation) -> None:
        from ai_edge_litert.interpreter import Interpreter

        from advisor.store import artefact_problem

        # A changed file is not the one that the run judged, and it would reach a native runtime.
        problem = artefact_problem(run.folder, evaluation)
        if problem is not None:
            raise UsageError(str(problem), "restore the file, or search again")
        self.shipping = shipping_of(run.question)
        file = run.folder.path / evaluation.artefact
        self._thresholds = self.shipping.thresholds(evaluation)
        self.shipped = prepare_model(file.read_bytes(), file.name, self._thresholds)
        self._interpreter = Interpreter(model_content=self.shipped.content, num_threads=1)
        self._interpreter.allocate_tensors()

    def answer(self, photograph: Path) -> tuple[tuple[Found, ...], float, bytes]:
        """Return what it finds, the least probability or score that the app shows,
        and a layer (:class:`.Shipping`).
        """
        from advisor.datasets import load

        shipped = self.shipped
        layer = self.shipping.layer
        answered = outputs(
            self._interpreter, load(photograph, shipped.size), shipped.mean, shipped.std
        )
        results = self.shipping.found(answered, shipped)
        least = self._thresholds.least(results[0].label) if results else shipped.threshold or 0.0
        return results, least, layer(answered, shipped) if layer else b""

    def answer_tiles(
        self, photograph: Path, tiling: Tiling
    ) -> tuple[tuple[Found, ...], float, bytes]:
        """Return what :meth:`answer` returns, from all tiles of a photograph."""
        import numpy as np

        shipped = self.shipped
        objects: list[Found] = []
        tiles: list[int] = []
        for tile, pixels in enumerate(tiling.read(photograph, shipped.size)):
            answered = outputs(self._interpreter, pixels, shipped.mean, shipped.std)
            for result in self.shipping.found(answered, shipped):
                (box,) = tiling.place_boxes(np.array(result.box), tile).tolist()
                objects.append(replace(result, box=tuple(box)))
                tiles.append(tile)
        boxes = np.array([result.box for result in objects])
        labels = np.array([shipped.labels.index(result.label) for result in objects], np.int64)
        scores = np.array([result.score for result in objects])
        numbers = np.array(tiles, np.int64)
        chosen = tiling.choose_boxes(boxes.reshape(-1, 4), labels, scores, numbers)
        results = tuple(objects[place] for place in chosen)
        least = shipped.threshold or 0.0
        if results:
            least = self._thresholds.least(results[0].label)
        return results, least, b""

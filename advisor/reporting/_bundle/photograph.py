"""Run the file that a run ships on photographs, as ``advisor predict`` and ``advisor update`` do.

:func:`predict` starts a child process with limits, because decoders and runtime are native code
that reads files of strangers. The child calls :func:`predictions` by module and name.
:class:`ShippedFile` is one file as an app runs it: with the edits, labels and thresholds of a
bundle. The fields of :class:`PhotographAnswer` are keys of a JSON document and stay.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, cast

from advisor.core import TASKS, Evaluation, ShippedThresholds, StageError, UsageError, Written
from advisor.isolation import CallLimits, ChildPool, Scratch
from advisor.reporting._bundle.check import outputs
from advisor.reporting._bundle.model import ShippedModel
from advisor.reporting._bundle.shipping import Found, shipping_of
from advisor.store import ensure_output_dir

if TYPE_CHECKING:
    from advisor.datasets import Tiling
    from advisor.engine import LoadedRun

LIMITS = CallLimits(seconds=60.0, memory_bytes=2_000_000_000, processes=0)
PHOTOGRAPH_S = 20.0
"""Seconds that one more photograph may take."""

BOXES = "boxes"  # The answers of a file that finds objects with their sides
SHOWN = 3  # Classes or objects that a sentence names
OPACITY = 0.6  # of a layer of colours over a photograph
LINES_PER_SIDE = 200  # The longer side of a photograph, over the thickness of a line
ALL_SCORES = ShippedThresholds()  # Every answer counts
INK = "#e5342c"  # Colour of lines and captions


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
    run: Path,
    photographs: Sequence[Path],
    to: Path | None = None,
    tiles: int = 1,
    overlap: float = 0.2,
    every_score: bool = False,
) -> tuple[PhotographAnswer, ...]:
    """Return the answers of the pick, each photograph with its own error;
    see :class:`PhotographAnswer`.

    Of a folder, all images below it are answered. With more than one of the ``tiles``, a detector
    runs on each tile of a photograph (:class:`.Tiling`). With ``every_score``, what the app does
    not show is answered, too.

    Photographs are copied to the folder ``to``, if one is given,
    with the objects that were found drawn on them.

    Raises UsageError: a folder has no photograph, the run has no file or finds no objects for
    ``to``, or ``to`` has files. The run has no detector for ``tiles``. StageError: the work
    exceeded a limit, or the file cannot run.
    """
    from advisor.datasets import Tiling

    tiling = Tiling.of_options(tiles, overlap)
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
    limits = replace(LIMITS, seconds=LIMITS.seconds + PHOTOGRAPH_S * runs * len(photographs))
    # Decoders and runtime are native code that reads files of others,
    # so the child writes below one folder only.
    pool = ChildPool(Path(os.devnull), writes_below=to.resolve() if to else scratch.path)
    try:
        names = list(map(str, photographs))
        folder = str(to.resolve()) if to else ""
        return tuple(_answer_all(pool, str(run), names, folder, tiling, every_score, limits))
    finally:
        pool.close()
        scratch.remove()
        if to is not None and is_new:
            # One with files stays.
            with suppress(OSError):
                to.rmdir()


def _answer_all(
    pool: ChildPool,
    run: str,
    names: Sequence[str],
    to: str,
    tiling: Tiling | None,
    every_score: bool,
    limits: CallLimits,
) -> Sequence[PhotographAnswer]:
    """Return the answers to all photographs by one call of the child, or by one for each."""
    try:
        answers: Sequence[PhotographAnswer] = pool.call(
            f"{__name__}:predictions", run, names, to, 0, tiling, every_score, limits=limits
        )
    except StageError:
        if len(names) < 2:
            raise
    else:
        return answers
    # Nothing says at which photograph the child ended, so each is tried alone.
    alone = []
    for place, name in enumerate(names):
        alone.append(_answer_alone(pool, run, place, name, to, tiling, every_score))
    return alone


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
    pool: ChildPool,
    run: str,
    place: int,
    name: str,
    to: str,
    tiling: Tiling | None,
    every_score: bool,
) -> PhotographAnswer:
    """Return the answer to one photograph, or an error if the child ends at it."""
    try:
        (answer,) = pool.call(
            f"{__name__}:predictions", run, [name], to, place, tiling, every_score, limits=LIMITS
        )
    except StageError as error:
        return PhotographAnswer(
            name, error=f"the photograph cannot be used: its reader {error.message}"
        )
    return cast("PhotographAnswer", answer)


def predictions(
    run: str,
    photographs: Sequence[str],
    to: str,
    first: int = 0,
    tiling: Tiling | None = None,
    every_score: bool = False,
) -> tuple[PhotographAnswer, ...]:
    """See :func:`predict`; the child process calls this.

    The copies are numbered from ``first``.
    """
    model = ShippedFile(*load_with_pick(run), every_score)
    photograph_answers = []
    for place, name in enumerate(photographs, first):
        copy = Path(to) / _name_copy(place, name) if to else None
        photograph_answers.append(_predict_photograph(model, name, copy, tiling))
    return tuple(photograph_answers)


def _require_objects(run: Path) -> None:
    """Refuse copies with objects of a run that has none, before a folder is made for them.

    Raises:
        UsageError: the run names the class of an image.
    """
    loaded, _pick = load_with_pick(str(run))
    if TASKS[loaded.question.task].probabilities:
        raise UsageError(
            "--to: the run has no objects to draw, it names the class of an image",
            "leave --to out",
        )


def _require_boxes(run: Path) -> None:
    """Refuse tiles of a run whose files find no boxes.

    Raises:
        UsageError: the run finds none.
    """
    loaded, _pick = load_with_pick(str(run))
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
    model: ShippedFile, name: str, to: Path | None, tiling: Tiling | None
) -> PhotographAnswer:
    """Return the answer to one photograph, and write its copy ``to`` a file if one is given."""
    from advisor.datasets import measure_photograph

    path = Path(name)
    try:
        size = measure_photograph(path)
    except UsageError as error:
        return PhotographAnswer(name, error=error.message)
    if tiling is None:
        results, least, layer = model.answer(path)
    else:
        results, least, layer = model.answer_tiles(path, tiling)
    if to:
        _draw_answer(path, results, layer, to, size)
    return PhotographAnswer(name, model.shipping.said(results, least), results, least)


def _draw_answer(
    photograph: Path,
    results: Sequence[Found],
    layer: bytes,
    to: Path,
    size: tuple[int, int],
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
        drawn = Image.open(BytesIO(layer)).convert("RGBA")
        colours = drawn.resize(upright.size, Image.Resampling.NEAREST)
        mixed = Image.blend(upright, colours.convert("RGB"), OPACITY)
        Image.composite(mixed, upright, colours.getchannel("A")).save(to)
        return
    pen = ImageDraw.Draw(upright)
    thick = max(1, max(size) // LINES_PER_SIDE)
    width, height = size
    for result in results:
        sides = (height, width, height, width)
        edges = [share * side for share, side in zip(result.box, sides, strict=True)]
        top, left, bottom, right = edges
        # A task that finds centres gives boxes without an area.
        if left < right and top < bottom:
            pen.rectangle((left, top, right, bottom), outline=INK, width=thick)
        else:
            pen.circle((left, top), 3 * thick, outline=INK, width=thick)
        caption = f"{result.label} {result.score:.2f}"
        pen.text((left + thick, top + thick), caption, fill=INK, font_size=8 * thick)
    upright.save(to)


def load_with_pick(run: str) -> tuple[LoadedRun, Evaluation]:
    """Return a run with its pick; UsageError if it has none."""
    from advisor.engine import LoadedRun

    loaded = LoadedRun.load(run)
    if loaded.decision.pick is None:
        raise UsageError(
            "the run has no candidate with a file", "wait for its first answer, or search again"
        )
    return loaded, loaded.decision.pick


class ShippedFile:
    """A file of a run as the app runs it; with ``every_score`` it shows all that the file answers.

    Raises:
        UsageError: the file is missing or has changed.
    """

    def __init__(self, run: LoadedRun, evaluation: Evaluation, every_score: bool = False) -> None:
        from ai_edge_litert.interpreter import Interpreter

        from advisor.store import Problem

        # A changed file is not the one that the run judged, and it would reach a native runtime.
        problem = Problem.find_in_artefact(run.folder, evaluation)
        if problem is not None:
            raise UsageError(str(problem), "restore the file, or search again")
        self.shipping = shipping_of(run.question)
        file = run.folder.path / evaluation.artefact
        self._thresholds = self.shipping.thresholds(evaluation)
        shipped = ShippedModel.prepare(file.read_bytes(), file.name, self._thresholds)
        self.shipped = replace(shipped, thresholds=ALL_SCORES) if every_score else shipped
        self._interpreter = Interpreter(model_content=self.shipped.content, num_threads=1)
        self._interpreter.allocate_tensors()

    def answer(self, photograph: Path) -> tuple[tuple[Found, ...], float, bytes]:
        """Return what the file finds, the least probability or score that the app shows, and a
        layer (:class:`.Shipping`).
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

"""Find what the files of a run contradict, where each file is valid alone.

``advisor doctor RUN`` calls ``find_contradictions`` after the checks of hashes and formats
(:meth:`Problem.list_in_run`): an edit that renewed the hashes shows here.
"""

import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from advisor.core import Evaluation, Quantity, Status
from advisor.datasets import SplitPart
from advisor.engine._history.loaded_run import LoadedRun
from advisor.engine._history.run_inputs import read_section
from advisor.engine._image_answers import PART_NAMES, correct_answers, read_groups
from advisor.engine._pipeline.evaluation.accuracy import share_of
from advisor.store import Problem, RunFolder

CLOSE = 1e-3
"""Points between an accuracy and that of its answers, whose shares are kept with seven digits."""


def find_contradictions(folder: RunFolder) -> Iterator[Problem]:
    """Yield what the files of a run contradict:
    counts, sizes of files, accuracies and the answer.
    """
    run = LoadedRun.load(folder)
    lines = folder.evaluations_file.name
    if not _fits_split(run):
        yield Problem("dataset.json", "counts other images than split.json")
    devices = Counter(row.configuration.target.device for row in run.evaluations)
    # Each device has a row for each configuration, so the largest count of one device is compared.
    if max(devices.values(), default=0) > run.manifest.get("configurations", math.inf):
        yield Problem(lines, "has more configurations than manifest.json counts")
    for row in run.evaluations:
        if row.status is not Status.OK:
            continue
        for what in (*_contradict_sizes(run, row), *_contradict_accuracies(run, row)):
            yield Problem(lines, f"{row.configuration.key}: {what}")
    if not _fits_answer(run):
        yield Problem(
            "recommendation.json",
            "has another pick, or other figures of it, than the evaluations give",
        )


def _fits_split(run: LoadedRun) -> bool:
    """Return whether ``dataset.json`` counts the images that ``split.json`` lists."""
    split = run.folder.read_json("split.json")
    if not split:
        return True
    listed = 0
    for part in SplitPart:
        count = len(split.get(part) or ())
        if run.dataset.get(part) != count:
            return False
        listed += count
    images: int = sum(read_section(run.dataset, "pictures_per_class").values())
    # Copies of images of an earlier part are in no part (decision 0119).
    copies: int = sum(read_section(run.dataset, "copies").values())
    return listed == images - copies


def _fits_answer(run: LoadedRun) -> bool:
    """Return whether ``recommendation.json`` has the pick that the evaluations give."""
    answer = run.folder.read_json("recommendation.json")
    # A search that was killed may have evaluated more than its answer so far knows.
    if not answer or not run.manifest.get("stopped"):
        return True
    pick = run.decision.pick
    expected = {**(pick.to_json() if pick else {}), "details": run.decision.feasible}
    stated: dict[str, object] = {**read_section(answer, "pick"), "details": answer.get("feasible")}
    # The answer was read from JSON, which turns tuples into lists,
    # so the pick is compared after the same way.
    written: dict[str, object] = json.loads(json.dumps(expected))
    return written == stated


def _contradict_sizes(run: LoadedRun, row: Evaluation) -> Iterator[str]:
    """Yield what the files of an evaluation contradict: their names and sizes."""
    if row.artefact != f"artifacts/{row.configuration.file_stem}.tflite":
        yield f"{row.artefact} is not the file of this configuration"
    sizes_bytes: list[tuple[str, float]] = [(row.artefact, row.size.value if row.size else 0)]
    for copy in (row.unknown, row.on_all):
        if copy and copy.file:
            sizes_bytes.append((copy.file, copy.size_bytes))
    for file, stated in sizes_bytes:
        path = run.folder.path / file
        if path.is_file() and path.stat().st_size != stated:
            yield f"{path.name} has {path.stat().st_size} bytes, not {stated:.0f}"


def _contradict_accuracies(run: LoadedRun, row: Evaluation) -> Iterator[str]:
    """Yield what the answers of a file on each part of the images contradict."""
    if not run.dataset:
        return
    of_parts = {
        SplitPart.VALIDATION: (row.answers, row.accuracy),
        SplitPart.HOLDOUT: (row.holdout_answers, row.holdout_accuracy),
    }
    for part, (judged, accuracy) in of_parts.items():
        if not judged or not judged.compared_by or not accuracy:
            continue
        shares = correct_answers(run.folder, row, part) or ()
        figures = [replace(accuracy, value=100 * sum(shares) / max(1, len(shares)), n=len(shares))]
        # Top-1 has an interval that follows from the count of right answers;
        # other figures have one of their own.
        is_top1 = judged.confusion and not judged.shares and row.capture.plain is None
        if shares and is_top1:
            right = [share == 1 for share in shares]
            # Version 0.2.0 counted each image of a group.
            groups = read_groups(run.folder, part)
            figures = [share_of(right, "", groups), share_of(right, "")]
        if not any(_are_close(figure, accuracy) for figure in figures):
            yield (
                f"the answers on {PART_NAMES[part]} give {_show_count(figures[0])}, not"
                f" {_show_count(accuracy)}"
            )


def _are_close(figure: Quantity, other: Quantity) -> bool:
    """Return whether value, interval and number of images are equal but for rounding."""
    pairs = (
        (other.value, figure.value),
        (other.low, figure.low),
        (other.high, figure.high),
        (other.n, figure.n),
    )
    return all(abs((stated or 0) - (computed or 0)) <= CLOSE for stated, computed in pairs)


def _show_count(figure: Quantity) -> str:
    low = figure.low or 0
    high = figure.high or 0
    return f"{figure.value:.2f} % ({low:.1f}-{high:.1f}) of {figure.n or 0} images"

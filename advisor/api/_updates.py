"""Let a model grow: learn from more images, and say whether the new file should ship.

Read :func:`update` first. :func:`.merge_images` adds the new images to those of the run, each in
one part. :func:`compare_answers` decides by what both files answer to the old hold-out and to a
new one. The answer is printed as JSON, and is ``lineage.json`` of the new run, so the names of its
fields stay.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.api._runs import Run, search
from advisor.core import (
    Configuration,
    Evaluation,
    ExitCode,
    StageError,
    UsageError,
    Written,
    plural,
    recipe_of,
    require_training,
    units,
)
from advisor.engine import GrownImage, MergedImages, merge_images, write_merged
from advisor.store import RunFolder

if TYPE_CHECKING:
    from advisor.engine import LoadedRun

LINEAGE = "lineage.json"
"""File of the new run that names the earlier one, and what was compared."""

TAIL = 0.025  # Probability outside each end of a 95 % interval
SHOWN = 5  # Images that are named for each class that got worse
NOT_ASKED = ("out", "request", "max_trials", "resume", "most_images")
"""Options of the run that the new search does not have: they belong to one run."""


class NoNewFile(StageError):
    """The search with the new images made no file. What it has done is in the cache."""

    exit_code = ExitCode.UNSATISFIED


@dataclass(frozen=True)
class JudgedPart(Written):
    """Shares of right answers of two files on the same images.

    Attributes:
        images: number of images.
        before: share of right answers of the earlier file, in %.
        after: that of the new file, in %.
        gain: points that the new file gains.
        low: lower end of its 95 % interval.
        high: upper end.
    """

    images: int
    before: float
    after: float
    gain: float
    low: float
    high: float

    @property
    def sentence(self) -> str:
        """The gain with its interval: ``+1.8 points (0.3 to 3.3)``."""
        return f"{self.gain:+.1f} points ({self.low:+.1f} to {self.high:+.1f})"


@dataclass(frozen=True)
class WorseClass(Written):
    """A class of which the new file recognises fewer images of the old hold-out.

    Attributes:
        label: the class.
        before: images that the earlier file recognised.
        after: images that the new file recognises.
        images: number of its images.
        examples: images that the earlier file had right and the new one has not.
    """

    label: str
    before: int
    after: int
    images: int
    examples: tuple[str, ...]


@dataclass(frozen=True)
class Update(Written):
    """The answer to whether a file that learnt from more images should take the place
    of the earlier one.

    Attributes:
        parent: the earlier run.
        run: the new run.
        ship: the new file is better, and the old hold-out shows no loss.
        reason: why, in a sentence.
        old: both files on the old hold-out.
        new: both files on new images that neither learnt from; None without such images.
        added: new images that were learnt from.
        known: new files that the run had already.
        returned: new files that show the same as an image of the old hold-out, and were not learnt
            from.
        corrected: images of the run with a corrected label.
        new_classes: classes that the earlier file does not know.
        worse: classes that got worse on the old hold-out.
    """

    entries = ("schema_version", "*")
    schema_version = 1

    parent: str
    run: str
    ship: bool
    reason: str
    old: JudgedPart
    new: JudgedPart | None
    added: int
    known: int
    returned: int
    corrected: int
    new_classes: tuple[str, ...]
    worse: tuple[WorseClass, ...]

    @property
    def lines(self) -> tuple[str, ...]:
        """The answer in lines of text."""
        from advisor.reporting import make_typed_path

        lines = [
            self.reason,
            f"right on the old hold-out: {self.old.before:.1f} %, then {self.old.after:.1f} %",
        ]
        if self.new is not None:
            lines.append(
                f"right on new images: {self.new.before:.1f} %, then {self.new.after:.1f} %"
            )
        lines.append(_count_images(self))
        if self.new_classes:
            lines.append(f"new classes: {', '.join(self.new_classes)}")
        for row in self.worse:
            lines.append(
                f"class '{row.label}' got worse on the old hold-out: {row.before}, then"
                f" {row.after} of {row.images} right, such as {row.examples[0]}"
            )
        # A file that should not ship needs no command: the earlier one stays.
        run = shlex.quote(make_typed_path(Path(self.run)))
        lines.append(
            f"next: advisor export {run} --to bundle" if self.ship else f"the new run: {run}"
        )
        return tuple(lines)


def _count_images(update: Update) -> str:
    """Say how many new images were learnt from, and what became of the others."""
    parts = [f"learnt from {plural(update.added, 'new image')}"]
    if update.returned:
        same = "show the same as images of the old hold-out and were left out"
        if update.returned == 1:
            same = "shows the same as images of the old hold-out and was left out"
        parts.append(f"{update.returned} {same}")
    if update.known:
        parts.append(f"{update.known} were known")
    if update.corrected:
        parts.append(f"{plural(update.corrected, 'label')} of the run corrected")
    return "; ".join(parts)


def update(
    run: str | Path,
    data: str | Path,
    *,
    search_again: bool = False,
    time_limit: str | None = None,
    out: str | Path | None = None,
    quiet: bool = False,
) -> Update:
    """Learn from more images, and say whether the new file should take the place
    of the earlier one.

    The card, the training and the compression of the pick are used again. Both files are judged on
    the old hold-out and on new images that neither learnt from.

    ::

        import advisor
        answer = advisor.update("runs/latest", "more")
        print(answer.ship, answer.reason)

    Args:
        run: folder of the earlier run.
        data: folder or manifest of labelled images: new ones of old classes, new classes, or
            corrected labels.
        search_again: ask the question of the run again, with all its candidates, in place of the
            pick alone.
        time_limit: most time of the search, such as ``"3min"``; None for that of the run.
        out: folder of the new run; None for the folder of the earlier one.
        quiet: show no progress.

    Raises:
        UsageError: the run has no pick or no classes, its images are gone, or the new ones hold
            nothing new.
        StageError: no file was made, or a file cannot run.
    """
    from advisor.engine import LoadedRun

    earlier = LoadedRun.load(run)
    pick = _require_pick(earlier, shlex.quote(str(run)))
    folder = Path(out) if out is not None else earlier.folder.path.resolve().parent
    _refuse_early(folder, time_limit, None if search_again else pick)
    merged = merge_images(earlier, Path(data))
    # In the folder of the runs, where it stays:
    # the request of the new run names it, and --resume reads it.
    name = f"{earlier.name}-and-{Path(data).stem}"
    manifest = write_merged(merged, _find_free_name(folder, name))
    question = _repeat_question(earlier, pick.configuration, search_again)
    question |= {"data": str(manifest), "out": str(folder)}
    if time_limit:
        question["time_limit"] = time_limit
    shipped = (folder / "latest").resolve()
    later = _search_merged(manifest, question, quiet)
    answer = _judge_new_run(earlier, later, merged)
    _keep_answer(answer, later.path, shipped)
    if answer is None:
        raise _refuse_without_file(later)
    return answer


def _refuse_without_file(later: Run) -> NoNewFile:
    return NoNewFile(
        f"the search with the new images ended without a file: {later.decision.reason}",
        "give it more time, such as --time-limit 10min",
    )


def _keep_answer(answer: Update | None, run: Path, shipped: Path) -> None:
    """Write the answer into the new run, and let ``runs/latest`` name the run whose file ships."""
    grown = RunFolder.open(Path(run))
    if answer is not None:
        grown.write_json(LINEAGE, answer.to_json())
    # `advisor export runs/latest` must not ship the file that is not to be shipped.
    if answer is None or not answer.ship:
        grown.give_latest_back(shipped)


def _judge_new_run(earlier: LoadedRun, later: Run, merged: MergedImages) -> Update | None:
    """Return which file should ship; None if the new run has no file."""
    # A budget that nothing meets still has a closest file as the pick,
    # so None means that no file was made.
    if later.decision.pick is None:
        return None
    return judge_runs(earlier, Path(later.path), merged)


def _refuse_early(folder: Path, time_limit: str | None, repeated: Evaluation | None) -> None:
    """Refuse what cannot be served, before minutes of reading and comparing images."""
    RunFolder.require_parent(folder)
    if time_limit is not None:
        units.parse_seconds(time_limit, "--time-limit")
    if repeated is not None and recipe_of(repeated.configuration.training).tunes_backbone:
        require_training(f"'{repeated.configuration.training}', the training of the pick,")


def _find_free_name(folder: Path, stem: str) -> Path:
    """Return a path for a manifest that no file has:
    an earlier update of the same run may still be continued.
    """
    path = folder / f"{stem}.csv"
    number = 1
    while path.exists():
        number += 1
        path = folder / f"{stem}-{number}.csv"
    return path


def _search_merged(manifest: Path, question: Mapping[str, Any], quiet: bool) -> Run:
    """Search with the images of a manifest; if no run begins, remove it.

    A run that began reads the manifest again with ``--resume``.
    """
    runs = _list_requests(manifest.parent)
    try:
        return search(quiet=quiet, **question)
    except BaseException:
        if _list_requests(manifest.parent) == runs:
            manifest.unlink(missing_ok=True)
        raise


def _list_requests(folder: Path) -> set[Path]:
    """Return the requests of the runs of a folder."""
    return set(folder.glob("*/request.yaml"))


def _repeat_question(
    earlier: LoadedRun, configuration: Configuration, with_all: bool
) -> dict[str, Any]:
    """Return the options of the earlier search ``with_all`` its candidates,
    or with those of one configuration.
    """
    question: dict[str, Any] = {}
    for name, value in earlier.request.written.items():
        if name not in NOT_ASKED:
            question[name] = value
    if not with_all:
        question["candidates"] = [configuration.card]
        question["training"] = [configuration.training]
        question["compressions"] = [configuration.compression]
    return question


def _require_pick(earlier: LoadedRun, typed: str) -> Evaluation:
    """Return the pick of a run, which is ``typed`` in commands;
    refuse one without classes, or without a file.
    """
    task = earlier.question.of_task
    pick = earlier.decision.pick
    if not task.labelled:
        raise UsageError(
            f"'{earlier.name}' is a run of --task {task.name}, and update needs images with one"
            " class each",
            f"search again with all images: advisor search --request {typed}/request.yaml --data"
            " ALL_IMAGES",
        )
    if pick is None or not pick.artefact:
        raise UsageError(
            f"'{earlier.name}' has no file that could be compared",
            f"continue it: advisor search --resume {typed}",
        )
    return pick


def judge_runs(earlier: LoadedRun, run: Path, merged: MergedImages) -> Update:
    """Return which file should ship,
    by the answers of both to the old hold-out and to the new one.
    """
    from advisor.reporting import predict

    old = merged.list_holdout(new=False)
    new = merged.list_holdout(new=True)
    # The earlier run has no answers to the new images, so both files are run on all of them.
    photographs = [image.path for image in (*old, *new)]
    answers = []
    for folder in (earlier.folder.path, run):
        answered = predict(folder, photographs)
        # A photograph without an answer counts as wrong.
        answers.append([answer.found[0].label if answer.found else "" for answer in answered])
    return compare_answers(earlier.name, str(run), merged, *answers)


def compare_answers(
    parent: str,
    run: str,
    merged: MergedImages,
    before: Sequence[str],
    after: Sequence[str],
) -> Update:
    """Return which file should ship.

    The new file ships if it is right more often on all images than chance allows, and the old
    hold-out does not show a loss: 95 % intervals of paired answers, see :func:`_judge_part`. Few
    images may judge a class that the earlier file does not know. There, it ships too if it
    recognises more of the class than a guess would, and loses nothing in sum.

    Args:
        parent: name of the earlier run.
        run: folder of the new run.
        merged: the images; their old hold-out comes first in the answers.
        before: class that the earlier file gives to each image of the old and the new hold-out.
        after: that of the new file.
    """
    old = merged.list_holdout(new=False)
    new = merged.list_holdout(new=True)
    labels = [image.label for image in (*old, *new)]
    right_before = [answer == label for answer, label in zip(before, labels, strict=True)]
    right_after = [answer == label for answer, label in zip(after, labels, strict=True)]
    count = len(old)
    on_old = _judge_part(right_before[:count], right_after[:count])
    on_new = _judge_part(right_before[count:], right_after[count:]) if new else None
    on_all = _judge_part(right_before, right_after)
    of_new_classes = []
    for is_right, label in zip(right_after, labels, strict=True):
        if label in merged.new_classes:
            of_new_classes.append(is_right)
    learnt = on_all.gain > 0 and _beats_guess(of_new_classes, classes=len(set(labels)))
    ship = (on_all.low > 0 or learnt) and not _is_worse(on_old)
    return Update(
        parent=parent,
        run=run,
        ship=ship,
        reason=_explain_verdict(ship, on_old, on_new, on_all),
        old=on_old,
        new=on_new,
        added=merged.added,
        known=merged.known,
        returned=merged.returned,
        corrected=len(merged.corrected),
        new_classes=merged.new_classes,
        worse=_list_worse(old, before[:count], after[:count]),
    )


def _is_worse(judged: JudgedPart) -> bool:
    """Return whether the images show a loss: the whole interval lies below zero.

    Less would let chance keep a better file from shipping.
    """
    return judged.high < 0


def _explain_verdict(
    ship: bool, on_old: JudgedPart, on_new: JudgedPart | None, on_all: JudgedPart
) -> str:
    """Return why the new file should ``ship`` or not, with what it gains on both hold-outs."""
    gained = ""
    if on_new:
        gained = f"{on_new.sentence} on {plural(on_new.images, 'new image')}, "
    figures = f"{gained}{on_old.sentence} on the {on_old.images} of the old hold-out"
    if _is_worse(on_old):
        return f"keep the old file: the new one loses on what was learnt before: {figures}"
    if ship:
        return f"ship the new file: {figures}, which shows no loss"
    why = "the gain may be chance" if on_all.gain > 0 else "the images show no gain"
    return f"keep the old file: {why}: {figures}"


def _judge_part(before: Sequence[bool], after: Sequence[bool]) -> JudgedPart:
    """Return what two files reach on the same images,
    with the exact 95 % interval of their difference.

    Images on which both are right or both are wrong say nothing. Of the others, the share that the
    new file has right is compared with one half by the exact interval of a binomial share (C.
    Clopper and E. Pearson, Biometrika 26, 1934; the test is McNemar's, Psychometrika 12, 1947). A
    bootstrap is too sure where few images differ.
    """
    from scipy.special import betaincinv

    count = len(before)
    wins = sum(now and not then for then, now in zip(before, after, strict=True))
    losses = sum(then and not now for then, now in zip(before, after, strict=True))
    differ = wins + losses
    # The function is not defined at its ends.
    low = 0.0
    if wins:
        low = float(betaincinv(wins, losses + 1, TAIL))
    high = 1.0
    if losses:
        high = float(betaincinv(wins + 1, losses, 1 - TAIL))
    points = 100 * differ / count
    return JudgedPart(
        images=count,
        before=100 * sum(before) / count,
        after=100 * sum(after) / count,
        gain=100 * (wins - losses) / count,
        low=points * (2 * low - 1),
        high=points * (2 * high - 1),
    )


def _beats_guess(right: Sequence[bool], classes: int) -> bool:
    """Return whether so many right answers are more than a guess among the classes gives,
    with 97.5 % certainty.
    """
    from scipy.special import betaincinv

    if not any(right):
        return False
    least = float(betaincinv(sum(right), len(right) - sum(right) + 1, TAIL))
    return least > 1 / classes


def _list_worse(
    images: Sequence[GrownImage], before: Sequence[str], after: Sequence[str]
) -> tuple[WorseClass, ...]:
    """Return the classes of which the new file recognises fewer images,
    those with the largest loss first.
    """
    worse = []
    for label in sorted({image.label for image in images}):
        places = [place for place, image in enumerate(images) if image.label == label]
        count_before = sum(before[place] == label for place in places)
        count_after = sum(after[place] == label for place in places)
        if count_after < count_before:
            # Only images that the earlier file had right: they show what the user would lose.
            lost = []
            for place in places:
                if before[place] == label != after[place]:
                    lost.append(str(images[place].path))
            worse.append(
                WorseClass(label, count_before, count_after, len(places), tuple(lost[:SHOWN]))
            )
    return tuple(sorted(worse, key=lambda row: row.after - row.before))

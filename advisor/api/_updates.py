"""Let a model grow: learn from more images, and say whether the new file should ship.

Read :func:`update` first. :func:`.merge_images` adds the new images to those of the run, each in
one part. :func:`compare_answers` decides by what both files answer to the old hold-out and to a
new one. The task reads images and compares answers (:class:`.Growth`). The
answer is printed as JSON, and is ``lineage.json`` of the new run, so the names of its fields stay.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
from advisor.engine import MergedImages, growth, merge_images, write_merged
from advisor.store import RunFolder

if TYPE_CHECKING:
    from advisor.engine import LoadedRun

LINEAGE = "lineage.json"
"""File of the new run that names the earlier one, and what was compared."""

NOT_ASKED = ("out", "request", "max_trials", "resume", "most_images")
"""Options of the run that the new search does not have: they belong to one run."""


class NoNewFile(StageError):
    """The search with the new images made no file. What it has done is in the cache."""

    exit_code = ExitCode.UNSATISFIED


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
        corrected: images of the run with corrected labels.
        new_classes: classes, or labels, that the earlier file does not know.
        worse: those that got worse on the old hold-out.
        notes: what else a reader should know of the new images.
        words: the words of the task for them.
    """

    # The words are those of the lines alone.
    entries = (
        "schema_version",
        "parent",
        "run",
        "ship",
        "reason",
        "figure=words.figure",
        "old",
        "new",
        "added",
        "known",
        "returned",
        "corrected",
        "new_classes",
        "worse",
        "notes",
    )
    schema_version = 1

    parent: str
    run: str
    ship: bool
    reason: str
    old: growth.JudgedPart
    new: growth.JudgedPart | None
    added: int
    known: int
    returned: int
    corrected: int
    new_classes: tuple[str, ...]
    worse: tuple[growth.WorseLabel, ...]
    notes: tuple[str, ...] = ()
    words: growth.Words = field(default_factory=growth.Words)

    @property
    def lines(self) -> tuple[str, ...]:
        """The answer in lines of text."""
        from advisor.reporting import make_typed_path

        figure = self.words.figure
        lines = [
            self.reason,
            f"{figure} on the old hold-out: {self.old.before:.1f} %, then {self.old.after:.1f} %",
        ]
        if self.new is not None:
            lines.append(
                f"{figure} on new images: {self.new.before:.1f} %, then {self.new.after:.1f} %"
            )
        lines.append(_count_images(self))
        if self.new_classes:
            lines.append(f"new {self.words.labels}: {', '.join(self.new_classes)}")
        lines += self.notes
        for row in self.worse:
            lines.append(
                f"{self.words.label} '{row.label}' got worse on the old hold-out: {row.before},"
                f" then {row.after} of {row.images} {self.words.right}, such as {row.examples[0]}"
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
        words = update.words
        what = plural(update.corrected, words.corrected, words.several_corrected)
        parts.append(f"{what} of the run corrected")
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
            corrected labels. A label that the images of the run do not state is unknown for them.
        search_again: ask the question of the run again, with all its candidates, in place of the
            pick alone.
        time_limit: most time of the search, such as ``"3min"``; None for that of the run.
        out: folder of the new run; None for the folder of the earlier one.
        quiet: show no progress.

    Raises:
        UsageError: the run has no pick, or models of its task do not learn from more images. Its
            images are gone, or the new ones hold nothing new.
        StageError: no file was made, or a file cannot run.
    """
    from advisor.engine import LoadedRun

    earlier = LoadedRun.load(run)
    typed = shlex.quote(str(run))
    task_growth = _require_growth(earlier, typed)
    pick = _require_pick(earlier, typed)
    folder = Path(out) if out is not None else earlier.folder.path.resolve().parent
    _refuse_early(folder, time_limit, None if search_again else pick)
    merged = merge_images(earlier, Path(data), task_growth)
    # In the folder of the runs, where it stays:
    # the request of the new run names it, and --resume reads it.
    name = f"{earlier.name}-and-{Path(data).stem}"
    manifest = write_merged(merged, _find_free_name(folder, name), task_growth)
    question = _repeat_question(earlier, None if search_again else pick.configuration)
    question |= {"data": str(manifest), "out": str(folder)}
    if time_limit:
        question["time_limit"] = time_limit
    shipped = _find_shipped(folder)
    later = _search_merged(manifest, question, quiet)
    answer = _judge_new_run(earlier, later, merged, task_growth)
    _keep_answer(answer, later.path, shipped)
    if answer is None:
        raise _refuse_without_file(later)
    return answer


def _find_shipped(folder: Path) -> Path | None:
    """Return the run of a folder whose file ships; None if the folder is new."""
    latest = folder / "latest"
    # The path of a link that is not there would later lead to itself.
    return latest.resolve() if latest.exists() else None


def _refuse_without_file(later: Run) -> NoNewFile:
    return NoNewFile(
        f"the search with the new images ended without a file: {later.decision.reason}",
        "give it more time, such as --time-limit 10min",
    )


def _keep_answer(answer: Update | None, run: Path, shipped: Path | None) -> None:
    """Write the answer into the new run, and let ``runs/latest`` name the run whose file ships."""
    folder = RunFolder.open(Path(run))
    if answer is not None:
        folder.write_json(LINEAGE, answer.to_json())
    # `advisor export runs/latest` must not ship the file that is not to be shipped.
    if answer is None or not answer.ship:
        folder.give_latest_back(shipped)


def _judge_new_run(
    earlier: LoadedRun, later: Run, merged: MergedImages, task_growth: growth.Growth
) -> Update | None:
    """Return which file should ship; None if the new run has no file."""
    # A budget that nothing meets still has a closest file as the pick,
    # so None means that no file was made.
    if later.decision.pick is None:
        return None
    return judge_runs(earlier, Path(later.path), merged, task_growth)


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


def _repeat_question(earlier: LoadedRun, configuration: Configuration | None) -> dict[str, Any]:
    """Return the options of the earlier search with those of one configuration, or with all."""
    question: dict[str, Any] = {}
    for name, value in earlier.request.written.items():
        if name not in NOT_ASKED:
            question[name] = value
    if configuration is not None:
        question["candidates"] = [configuration.card]
        question["training"] = [configuration.training]
        question["compressions"] = [configuration.compression]
    return question


def _require_growth(earlier: LoadedRun, typed: str) -> growth.Growth:
    """Return how models of a run's task learn from more images; refuse a task without this.

    ``typed`` is the run as the hint of the error writes it into a command.
    """
    task = earlier.question.of_task
    task_growth = task.growth()
    if task_growth is None:
        raise UsageError(
            f"'{earlier.name}' is a run of --task {task.name}, which update does not know",
            f"search again with all images: advisor search --request {typed}/request.yaml --data"
            " ALL_IMAGES",
        )
    return task_growth


def _require_pick(earlier: LoadedRun, typed: str) -> Evaluation:
    """Return the pick of a run; refuse one without a file.

    ``typed`` is the run as the hint of the error writes it into a command.
    """
    pick = earlier.decision.pick
    if pick is None or not pick.artefact:
        raise UsageError(
            f"'{earlier.name}' has no file that could be compared",
            f"continue it: advisor search --resume {typed}",
        )
    return pick


def judge_runs(
    earlier: LoadedRun, run: Path, merged: MergedImages, task_growth: growth.Growth
) -> Update:
    """Return which file should ship,
    by the answers of both to the old hold-out and to the new one.
    """
    from advisor.engine import LoadedRun

    # The earlier run has no answers to the new images, so both files are run on all of them.
    photographs = []
    for image in (*merged.list_holdout(new=False), *merged.list_holdout(new=True)):
        photographs.append(image.path)
    before = _answer_photographs(earlier, photographs)
    after = _answer_photographs(LoadedRun.load(run), photographs)
    return compare_answers(earlier.name, str(run), merged, task_growth, before, after)


def _answer_photographs(run: LoadedRun, photographs: Sequence[Path]) -> list[growth.FileAnswer]:
    """Return what the pick of a run answers to photographs."""
    from advisor.reporting import predict

    pick = run.decision.pick
    thresholds = pick.answers.label_thresholds if pick else {}
    photograph_answers = predict(run.folder.path, photographs, every_score=True)
    errors = [answer.error for answer in photograph_answers if answer.error]
    # A single image without an answer counts as wrong; without any, nothing is compared.
    if errors and len(errors) == len(photographs):
        raise StageError(f"'{run.name}' answers no photograph: {errors[0]}")
    answers = []
    for photograph in photograph_answers:
        scores = {result.label: result.score for result in photograph.found}
        answers.append(growth.FileAnswer(scores, thresholds, photograph.found, photograph.least))
    return answers


def compare_answers(
    parent: str,
    run: str,
    merged: MergedImages,
    task_growth: growth.Growth,
    before: growth.Answers,
    after: growth.Answers,
) -> Update:
    """Return which file should ship.

    The new file ships if its figure on all images is higher than chance allows, and the old
    hold-out does not show a loss: 95 % intervals of both answers to the same images, see
    :meth:`.Growth.judge`. Few images may judge a label that the earlier file does not know. There,
    it ships too if it tells the label better than a guess would, and loses nothing in sum.

    Args:
        parent: name of the earlier run.
        run: folder of the new run.
        merged: the images; their old hold-out comes first in the answers.
        task_growth: how the task compares files.
        before: what the earlier file answers to each image of the old and the new hold-out.
        after: that of the new file.
    """
    old = merged.list_holdout(new=False)
    new = merged.list_holdout(new=True)
    images = [*old, *new]
    count = len(old)
    on_old = task_growth.judge(old, before[:count], after[:count])
    on_new = None
    if task_growth.can_judge(new):
        on_new = task_growth.judge(new, before[count:], after[count:])
    on_all = task_growth.judge(images, before, after)
    learnt = on_all.gain > 0 and task_growth.has_learnt(merged.new_labels, images, after)
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
        new_classes=merged.new_labels,
        worse=task_growth.list_worse(old, before[:count], after[:count]),
        notes=merged.notes,
        words=task_growth.words,
    )


def _is_worse(judged: growth.JudgedPart) -> bool:
    """Return whether the images show a loss: the whole interval lies below zero.

    Less would let chance keep a better file from shipping.
    """
    return judged.high < 0


def _explain_verdict(
    ship: bool,
    on_old: growth.JudgedPart,
    on_new: growth.JudgedPart | None,
    on_all: growth.JudgedPart,
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

"""What is made of runs: decided again, exported, compared, answered again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.core.decision import Decision
from advisor.store import RunFolder

if TYPE_CHECKING:
    from advisor.engine.history.compare import Comparison
    from advisor.engine.history.reevaluation.session import Reevaluation
    from advisor.exporting.bundle import Bundle
    from advisor.reporting.view import RunView


@dataclass(frozen=True)
class Report:
    """A run, decided again.

    Attributes:
        view: what the report shows; ``view.decision`` is the answer.
        files: the files written, none where the question was changed and no folder given.
    """

    view: RunView
    files: tuple[Path, ...] = ()

    @property
    def decision(self) -> Decision:
        """The answer to the question as it was put now."""
        return self.view.decision

    def _repr_html_(self) -> str:
        from advisor.reporting.notebook import summary_html

        return summary_html(self.view)


def report(
    run: str | Path, *, prefer: str | None = None, to: str | Path | None = None, force: bool = False, **limits: Any
) -> Report:
    """Decide again over what a run has measured: nothing is measured or trained.

    ::

        from advisor.api import report
        print(report("runs/latest", prefer="size", budget="30ms").decision.reason)

    Args:
        run: the run folder.
        prefer: ``balanced``, ``accuracy``, ``latency``, ``size``, or weights: ``accuracy=2,latency=1``.
        to: folder for the report files; without it they are written into the run where nothing was changed.
        force: replace report files that are in ``to``.
        limits: ``budget``, ``size_budget``, ``memory_budget``, ``max_drop``, ``min_accuracy``, ``confidence``, with
            their units; ``licence``; ``must_run_on`` and ``profiles`` as sequences.

    Raises:
        UsageError: no run folder, one that is damaged, a limit or preference that is not valid, or files in the way.
    """
    from advisor.engine.history.loaded_run import read_run
    from advisor.reporting.files import write_all
    from advisor.reporting.load import view_of
    from advisor.reporting.output_dir import checked_place

    changes = {name: value for name, value in {"prefer": prefer, **limits}.items() if value is not None}
    place = checked_place(Path(to), force) if to is not None else None
    stored = read_run(run, changes)
    if place is None and stored.own_question:
        place = stored.folder.path
    view = view_of(stored)
    return Report(view, write_all(view, place) if place else ())


def export(
    run: str | Path,
    to: str | Path,
    *,
    pick: str | int | None = None,
    targets: Sequence[str] = (),
    key_file: str | Path | None = None,
    force: bool = False,
) -> Bundle:
    """Write the bundle to ship: model, labels, model card, test vectors, checksums, code for the app.

    ::

        from advisor.api import export
        print(export("runs/latest", "bundle", targets=["android"]).files)

    Args:
        run: the run folder.
        to: folder to make.
        pick: number of a candidate as ``advisor export RUN --list`` shows them, or its key; None for the pick.
        targets: ``android``, ``ios``, ``python``, ``edgetpu``; empty for the first three.
        key_file: encrypt the model with this key (32 bytes, or 64 hexadecimal digits).
        force: replace a bundle that is there.

    Raises:
        UsageError: as :func:`advisor.exporting.bundle.export` says; nothing is written then.
    """
    from advisor.exporting.bundle import export as written

    return written(run, to, None if pick is None else str(pick), targets, key_file, force)


def compare(before: str | Path, after: str | Path) -> Comparison:
    """Hold a run against an earlier one: what changed, and whether the recommendation did beyond the noise.

    ::

        from advisor.api import compare
        print(compare("runs/20260131-120000-photos", "runs/latest").reason)

    Raises:
        UsageError: one of them is no run folder, or is damaged.
    """
    from advisor.engine.history.compare import compare as compared
    from advisor.engine.history.loaded_run import read_run

    return compared(read_run(before), read_run(after))


def reevaluate(
    run: str | Path | None = None,
    *,
    runs: str | Path = "runs",
    device: Sequence[str] = (),
    profiles: Sequence[str | Path] = (),
    since_last: bool = False,
    tell: Callable[[str], None] | None = None,
) -> tuple[Reevaluation, ...]:
    """Answer earlier runs again for what changed since: devices, runtime, machine, catalogue. Nothing is trained.

    Each answer that rests on something new is a new run that names its parent, with its report files.

    ::

        from advisor.api import reevaluate
        for found in reevaluate(device=["raspberry-pi-4"]):
            print(found.parent, found.comparison and found.comparison.reason)

    Args:
        run: one run folder; None for every search under ``runs``.
        runs: folder of the runs.
        device: devices (``raspberry-pi-4``, or ``device:target``) to predict for.
        profiles: the team's own folders of device profiles; without ``device`` all of theirs are taken.
        since_last: start from what was made of each run last.
        tell: told what is being done.

    Raises:
        UsageError: no run folder, an unknown device, or a profile that is refused.
    """
    from advisor.engine.history.reevaluation.reevaluate import Devices
    from advisor.engine.history.reevaluation.reevaluate import reevaluate as answer
    from advisor.engine.history.reevaluation.reevaluate import reevaluate_all as answer_all
    from advisor.reporting.files import write_all
    from advisor.reporting.load import load_view

    devices, say = Devices.chosen(list(device), [Path(folder) for folder in profiles]), tell or (lambda _text: None)
    if run is not None:
        found = answer(Path(run), devices, since_last, say)
    else:
        found = tuple(answer_all(Path(runs), devices, since_last, say))
    for result in found:
        if result.run is not None and not (result.run / "recommendation.json").exists():
            write_all(load_view(RunFolder.open(result.run)), result.run)
    return found

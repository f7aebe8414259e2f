"""The public functions for finished runs: decide again, predict, export, log, and compare.

Commands of ``cli/_answers.py``, the integrations and users' programs call them. Each opens a run
folder and calls ``engine``, ``reporting``. :class:`ExperimentLog` is the contract
of the packages that ``--log-to`` names.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Unpack

from advisor.core import (
    Decision,
    Evaluation,
    LimitOptions,
    ReevaluateKeywords,
    UsageError,
    list_registered,
    load_integration,
    parse_count,
    takes_options,
)
from advisor.store import RunFolder

if TYPE_CHECKING:
    import pandas as pd

    from advisor.engine import Comparison, Devices, Reevaluation, Request, TileComparison
    from advisor.reporting import Bundle, PhotographAnswer, RunRow, RunView


EXPERIMENT_LOGS = "advisor.experiment_logs"
"""Entry points of :class:`ExperimentLog`:
modules or objects, by the word before the colon of ``--log-to``.
"""


class ExperimentLog(Protocol):
    """Keeps the answers of runs where a team keeps its experiments."""

    EXAMPLE: str
    """A value of ``--log-to``."""

    def require_installed(self) -> None:
        """Raise a ``UsageError`` if a package is not installed."""

    def require_reachable(self, address: str) -> None:
        """Raise a ``UsageError`` if the address cannot be used, or does not answer soon."""

    def log_run(self, view: RunView, folder: Path, address: str, bundle: Path | None) -> str:
        """Log the answer of a run, and return the identity of the new entry.

        Args:
            view: the answer.
            folder: the run folder, whose report files are kept with the entry.
            address: what follows the colon of ``--log-to``.
            bundle: folder of the exported pick; None without a pick.

        Raises:
            UsageError: the address cannot be used.
        """


@dataclass(frozen=True, repr=False)
class Report:
    """A run that was decided again.

    Attributes:
        view: the content of the report; ``view.decision`` is the answer.
        files: the files that were written; empty if a limit changed and no folder was given.
    """

    view: RunView
    files: tuple[Path, ...] = ()

    @property
    def decision(self) -> Decision:
        """The answer to the question with its present limits."""
        return self.view.decision

    def __repr__(self) -> str:
        return f"Report({self.view.name}: {self.decision.reason})"

    def to_frame(self) -> pd.DataFrame:
        """Return every evaluation as a row of a table, as :meth:`advisor.Run.to_frame` does."""
        return self.view.to_frame()

    def _repr_html_(self) -> str:
        from advisor.reporting import summary_html

        return summary_html(self.view)


@takes_options(LimitOptions, defaults=False)
def report(
    run: str | Path,
    *,
    images: bool = True,
    to: str | Path | None = None,
    force: bool = False,
    **limits: Unpack[LimitOptions],
) -> Report:
    """Decide again from the measurements of a run and write the report.
    Nothing is measured or trained.

    Each option replaces the run's own value; None keeps it.

    ::

        import advisor
        print(advisor.report("runs/latest", prefer="size", budget="30ms").decision.reason)

    Args:
        run: the run folder.
        images: show images that the pick judged wrongly, and where compression changed its answer,
            in ``report.html``.
        to: folder for the report files. Default: the run folder, if no option changed the
            question.
        force: replace report files that are in ``to``.

    Raises:
        UsageError: no run folder, a damaged one, an invalid option, or report files that are in
            the way.
    """
    from advisor.engine import LoadedRun
    from advisor.reporting import RunView, report_folder, write_all, write_own

    folder = report_folder(Path(to), force) if to is not None else None
    loaded = LoadedRun.load(run, limits)
    # The answer to other limits must not replace the reports of what the run was asked.
    if folder is None and loaded.own_question:
        folder = loaded.folder.path
    view = RunView.of_run(loaded)
    if not images:
        view = replace(view, images=None)
    if folder == loaded.folder.path:
        with loaded.folder.require_writable("name a folder for the report: --to DIR"):
            return Report(view, write_own(loaded.folder, view))
    if folder and view.next_command.endswith("/report.html"):
        # The report of the run may show what this one leaves out: open the one that was written.
        shown = view.next_command.replace(f"{view.typed_folder}/", f"{shlex.quote(str(folder))}/")
        view = replace(view, next_command=shown)
    return Report(view, write_all(view, folder) if folder else ())


def predict(
    run: str | Path,
    photographs: Sequence[str | Path],
    to: str | Path | None = None,
    tiles: int = 1,
    overlap: float = 0.2,
) -> tuple[PhotographAnswer, ...]:
    """Return what the pick of a run answers to photographs, each with its own error.

    ::

        import advisor
        (first,) = advisor.predict("runs/latest", ["bottle.jpg"])
        print(first.answer, first.found[0].score)

    Args:
        run: the run folder.
        photographs: files of photographs, or folders of them.
        to: folder for copies on which the found objects are drawn; None for none.
        tiles: tiles in a row and in a column, on each of which a detector runs beside the whole
            photograph; 1 for none.
        overlap: share (0 to 0.5) of a tile's side that the next tile has, too.

    Raises:
        UsageError: the run has no file, or no objects to draw; files of ``to`` are in the way; or
            tiles of a run without a detector.
        StageError: the file cannot run, or took too long.
    """
    from advisor.reporting import predict as answered

    folder = Path(to) if to is not None else None
    return answered(Path(run), list(map(Path, photographs)), folder, tiles, overlap)


def judge_tiles(run: str | Path, tiles: int = 2, overlap: float = 0.2) -> TileComparison:
    """Say what tiles would gain a run's detector on the images of its hold-out, and their cost.

    The pick's file runs on each image as a whole, and on its tiles. Nothing is trained, and the
    run is not changed.

    ::

        import advisor
        print(advisor.judge_tiles("runs/latest").verdict)

    Args:
        run: the run folder.
        tiles: tiles in a row and in a column, 2 to 8.
        overlap: share (0 to 0.5) of a tile's side that the next tile has, too.

    Raises:
        UsageError: the run has no detector or no file, its images are gone or have changed, or a
            number is outside its limits.
        StageError: the file cannot run, or took too long.
    """
    from advisor.engine import judge_tiles as judge

    return judge(run, tiles, overlap)


def list_runs(folder: str | Path = "runs") -> tuple[RunRow, ...]:
    """Return the runs of a folder, the newest first, with pick, figures and state.

    Args:
        folder: the folder of the runs.

    Raises:
        UsageError: it is no folder.
    """
    from advisor.reporting import Runs

    return tuple(Runs(Path(folder)).rows())


def export(
    run: str | Path,
    to: str | Path,
    *,
    pick: str | int | None = None,
    targets: Sequence[str] = (),
    force: bool = False,
    unknown_class: bool = False,
    web: bool | None = None,
    sign: str | Path | None = None,
    tiers: int = 0,
) -> Bundle:
    """Write the bundle to ship: model, labels, model card, test vectors, checksums,
    code for the app, a page to try it.

    ::

        import advisor
        print(advisor.export("runs/latest", "bundle", targets=["android"]).files)

    Args:
        run: the run folder.
        to: folder that is created.
        pick: number of a candidate in :func:`exportable`, counted from 1, or its key. Default: the
            pick of the run.
        targets: ``android``, ``ios``, ``python``, ``edgetpu``, ``web``, ``microcontroller``,
            ``coreml``, ``tiers`` (the files for a fleet). Default: the first three.
        force: replace a bundle that exists.
        unknown_class: the model has one more class, for images of things that are none of the
            others.
        web: the bundle has the page to try a classifier. None leaves it out where its runtime
            cannot be fetched, and the bundle's ``without_page`` says why; True refuses then, and
            for other tasks.
        sign: a private Ed25519 key in PEM. ``SHA256SUMS.sig`` is the signature of ``SHA256SUMS``;
            ``check.py --key`` verifies it.
        tiers: number of files for the fleet, 1 to 3; 0 for the recommended number.

    Raises:
        UsageError: the run has no such candidate, a target is invalid, the candidate has no file
            with a class for unknown things, a part of the run that the bundle depends on has
            changed, the key cannot sign, or the folder exists. Nothing is written.
    """
    from advisor.reporting import bundle

    named = None if pick is None else str(pick)
    count = parse_count("tiers", tiers)
    return bundle.export(run, to, named, targets, force, unknown_class, web, sign, count)


def exportable(run: str | Path) -> tuple[Evaluation, ...]:
    """Return the evaluations that :func:`export` takes by number:
    the pick, the runner-up, the ties, the front.

    Args:
        run: the run folder.

    Raises:
        UsageError: no run folder, or a damaged one.
    """
    from advisor.engine import LoadedRun
    from advisor.reporting import list_choices

    return list_choices(LoadedRun.load(run).decision)


def log_to(run: str | Path, place: str) -> str:
    """Log a finished run where your team keeps its experiments,
    and return the identity of the new entry.

    It has the question as parameters, the figures of the pick with their intervals as metrics, the
    report files, and the bundle of the pick.

    ::

        import advisor
        advisor.log_to("runs/latest", "mlflow:sqlite:///experiments.db")

    Args:
        run: the run folder.
        place: ``mlflow:ADDRESS``, the address of MLflow's tracking server or database.

    Raises:
        UsageError: an unknown place, one that cannot be used, or MLflow is not installed.
    """
    from advisor.reporting import RunView, bundle

    log, address = experiment_log(place)
    folder = RunFolder.open(Path(run))
    view = RunView.load(folder)
    # Nothing meets the budget, so there is nothing to ship,
    # and the entry has figures and report alone.
    if not view.decision.feasible:
        return log.log_run(view, folder.path, address, None)
    # The log has copies of its own, so the bundle goes afterwards.
    with bundle.export_for_block(folder.path) as shipped:
        return log.log_run(view, folder.path, address, shipped)


def experiment_log(place: str) -> tuple[ExperimentLog, str]:
    """Return what logs to a place, such as ``mlflow:sqlite:///experiments.db``,
    and the address there.

    Raises:
        UsageError: an unknown place, one that does not answer, or the package for it is not
            installed.
    """
    name, _, address = place.partition(":")
    names = list_registered(EXPERIMENT_LOGS)
    if name not in names or not address:
        # Only the integrations that are installed know how an address of theirs looks.
        example = load_integration(EXPERIMENT_LOGS, names[0]).EXAMPLE
        raise UsageError(f"--log-to: unknown place '{place}'", f"write for example {example}")
    log: ExperimentLog = load_integration(EXPERIMENT_LOGS, name)
    # A missing package is named before an address is tried, which may take seconds.
    log.require_installed()
    log.require_reachable(address)
    return log, address


def check_run(run: str | Path, *, artefacts: bool = False) -> tuple[str, ...]:
    """Return the files of a run folder that are damaged or missing, one line for each.

    Args:
        run: the run folder.
        artefacts: also hash every model file (about one second for each gigabyte).

    Raises:
        UsageError: no run folder.
    """
    from advisor.store import Problem

    return tuple(map(str, Problem.list_in_run(RunFolder.open(Path(run)), artefacts)))


def compare(before: str | Path, after: str | Path) -> Comparison:
    """Compare two runs: what changed,
    and whether the recommendation changed by more than the noise.

    ::

        import advisor
        print(advisor.compare("runs/20260131-120000-photos", "runs/latest").reason)

    Args:
        before: folder of the earlier run.
        after: folder of the later run.

    Raises:
        UsageError: one of them is no run folder, or is damaged.
    """
    from advisor.engine import Comparison, LoadedRun

    return Comparison.of_runs(LoadedRun.load(before), LoadedRun.load(after))


@takes_options(ReevaluateKeywords, stated=True)
def reevaluate(
    run: str | Path | None = None,
    *,
    runs: str | Path = "runs",
    since_last: bool = False,
    tell: Callable[[str], None] | None = None,
    **options: Unpack[ReevaluateKeywords],
) -> tuple[Reevaluation, ...]:
    """Answer earlier runs again after a change of devices, runtime, machine or catalogue.
    Nothing is trained.

    Each new answer is a new run that names its parent and has report files. On a device that is
    connected, the files are measured that may become the pick. If it is away, its latencies stay
    as they are, and the result says so.

    ::

        import advisor
        for result in advisor.reevaluate(device=["raspberry-pi-4"]):
            print(result.parent, result.comparison and result.comparison.reason)

    Args:
        run: one run folder. Default: every search in ``runs``.
        runs: folder of the runs.
        since_last: compare with the latest answer to each run instead of the run itself, and
            return only what is new.
        tell: called with a line about each step.

    Raises:
        UsageError: no run folder, an unknown device, a profile that is refused, or a connection
            that does not fit the device.
    """
    from advisor.engine import Session
    from advisor.reporting import Writers

    devices = _choose_devices(options)
    # A single run has nothing to compute while its files are written.
    with Writers(several=run is None) as writers:
        session = Session(
            devices, _search_quietly, since_last, tell or (lambda _text: None), writers
        )
        if run is not None:
            reevaluations = session.reevaluate(Path(run))
        else:
            reevaluations = tuple(session.reevaluate_all(Path(runs)))
        # Once all are written: a report that fails makes no answer wrong,
        # but its caller has to know.
        results = []
        for result in reevaluations:
            error = result.error or writers.problem(result.run)
            results.append(replace(result, error=error))
    if since_last:
        return tuple(result for result in results if result.new)
    return tuple(results)


def _search_quietly(request: Request) -> RunFolder:
    """Search for the answer to a request without showing its progress."""
    from advisor.engine import Progress, run_search

    return run_search(request, Progress()).run


def _choose_devices(options: ReevaluateKeywords) -> Devices:
    """Return the devices that earlier runs are answered for, and how they are connected."""
    from advisor.core import units
    from advisor.devices import ConnectionSettings
    from advisor.engine import Devices

    settings = ConnectionSettings.from_options(
        options["ssh"],
        options["adb"],
        False,
        options["python"],
        options["benchmark_model"],
        options["cores"],
    )
    # As for a search, names may be joined by commas.
    named = ",".join(options["device"]).split(",")
    return Devices.choose(
        [name.strip() for name in named if name.strip()],
        list(map(Path, options["profiles"])),
        settings,
        upload={
            "upload": options["upload"],
            "upload_images": options["upload_images"],
            "cloud_limit": options["cloud_limit"],
        },
        most_files=parse_count("measure", options["measure"]),
        limit_s=units.parse_seconds(options["time_limit"], "--time-limit"),
    )

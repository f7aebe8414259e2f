"""The public functions behind the commands; at home in a script and in a notebook."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from advisor.core.decision import Decision
from advisor.core.evaluation import Evaluation
from advisor.store import RunFolder

if TYPE_CHECKING:
    from advisor.benchmark.device_findings import DeviceBenchmark
    from advisor.benchmark.findings import Benchmark
    from advisor.benchmark.profile_values import Profile
    from advisor.compression.diagnosis.values import Diagnosis
    from advisor.compression.own.values import Compression
    from advisor.export.bundle import Bundle
    from advisor.report.view import RunView
    from advisor.search.compare import Comparison
    from advisor.search.data_check import Checked
    from advisor.search.forecast import PlanView
    from advisor.search.reevaluation.again import Reevaluation


@dataclass(frozen=True)
class Run:
    """A finished or interrupted search, read from its folder.

    Attributes:
        path: the run folder.
        interrupted: it was stopped before its end.
        stopped: why it ended before every configuration was evaluated, empty where it did not.
    """

    path: Path
    interrupted: bool = False
    stopped: str = ""

    @cached_property
    def view(self) -> RunView:
        """Everything that a report shows."""
        from advisor.report.load import load_view

        return load_view(RunFolder.open(self.path))

    @property
    def evaluations(self) -> tuple[Evaluation, ...]:
        """Every configuration with what became of it."""
        return self.view.evaluations

    @property
    def decision(self) -> Decision:
        """The pick, its reason, the runner-up, ties and what would change it."""
        return self.view.decision

    @property
    def pick(self) -> Evaluation | None:
        """The recommended evaluation; the least-bad one where nothing meets the budget."""
        return self.decision.pick

    @property
    def report(self) -> Path:
        """The report to open in a browser."""
        return self.path / "report.html"

    def _repr_html_(self) -> str:
        from advisor.report.notebook import summary_html

        return summary_html(self.view)


def search(
    *,
    resume: str | Path | None = None,
    extend: str | None = None,
    verbose: bool = False,
    quiet: bool = False,
    **options: Any,
) -> Run:
    """Find the model to ship; options are those of :class:`advisor.search.request.Request`, with their units.

    ::

        from advisor import search
        run = search(budget="50ms", data="photos")
        print(run.decision.reason, run.report)

    Args:
        resume: folder of a run to go on with; its own options are taken, and what failed is tried again.
        extend: go on for so much longer, such as ``30min``; only with ``resume``.
        verbose: show the libraries' own output instead of keeping it in ``log.txt``.
        quiet: show no progress.
        options: ``task``, ``budget``, ``data``, ``size_budget``, ``max_drop``, ``candidates``, ``seed``, ``out``, ...;
            ``request`` names a YAML file with the same keys.

    Raises:
        UsageError: an option, the pictures or the output folder is at fault; nothing was spent.
        WeightsError: no candidate's weights can be had.
    """
    from advisor.core.errors import UsageError
    from advisor.report.files import write_all
    from advisor.search.diagnoses import diagnose_run
    from advisor.search.progress import Progress
    from advisor.search.request import resolve, resolve_resumed
    from advisor.search.run import run_search

    named = options.pop("request", None)
    file = Path(named) if named else None
    folder = Path(resume) if resume is not None else None
    if folder is not None:
        request = resolve_resumed(RunFolder.open(folder).read_request(), options, file, extend)
    elif extend is not None:
        raise UsageError("--extend goes on with a run, and --resume names none", "add --resume runs/latest")
    else:
        request = resolve(options, file)
    outcome = run_search(request, Progress(False if quiet else None), folder, verbose)
    if outcome.stop.why != "interrupt":
        diagnose_run(outcome.run)
    run = Run(outcome.run.path, outcome.stop.why == "interrupt", outcome.stop.text if outcome.stop.early else "")
    write_all(run.view, run.path)
    return run


def plan(**options: Any) -> PlanView:
    """Say what a search with these options would do and what it would take; nothing is spent, nothing is connected to.

    ::

        from advisor import plan
        view = plan(budget="50ms", data="photos", time_limit="10min")
        print(view.price_s, [forecast.configuration.key for forecast in view.forecasts])

    Args:
        options: those of :func:`search`; ``request`` names a YAML file with the same keys.

    Raises:
        UsageError: what ``search`` would refuse before anything is spent.
    """
    from advisor.search.preview import preview
    from advisor.search.request import resolve

    file = options.pop("request", None)
    return preview(resolve(options, Path(file) if file else None))


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
        from advisor.report.notebook import summary_html

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
    from advisor.report.files import write_all
    from advisor.report.load import view_of
    from advisor.report.place import checked_place
    from advisor.search.stored import read_run

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
        UsageError: as :func:`advisor.export.bundle.export` says; nothing is written then.
    """
    from advisor.export.bundle import export as written

    return written(run, to, None if pick is None else str(pick), targets, key_file, force)


def compare(before: str | Path, after: str | Path) -> Comparison:
    """Hold a run against an earlier one: what changed, and whether the recommendation did beyond the noise.

    ::

        from advisor.api import compare
        print(compare("runs/20260131-120000-photos", "runs/latest").reason)

    Raises:
        UsageError: one of them is no run folder, or is damaged.
    """
    from advisor.search.compare import compare as compared
    from advisor.search.stored import read_run

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
    from advisor.report.files import write_all
    from advisor.report.load import load_view
    from advisor.search.reevaluation.again import Devices
    from advisor.search.reevaluation.again import reevaluate as answer
    from advisor.search.reevaluation.again import reevaluate_all as answer_all

    devices, say = Devices.chosen(list(device), [Path(folder) for folder in profiles]), tell or (lambda _text: None)
    if run is not None:
        found = answer(Path(run), devices, since_last, say)
    else:
        found = tuple(answer_all(Path(runs), devices, since_last, say))
    for result in found:
        if result.run is not None and not (result.run / "recommendation.json").exists():
            write_all(load_view(RunFolder.open(result.run)), result.run)
    return found


def benchmark(*models: str | Path, **options: Any) -> Benchmark:
    """Measure one ``.tflite`` file on this machine's CPU, or several interleaved in one run.

    ::

        from advisor import benchmark
        found = benchmark("a.tflite", "b.tflite", threads=(1, 2))
        print(found.ratios, found.files[0].advice)

    Args:
        models: one or more files.
        options: ``threads``, ``effort``, ``shape``, ``kernels``, ``runtime``, ``contended``, ``sustained_s``,
            ``pipeline``, ``picture``, ``force``, as :func:`advisor.benchmark.session.benchmark` explains them.

    Raises:
        UsageError: a file cannot be run, an option is not valid, or the machine is not fit for timing.
    """
    from advisor.benchmark.session import benchmark as measured

    return measured(*models, **options)


def benchmark_device(*models: str | Path, **options: Any) -> DeviceBenchmark:
    """Measure ``.tflite`` files on a device over its connection, or on this machine's GPU; predict where there is none.

    ::

        from advisor.api import benchmark_device
        print(benchmark_device("a.tflite", device="raspberry-pi-4").rows)

    Args:
        models: one or more files.
        options: ``device`` (a name or ``name:target``), ``accelerator``, ``reach``, ``profiles``, ``threads``,
            ``effort``, as :func:`advisor.search.benchmarking.elsewhere` explains them.

    Raises:
        UsageError: an option is not valid, or not one file can be measured.
    """
    from advisor.search.benchmarking import elsewhere

    return elsewhere(models, **options)


def profile(model: str | Path, **options: Any) -> Profile:
    """Find where the time of one ``.tflite`` file goes, operator by operator.

    ::

        from advisor import profile
        found = profile("model.tflite")
        print(found.advice, found.top(5))

    Args:
        model: the file.
        options: ``threads``, ``runs``, ``kernels``, ``shape``, ``accelerators``, as
            :func:`advisor.benchmark.operators.profile` explains them.

    Raises:
        UsageError: the file is missing or damaged, or the runtime cannot run or profile it.
    """
    from advisor.benchmark.operators import profile as profiled
    from advisor.core.errors import StageError, UsageError

    try:
        return profiled(model, **options)
    except StageError as error:
        raise UsageError(error.message, error.hint) from error


def compress(
    model: str | Path,
    recipes: Sequence[str],
    *,
    calibration: str | Path | None = None,
    data: str | Path | None = None,
    max_drop_points: float | None = None,
    to: str | Path | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    seed: int = 0,
    latency: bool = True,
    accelerator: str = "xnnpack",
    learn_s: float = 600.0,
    force: bool = False,
    tell: Callable[[str], None] | None = None,
) -> Compression:
    """Make forms of a float ``.tflite`` classifier and say what each costs.

    ::

        from advisor.api import compress
        found = compress("model.tflite", ["int8", "float16"], data="photos")
        print([(form.recipe, form.sizes, form.likeness) for form in found.forms])

    Args:
        model: the float file.
        recipes: names of recipes.
        calibration: folder of pictures to calibrate on; without it those of ``data``, else bundled photographs.
        data: folder of labelled pictures, one folder a class, to measure accuracy on.
        max_drop_points: what a form may lose against float; recipes that score or train work towards it.
        to: folder for the forms, ``MODEL-forms`` by default.
        mean: subtracted from RGB 0..255, one number or three; by default what the file says.
        std: what the difference is divided by.
        seed: of every draw.
        latency: also time the forms.
        accelerator: whose operators are counted, such as ``edgetpu``.
        learn_s: how long a recipe that learns may take; it gives the best that it has by then.
        force: replace forms that are there.
        tell: told what is being done.

    Raises:
        UsageError: as :func:`advisor.compression.own.question.ask` says; nothing is made then.
    """
    from advisor.compression.own.compress import compress as made
    from advisor.compression.own.question import ask

    question = ask(
        Path(model),
        recipes,
        calibration=Path(calibration) if calibration is not None else None,
        data=Path(data) if data is not None else None,
        max_drop_points=max_drop_points,
        to=Path(to) if to is not None else None,
        mean=mean,
        std=std,
        seed=seed,
        target=accelerator,
        learn_s=learn_s,
        force=force,
    )
    return made(question, tell or (lambda _text: None), latency)


def diagnose(
    model: str | Path,
    against: str | Path,
    *,
    calibration: str | Path | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> Diagnosis:
    """Say why a quantized file answers worse, or runs slower, than the float file that it was made from.

    ::

        from advisor.api import diagnose
        print(*diagnose("model-int8.tflite", "model.tflite", calibration="photos").verdict, sep="\\n")

    Args:
        model: the quantized file.
        against: the float file.
        calibration: folder of pictures to run both on; bundled photographs without it.
        mean: subtracted from RGB 0..255, one number or three; by default what one of the files says.
        std: what the difference is divided by.

    Raises:
        UsageError: a file is missing or damaged, they do not fit each other, or nobody says how they read pictures.
    """
    from advisor.compression.diagnosis.request import diagnose as diagnosed

    return diagnosed(Path(model), Path(against), Path(calibration) if calibration else None, mean, std)


def check_data(
    data: str | Path,
    *,
    labels: bool = True,
    card: str = "",
    catalog: Sequence[str] = (),
    offline: bool = False,
    mirror: str = "",
    say: Callable[[str], None] = lambda _text: None,
) -> Checked:
    """Say what is wrong with a set of pictures; none of them is changed.

    ::

        from advisor.api import check_data
        checked = check_data("photos")
        print([finding.message for finding in checked.findings])
        checked.write_manifest(Path("cleaned.csv"))

    Args:
        data: a folder, or a CSV or Parquet manifest.
        labels: look for wrong labels and for crops, with a network's features.
        card: the model card whose features are taken; empty for the best one that is here.
        catalog: your own catalogue files.
        offline: never open a connection.
        mirror: folder or address that holds weights, asked first.
        say: told what is being done.

    Raises:
        UsageError: nothing there, nothing that can be read as a data set, or an unknown card.
    """
    from advisor.search.data_check import check_data as checked
    from advisor.search.data_check.judge import Judge

    judge = Judge(card, tuple(Path(path) for path in catalog), offline, mirror) if labels else None
    return checked(Path(data), judge, say)

"""How far the measurements can be trusted: repeated, against the runtime's own tool, beside busy processes.

    python -m benchmarks measurement                       # about ten minutes, on an idle machine
    python -m benchmarks measurement --quick               # two minutes: the same steps, too short to quote
    python -m benchmarks measurement --models a.tflite ... # other files than the twelve that are made

The twelve artefacts are four catalogue networks with random weights (latency does not depend on them) as float32,
dynamic_int8 and int8; they are made once and kept in the cache folder.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from advisor.datasets import InputSpec
from advisor.measurement import LatencyResult, measure
from advisor.measurement._host import busy_processes, observe_load
from advisor.measurement._latency.timing import interleave_files
from advisor.measurement._operators.profile import profile
from advisor.store import ArtifactCache
from benchmarks.tables import Row, keep

CARDS = ("mobilenet_v1_0.25_224", "mobilenet_v2_0.35_224", "mobilenet_v2_1.0_224", "efficientnet_lite0_224")
FORMS = ("float32", "dynamic_int8", "int8")
CALIBRATION_IMAGES = 8
REPEATED = ("mobilenet_v2_1.0_224.float32", "mobilenet_v2_1.0_224.int8")
HEADER = ("figure", "to reach", "found", "reached")
LOADS = (1, 3)


@dataclass(frozen=True)
class Scale:
    """How thoroughly to measure.

    Attributes:
        repeats: how often the same command is repeated.
        pause_s: rest before each repeat.
        effort: effort of the repeats.
        ranking_effort: effort of the rankings.
        ranking_rounds: how often the artefacts are timed for one ranking.
        rounds: how often this and the runtime's tool take turns.
        tool_runs: runs of the runtime's tool in a round.
        profiles: how often a profile is timed.
    """

    repeats: int
    pause_s: float
    effort: str
    ranking_effort: str
    ranking_rounds: int
    rounds: int
    tool_runs: int
    profiles: int


FULL = Scale(5, 60.0, "normal", "search", 3, 8, 500, 3)
QUICK = Scale(2, 0.5, "search", "search", 1, 2, 50, 1)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure every figure and keep the table."""
    parser = argparse.ArgumentParser(description="Measure how far the measurements can be trusted.")
    parser.add_argument("--quick", action="store_true", help="short steps, kept under another name")
    parser.add_argument("--models", nargs="+", type=Path, help=".tflite files instead of the twelve made ones")
    options = parser.parse_args(arguments)
    scale, name = (QUICK, "measurement-quick") if options.quick else (FULL, "measurement")
    models = options.models or list(artefacts().values())
    repeated = [path for path in models if path.stem in REPEATED] or models[:2]
    began, start = time.monotonic(), observe_load(1.0)
    steps: tuple[Callable[[], list[Row]], ...] = (
        lambda: repeatability(repeated, scale),
        lambda: agreement(repeated, scale),
        lambda: rankings(models, scale),
        lambda: profiling(repeated, scale),
    )
    rows = [row for step in steps for row in step()]
    busy = "unknown" if start.others_cores is None else f"{start.others_cores:.1f} of {start.cores}"
    remarks = [
        f"processors that other processes kept busy at the start: {busy}",
        "rankings are by wall time where the verdict is not contended, else by CPU time, both at one thread",
        f"{scale}, {(time.monotonic() - began) / 60:.0f} minutes in all",
    ]
    print(keep(name, "How far the measurements can be trusted", HEADER, rows, remarks))


def repeatability(models: Sequence[Path], scale: Scale) -> list[Row]:
    """Measure all files anew after each pause: for each the largest distance of a repeat from their median."""
    found: dict[Path, list[LatencyResult]] = {path: [] for path in models}
    start = time.monotonic()
    for turn in range(scale.repeats):
        time.sleep(max(0.0, start + turn * scale.pause_s - time.monotonic()))
        for path in models:
            found[path].append(measure(path, [1], scale.effort).results[0])
            _tell(f"{path.stem}: {found[path][-1].rank_ms:.4g} ms, {found[path][-1].verdict}")
    return [_repeated(path, rows, scale) for path, rows in found.items()]


def _repeated(path: Path, found: Sequence[LatencyResult], scale: Scale) -> Row:
    apart = spread([row.rank_ms for row in found])
    title = f"{path.stem}, {scale.repeats} runs {scale.pause_s:g} s apart: largest distance from their median"
    return (title, "<= 5 %", f"{apart:.1%} ({_verdicts(found)})", _judged(apart <= 0.05, found))


def agreement(models: Sequence[Path], scale: Scale) -> list[Row]:
    """Take turns with the runtime's own tool: median over the rounds of the ratio of the medians of one round."""
    rows: list[Row] = []
    for path in models:
        ratios, found = [], []
        for _ in range(scale.rounds):
            theirs = tool_median_ms(path, scale.tool_runs)
            found.append(measure(path, [1], "search", retry=False).results[0])
            ours = found[-1].wall.median
            ratios.append(ours / theirs)
            _tell(f"{path.stem}: advisor {ours:.4g} ms, litert-benchmark {theirs:.4g} ms")
        ratio = statistics.median(ratios)
        shown, reached = f"{ratio:.3f} ({_verdicts(found)})", _judged(abs(ratio - 1) <= 0.03, found)
        rows.append((f"{path.stem}, advisor / litert-benchmark", "0.97-1.03", shown, reached))
    return rows


def tool_median_ms(model: Path, runs: int) -> float:
    """Return the median that ``litert-benchmark`` of the installed runtime reports at one thread (two decimals)."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        command = [sys.executable, "-m", "ai_edge_litert.tools.benchmark_litert_model", "--model", str(model)]
        command += ["--num_threads", "1", "--warmup_runs", "20", "--num_runs", str(runs), "--result_json", str(result)]
        subprocess.run(command, check=True, capture_output=True, timeout=600)
        return float(json.loads(result.read_text())["latency"]["median_ms"])


def rankings(models: Sequence[Path], scale: Scale) -> list[Row]:
    """Rank the artefacts idle and beside busy processes: Kendall's tau of the two rankings, and the verdicts."""
    from scipy.stats import kendalltau

    idle = _ranked(models, scale)
    rows: list[Row] = []
    for count in LOADS:
        with busy_processes(count):
            busy = _ranked(models, scale)
        tau = float(kendalltau([row.rank_ms for row in idle], [row.rank_ms for row in busy]).statistic)
        beside = f"beside {count} busy process{'' if count == 1 else 'es'}"
        title = f"ranking of {len(models)} artefacts {beside}, Kendall's tau to idle ({_verdicts(idle)})"
        rows.append((title, ">= 0.9", f"{tau:.3f}", _judged(tau >= 0.9, idle)))
        told = all(row.contended for row in busy)
        rows.append((f"verdicts {beside}", "all contended", _verdicts(busy), _yes(told)))
    return rows


def profiling(models: Sequence[Path], scale: Scale) -> list[Row]:
    """Measure what the profiler costs a run, what the operators make up, and the whole command."""
    rows: list[Row] = []
    for path in models:
        found = [profile(path, with_roofline=False) for _ in range(scale.profiles)]
        overhead = statistics.median(one.overhead for one in found)
        covered = statistics.median(one.coverage for one in found)
        seconds = statistics.median(_profile_seconds(path) for _ in range(scale.profiles))
        rows += [
            (f"{path.stem}, profiling overhead", "< 10 %", f"{overhead:+.1%}", _yes(overhead < 0.1)),
            (f"{path.stem}, operators / whole", "0.95-1.02", f"{covered:.3f}", _yes(0.95 <= covered <= 1.02)),
            (f"advisor profile {path.stem}, whole", "< 8 s", f"{seconds:.1f} s", _yes(seconds < 8)),
        ]
        _tell(f"{path.stem}: overhead {overhead:+.1%}, {seconds:.1f} s")
    return rows


def spread(values: Sequence[float]) -> float:
    """Return the largest distance of a value from the median, as a part of the median."""
    middle = statistics.median(values)
    return max(abs(value - middle) for value in values) / middle


def artefacts() -> dict[str, Path]:
    """Return the twelve artefacts by ``card.form``, made where they are not in the cache."""
    return {f"{card}.{form}": path for card in CARDS for form, path in _forms_of(card).items()}


def _forms_of(name: str) -> dict[str, Path]:
    inputs = {"card": name, "forms": list(FORMS), "calibration": CALIBRATION_IMAGES}
    folder = ArtifactCache().get("measurement-benchmark-1", inputs, lambda out: _make(name, out))
    return {form: folder / f"{name}.{form}.tflite" for form in FORMS}


def _make(name: str, folder: Path) -> None:
    from advisor.catalog import Catalogue, convert
    from advisor.compression import recipe
    from advisor.tflite import select_output

    _tell(f"making {name}")
    card = Catalogue.load()[name]
    master = folder / "master.tflite"
    convert(card, None, master)
    model = select_output(master.read_bytes(), "probabilities")
    master.unlink()
    view = InputSpec(card.input_size, card.preprocessing.mean, card.preprocessing.std)
    images = view.draw_photographs()[:CALIBRATION_IMAGES]
    for form in FORMS:
        made = recipe(form)
        data = made.apply(model, images if made.needs_calibration else None)
        (folder / f"{name}.{form}.tflite").write_bytes(data)


def _ranked(models: Sequence[Path], scale: Scale) -> list[LatencyResult]:
    """Time the artefacts in turn several times over, each time in a fresh process; of each the middle one."""
    rounds = [
        [rows[0] for rows in interleave_files(models, [1], scale.ranking_effort)] for _ in range(scale.ranking_rounds)
    ]
    return [sorted(each, key=lambda row: row.rank_ms)[len(each) // 2] for each in zip(*rounds, strict=True)]


def _profile_seconds(model: Path) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "advisor", "profile", str(model)], check=True, capture_output=True)
    return time.perf_counter() - start


def _verdicts(rows: Sequence[LatencyResult]) -> str:
    kinds = [row.verdict.value for row in rows]
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))


def _judged(reached: bool, idle: Sequence[LatencyResult]) -> str:
    """A figure that is promised of an idle machine is not judged where the machine was not idle."""
    return "not judged: the machine was not idle" if any(row.contended for row in idle) else _yes(reached)


def _yes(reached: bool) -> str:
    return "yes" if reached else "no"


def _tell(text: str) -> None:
    print(f"   {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()

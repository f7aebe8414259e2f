"""Networks in the runtimes of this machine, LiteRT first: latency with intervals, in turn in one process.

    python -m benchmarks runtimes                        # 8 minutes on an idle machine, the first time 11
    python -m benchmarks runtimes --networks resnet_18_224

Weights are random, which changes no latency. Ranges of int8 files are measured on two inputs: with made-up ones, ONNX
Runtime cannot leave out a ReLU before a QuantizeLinear, and SqueezeNet took nine times as long. Each further runtime of
`local_runtimes` that is installed has its own columns.
"""

import argparse
import math
import statistics
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from advisor.core import AdvisorError, plural
from advisor.devices import LITERT, HostConnection, RuntimeFile, local_runtimes, title_of
from advisor.measurement import DeviceRow, Ratio
from advisor.measurement._on_device.in_runtimes import RuntimeHere, benchmark_in_runtimes
from advisor.store import ArtifactCache, sha256_file
from benchmarks.catalogue_files import FORMS, files_of
from benchmarks.tables import Row, keep, kept_of_others

NETWORKS = (
    "mobilenet_v1_0.25_128", "mobilenet_v1_1.0_224", "mobilenet_v2_1.0_224", "mobilenet_v3_small_1.0_224",
    "mobilenet_v3_large_1.0_224", "efficientnet_lite0_224", "mnasnet_1.0_224", "squeezenet_1.1_227",
    "shufflenet_v2_1.0_224", "inception_v1_224", "resnet_18_224", "resnet_50_224",
)  # fmt: skip
THREADS = (1, 2)
EFFORT = "search"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure every network and keep the table."""
    parser = argparse.ArgumentParser(description="Compare the runtimes of this machine.")
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=NETWORKS, help="measure only these")
    chosen = parser.parse_args(arguments).networks
    runtimes = installed()
    rows, _ = kept_of_others("runtimes", chosen)
    for (network, form), file in networks(chosen).items():
        rows += measured(network, form, file, runtimes)
        print(f"{network} {form}", flush=True)
    rows.sort(key=lambda row: (NETWORKS.index(str(row[0])), str(row[1]), str(row[2])))
    print(keep("runtimes", "Runtimes of this machine", header(runtimes), rows, remarks(rows, runtimes)))


def networks(chosen: Sequence[str]) -> dict[tuple[str, str], Path]:
    """Return the file of each network in each form."""
    floats = {name: path for (name, form), path in files_of(chosen).items() if form == "float32"}
    cache, found = ArtifactCache(), dict[tuple[str, str], Path]()
    for name, path in floats.items():
        folder = cache.get("runtimes-int8-1", {"model": sha256_file(path)}, partial(_make_int8, path))
        found |= {(name, "float32"): path, (name, "int8"): folder / "int8.tflite"}
    return found


def _make_int8(path: Path, folder: Path) -> None:
    """Quantize a float file by ai-edge-quantizer, with ranges from two inputs."""
    from ai_edge_litert.interpreter import Interpreter
    from ai_edge_quantizer import quantizer, recipe

    interpreter = Interpreter(str(path))
    ((signature, names),) = interpreter.get_signature_list().items()
    shape, generator = interpreter.get_input_details()[0]["shape"], np.random.default_rng(1)
    inputs = [{names["inputs"][0]: generator.uniform(-1, 1, shape).astype(np.float32)} for _ in range(2)]
    tool = quantizer.Quantizer(str(path), recipe.static_wi8_ai8())
    tool.quantize(tool.calibrate({signature: inputs})).export_model(str(folder / "int8.tflite"))


def installed() -> list[RuntimeHere]:
    """Return LiteRT and the other runtimes of this machine that are installed."""
    found = [RuntimeHere(LITERT, "ai-edge-litert", HostConnection())]
    for name, runtime in local_runtimes().items():
        if not runtime.missing()[0]:
            target = runtime.profile().target()
            found.append(RuntimeHere(name, target.runtime, runtime.connect(target)))
    return found


def header(runtimes: Sequence[RuntimeHere]) -> list[str]:
    """Return the names of the columns."""
    first, *others = (title_of(each.name) for each in runtimes)
    latencies = [f"{title} ms (95 %)" for title in (first, *others)]
    ratios = [f"{title} / {first} (95 %)" for title in others]
    return ["network", "form", "threads", *latencies, *ratios, "same answers of 32", "largest difference", "remark"]


def measured(network: str, form: str, file: Path, runtimes: Sequence[RuntimeHere]) -> list[Row]:
    """Return a row for each thread count of a file."""
    found = benchmark_in_runtimes([file], runtimes, THREADS, EFFORT)
    same, difference = agreement(file, runtimes)
    rows: list[Row] = []
    for threads in THREADS:
        of_runtime = {row.device: row for row in found.rows if row.threads == threads}
        ratios = {ratio.model.rpartition(" in ")[2]: ratio for ratio in found.ratios if ratio.threads == threads}
        latencies = [latency(of_runtime[each.name]) for each in runtimes]
        compared = [share(ratios.get(each.name)) for each in runtimes[1:]]
        states = [f"{title_of(name)} {row.status}" for name, row in of_runtime.items() if row.status != "stable"]
        rows.append((network, form, threads, *latencies, *compared, same, difference, "; ".join(states)))
    return rows


def agreement(file: Path, runtimes: Sequence[RuntimeHere]) -> tuple[str, str]:
    """Return on how many inputs the exports give the file's answer, and the largest difference in % of the range."""
    facts = []
    for each in runtimes:
        try:
            facts.append(RuntimeFile.make_file(each.runtime, file).facts)
        except AdvisorError:
            continue
    exports = [each for each in facts if each]
    if not exports:
        return "", ""
    same = min(each["same_answers"] for each in exports)
    difference = max(each["largest_difference"] for each in exports)
    return f"{same:g}", f"{100 * difference:.2g} %"


def latency(row: DeviceRow) -> str:
    """Return a latency with its interval, or that the runtime failed."""
    if row.latency is None or row.latency.low is None or row.latency.high is None:
        return "failed" if row.latency is None else f"{row.latency.value:.3g}"
    return f"{row.latency.value:.3g} ({row.latency.low:.3g}\u2013{row.latency.high:.3g})"


def share(ratio: Ratio | None) -> str:
    """Return a ratio with its interval; empty if there is none."""
    return f"{ratio.ratio:.2f} ({ratio.low:.2f}\u2013{ratio.high:.2f})" if ratio else ""


def remarks(rows: Sequence[Row], runtimes: Sequence[RuntimeHere]) -> list[str]:
    """Return the geometric mean of the ratios by form and thread count, and what was measured how."""
    said = []
    for place, each in enumerate(runtimes[1:]):
        column = 3 + len(runtimes) + place
        for form in FORMS:
            for threads in THREADS:
                those = [str(row[column]) for row in rows if (row[1], str(row[2])) == (form, str(threads))]
                ratios = [float(text.split()[0]) for text in those if text]
                if not ratios:
                    continue
                mean = math.exp(statistics.fmean(map(math.log, ratios)))
                said.append(
                    f"{title_of(each.name)}, {form}, {plural(threads, 'thread')}: {mean:.2f} times LiteRT's time "
                    f"(geometric mean of {len(ratios)} networks), faster for {sum(ratio < 1 for ratio in ratios)}"
                )
    targets = {title_of(name): runtime.profile().target() for name, runtime in local_runtimes().items()}
    named = ", ".join(f"{title}: {each.runtime} {each.version}" for title, each in targets.items() if each.version)
    return [*said, f"{named}; effort `{EFFORT}`; random weights; an interval is that of the median over blocks of runs"]


if __name__ == "__main__":
    main()

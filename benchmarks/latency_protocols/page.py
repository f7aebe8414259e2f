"""The page of results: what was asked, what was reached, what bounds it, and every row."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.latency_protocols.protocols import FEATURES, LOW_RANK, NEAREST, OURS

Row = Mapping[str, Any]

HEAD = f"""# Latency prediction

Made by `python -m benchmarks latency_prediction` on the shipped device profiles. **New silicon**: a device is
hidden with all its targets and every other device of the same silicon. **New target of a known device**: it alone
is hidden, the device's other runtimes stay. **Family**: hidden whole. Jobs published under two names count once.
Anchors: at random; *chosen* by the advisor among a random two thirds of the models; *chosen of all*, as `devices
calibrate` chooses, one set a target. Most NPUs get the same set, so a change of the choice moves the whole row: w8a8
with five networks fell from 0.850 to 0.791 with the layer of builds. Twelve sets from two thirds each did not change.
Methods: `{NEAREST}` is the baseline, `{LOW_RANK}` collaborative, `{FEATURES}` without other targets, `{OURS}` the
product's (additive model of all targets, resemblance to known ones weighed by evidence, departures along what takes
a model's time). **Next release**: a device's targets of the newest release are hidden, and nothing is measured with it;
other devices ran both. **A wrong row**: one of the measured models is wrong by a factor."""

WANTED = (
    ("new silicon, NPU float", "k=5, chosen of all", "within_10", 0.78),
    ("new silicon, NPU w8a8", "k=5, chosen of all", "within_10", 0.82),
    ("new silicon, NPU float", "k=5, chosen", "within_10", 0.78),
    ("new silicon, NPU w8a8", "k=5, chosen", "within_10", 0.82),
    ("new target of a known device, NPU float", "k=5", "within_10", 0.78),
    ("new target of a known device, NPU w8a8", "k=5", "within_10", 0.82),
    ("new silicon, NPU float", "k=5, chosen", "median_error", 0.065),
    ("new silicon, NPU w8a8", "k=5, chosen", "median_error", 0.065),
    ("new silicon, NPU float", "k=10, chosen of all", "within_10", 0.85),
    ("new silicon, NPU w8a8", "k=10, chosen of all", "within_10", 0.85),
    ("new silicon, NPU float", "k=10, chosen", "within_10", 0.85),
    ("new silicon, NPU w8a8", "k=10, chosen", "within_10", 0.85),
    ("new target of a known device, NPU float", "k=10", "within_10", 0.85),
    ("new target of a known device, NPU w8a8", "k=10", "within_10", 0.85),
    ("new silicon, NPU float", "k=5", "within_10", 0.78),
    ("new silicon, NPU w8a8", "k=5", "within_10", 0.72),
    ("new silicon, NPU float", "k=10", "within_10", 0.87),
    ("new silicon, NPU w8a8", "k=10", "within_10", 0.80),
    ("new silicon, ONNX Runtime float", "k=5", "within_10", 0.70),
    ("new silicon, ONNX Runtime w8a8", "k=5", "within_10", 0.73),
    ("new silicon, CPU (LiteRT float)", "k=5", "within_10", 0.65),
    ("new silicon, CPU (LiteRT w8a8)", "k=5", "within_10", 0.65),
    ("new silicon, CPU (LiteRT float)", "k=5, chosen of all", "within_10", 0.75),
    ("new silicon, CPU (LiteRT w8a8)", "k=5, chosen of all", "within_10", 0.75),
    ("new silicon, CPU (LiteRT float)", "k=10", "within_10", 0.82),
    ("new silicon, CPU (LiteRT w8a8)", "k=10", "within_10", 0.82),
    ("no anchors, CPUs (ncnn float32)", "k=0", "median_error", 0.25),
    ("no anchors, CPUs (ncnn float32)", "k=0", "spearman", 0.95),
    ("no anchors, CPUs (LiteRT float)", "k=0", "median_error", 0.20),
    ("no anchors, CPUs (LiteRT w8a8)", "k=0", "median_error", 0.20),
    ("no anchors, NPUs (float)", "k=0", "median_error", 0.25),
    ("no anchors, NPUs (float)", "k=0", "spearman", 0.95),
    ("no anchors, NPUs (w8a8)", "k=0", "median_error", 0.25),
    ("no anchors, NPUs (w8a8)", "k=0", "spearman", 0.95),
    ("family, all targets", "unseen there", "median_error", 0.12),
    ("family, all targets", "unseen there", "spearman", 0.95),
    ("family, all targets", "unseen anywhere", "median_error", 0.12),
)
BASELINES = (NEAREST, "MACs alone", FEATURES)
NAMES = {"within_10": "within +-10 %", "median_error": "median error", "spearman": "Spearman"}
SOURCE, SILICON = "source hidden", "source and silicon hidden"
STEPS = ("0", "1-3", "4-7", "8-15", "16+")


def markdown(rows: Sequence[Row], kept: Mapping[str, Any]) -> str:
    """Return the page."""
    speed = kept["intervals"]["speed"]
    parts = [
        HEAD,
        *_earlier(kept),
        "## What was asked\n\n"
        + _table(("protocol", "condition", "figure", "baseline", "wanted", "reached"), _asked(rows)),
        _bound(rows, kept["npu"]["noise"]),
        _intervals(kept["intervals"]["coverage"]),
        _unseen(kept["intervals"]["unseen"]),
        _picked(kept["picks"]["picks"]),
        _judged(kept["judging"]),
        _cold(kept["cold"]["cold"]),
        _gpus(kept["gpu"]["gpu"]),
        f"CPU time: fit {speed['fit_s']:.2f} s; one model on one target {speed['one_ms']:.2f} ms; 10,000 models on 100 "
        f"targets {speed['many_s']:.1f} s.",
        "## All figures\n\n"
        + _table(("protocol", "condition", "method", *NAMES.values(), "predictions"), map(_cells, rows)),
    ]
    return "\n\n".join(parts) + "\n"


def _earlier(kept: Mapping[str, Any]) -> list[str]:
    """Return a warning that names the parts that were made before the measurements or the method last changed."""
    earlier = [part for part, data in kept["made_on"].items() if data != kept["data"]]
    if not earlier:
        return []
    command = f"make bench ARGS='latency_prediction --parts {','.join(earlier)}'"
    return [
        f"**Made before the measurements or the method last changed: {', '.join(earlier)}.** `{command}` renews them."
    ]


def _asked(rows: Sequence[Row]) -> list[Sequence[str]]:
    by_key = {(row["protocol"], row["condition"], row["method"]): row for row in rows}
    lines: list[Sequence[str]] = []
    for protocol, condition, figure, wanted in WANTED:
        ours = by_key[protocol, condition, OURS][figure]
        met = ours <= wanted if figure == "median_error" else ours >= wanted
        held = next((m for m in BASELINES if (protocol, condition, m) in by_key), "")
        base = _figure(figure, by_key[protocol, condition, held][figure]) if held else ""
        reached = _figure(figure, ours)
        lines.append(
            (protocol, condition, NAMES[figure], base, _figure(figure, wanted), f"**{reached}**" if met else reached)
        )
    return lines


def _bound(rows: Sequence[Row], noise: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    lines = [
        (
            form,
            each["runtimes"],
            str(each["pairs"]),
            f"{each['raw']:.1%}",
            f"{each['offset']:.1%}",
            f"{each['both']:.1%}",
        )
        for form, found in noise.items()
        for each in found
    ]
    others = ", ".join(f"{r['within_10']:.3f} ({r['protocol']})" for r in rows if r["condition"] == "all others")
    return f"""## What bounds it

No network was measured twice on one target (the 84 jobs that were published twice are the same jobs): noise shows
only between two of the vendor's runtimes on one device. Share of pairs that differ by more than 10 %: as they are;
after each device's own ratio between the runtimes is taken off, which is the most that one number can transfer; and
after each network's, which leaves what no method can know.

{_table(("form", "runtimes", "pairs", "as they are", "less the device's ratio", "less the network's"), lines)}

Each model of a new silicon from *all* its others: {others}."""


def _intervals(coverage: Sequence[Mapping[str, Any]]) -> str:
    lines = []
    for each in coverage:
        kind, _, rest = each["regime"].partition("/")
        reference, _, regime = rest.rpartition("/")
        step, _, known = regime.partition("-")
        figures = (f"{each['covered']:.1%}", f"{each['width']:.0%}", str(each["predictions"]))
        named = (kind, reference, STEPS[int(step)], known) if reference else (kind, "", "", rest)
        lines.append((*named, *figures))
    return f"""## 80 % intervals

Each half of the silicon judged by errors of the other half; each of the three microcontrollers by those of all other
silicon. Missing: what measured targets of the kind lack, the version of the runtime, the runtime, or the design of the
core; "same" lacks nothing but the silicon, "release" only the release on this silicon. Anchors: 0, 1-3, 4-7, 8-15, 16
or more models measured on the target; known: the very model was measured on targets that this one resembles, another
of its family, or neither. Regimes with fewer than 30 predictions are in the last row only.

{_table(("kind", "missing", "anchors", "known", "covered", "median width", "predictions"), lines)}"""


def _unseen(coverage: Sequence[Mapping[str, Any]]) -> str:
    lines = []
    for each in coverage:
        kind, missing, source, measured = each["regime"].split("/")
        figures = (f"{each['covered']:.1%}", f"{each['width']:.0%}", str(each["predictions"]))
        lines.append((kind, missing, source, measured, *figures))
    return f"""## 80 % intervals on sources and devices that took no part

As above, and no error of the source (the runtime) is in the calibration, either.

{_table(("kind", "missing", "source", "measured models", "covered", "median width", "predictions"), lines)}"""


def _picked(found: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        (
            each["group"], each["condition"], f"{each['picks']} of {each['budgets']}",
            f"{each['met']:.1%} ({each['met_low']:.0%}-{each['met_high']:.0%})", f"{each['stated']:.1%}",
            f"{each['lost']:.2f}", f"{each['distance']:.3f}",
        )
        for each in found
    ]  # fmt: skip
    names = ("targets", "measured", "budgets with a pick", "met", "stated", "points lost", "largest distance")
    return f"""## Picks that are 90 % sure

A silicon is hidden. The most accurate network (published top-1) that meets a budget with 90 % is picked; budgets over
the range of a target's latencies. Met: with its 80 % interval, silicons drawn again. Points lost: below the most
accurate one that meets it. Largest distance: of stated and true probabilities in tenths, over all networks. For the
budget: one after the other, as `devices calibrate --budget` chooses; there measured networks can be picked, too.

{_table(names, lines)}"""


def _judged(found: Mapping[str, Any]) -> str:
    lines = []
    for hidden in (SOURCE, SILICON):
        for group, each in found[hidden].items():
            figures = [f"{each[name]:.1%}" for name in ("median_error", "bias")]
            figures += [f"{each['spearman']:.3f}", f"{each['covered']:.1%}", f"{each['width']:.0%}"]
            lines.append((hidden, group, *figures, str(each["predictions"])))
    return f"""## Sources that only judge

XNNPACK's own figures (Raspberry Pi, Pixel) and TensorFlow Lite's performance page (Pixel, iPhone), LiteRT on CPUs,
nothing measured. They chose nothing but, as 24 of 330 targets, the deviations of a CPU's level. No row of their
repositories is in the fit or in the intervals; with the silicon hidden, no other runtime on the same chip is, either.

{_table(("hidden", "rows", "median error", "bias", "Spearman", "80 % covers", "median width", "predictions"), lines)}"""


def _cold(found: Sequence[Mapping[str, Any]]) -> str:
    lines = []
    for each in found:
        shares = [f"{each[name]:.1%}" for name in ("median_error", "within_10", "within_25", "covered")]
        compared = ["" if each[name] is None else f"{each[name]:.1%}" for name in ("nearest", "beside")]
        named = (each["group"], each["form"], str(each["measured"]))
        lines.append((*named, *shares, f"{each['width']:.1f}", *compared, str(each["predictions"])))
    header = (
        "rows", "form", "measured", "median error", "within 10 %", "within 25 %", "80 % covers", "its ends apart",
        "nearest machine", "ours there", "predictions",
    )  # fmt: skip
    return f"""## CPUs before anything was measured

Each machine is hidden with all its rows and those of all devices of its silicon; the rows of the others stay. Those
named `profiles` chose the constants of the method, the others chose nothing. Two phones are in no profile: a Pixel 4
and an OPPO Reno3 on one thread and on four (tensorflow/tensorflow, pull request 36749). NetsPresso does not state the
threads of its Raspberry Pi boards; four fit, because ResNet-50 is faster than the peak of one core. Nothing or a few
random networks are measured. Ends apart: upper through lower end, in the median. Nearest machine: of the same build and
form by peak, times the ratio of the peaks; it predicts only networks that were measured on it, and "ours there" is our
error on the same ones.

{_table(header, lines)}"""


def _gpus(found: Sequence[Mapping[str, Any]]) -> str:
    lines = []
    for each in found:
        shares = [f"{each[name]:.1%}" for name in ("median_error", "within_10", "within_25", "covered")]
        lines.append((each["group"], str(each["measured"]), *shares, f"{each['width']:.1f}", str(each["predictions"])))
    header = (
        "target", "measured", "median error", "within 10 %", "within 25 %", "80 % covers", "its ends apart",
        "predictions",
    )  # fmt: skip
    return f"""## GPUs of phones before anything was measured

LiteRT and TensorFlow Lite, float32 files. The delegate computes in 16-bit float if the app allows it; only the sources
of `fp16` and `fp32` say whether it did. Half of the predictions are of one phone. Each phone is hidden with all rows of
its silicon. The constants were chosen on other runtimes; LiteRT chose nothing.

{_table(header, lines)}"""


def _cells(row: Row) -> Sequence[str]:
    figures = (_figure(name, row[name]) for name in NAMES)
    return (row["protocol"], row["condition"], row["method"], *figures, str(row["predictions"]))


def _figure(name: str, value: float) -> str:
    return f"{value:.1%}" if name == "median_error" else f"{value:.3f}"


def _table(header: Sequence[str], rows: Any) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)

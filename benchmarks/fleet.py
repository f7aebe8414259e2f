"""Judge the files of a fleet and the selector of apps on devices held out, and write the table.

Run from the repository's root: ``python -m benchmarks fleet``. About five minutes on one idle core (set
``OMP_NUM_THREADS=1``: the matrices are small).

Every device whose measured networks have a published accuracy is held out once, with all devices of its silicon. A new
predictor is fitted without them. For each budget, three of the networks are chosen for the other devices, and the
selector that ships chooses one of the three on the device: by its name, by its cores alone, and after the true time of
the fastest one, which changes the choice by name, and after its runs. The true times are those of its rows.
"""

from __future__ import annotations

import csv
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from advisor.catalog import Catalogue
from advisor.core import CardFacts, Configuration, Evaluation, Limits, Provenance, Quantity, Status, Target, form_of
from advisor.devices import HOST, DeviceProfile, DeviceTarget, Profiles, find_shipped_fleets
from advisor.devices._latency.measured import combine_measurements
from advisor.devices._latency.table import runtime_family, silicon_of
from advisor.devices._prediction import fit_predictor
from advisor.devices._profiles import load_profiles
from advisor.engine import DevicePredictor, TargetDevice
from advisor.integrations.fleet import read_fleet
from advisor.integrations.fleet._answer import answer_for
from advisor.integrations.fleet._choice import choose_files
from advisor.integrations.fleet._phone_devices import compute_speed
from advisor.integrations.fleet._phones import Fleet, Phone
from advisor.integrations.fleet._predictions import Matrix, predict_matrix
from advisor.integrations.fleet._rules import RULES, KnownPhone, rules_document, set_measured
from advisor.integrations.fleet.selector import TierSelector

OUT = Path(__file__).resolve().parent / "results"
BUDGETS_MS = (5.0, 10.0, 20.0, 33.0, 50.0, 100.0, 200.0)
FEWEST = 6
"""Networks with a published accuracy that a device must have measured."""

CONFIDENCE = 0.9
POOLS = (("litert", "float32"), ("litert", "int8"), ("ncnn", "float32"))
STEPS = ("by name", "by cores", "after 300 ms", "after 20 runs")
FIELDS = ("pool", "device", "budget_ms", "step", "files", "right_tier", "chosen_tier", "chosen_ms", "within", "close")


@dataclass(frozen=True)
class Held:
    """A device of a pool with its target and the measured latency (ms) of each network."""

    profile: DeviceProfile
    target: DeviceTarget
    true_ms: Mapping[str, float]

    @property
    def device(self) -> TargetDevice:
        return TargetDevice(self.profile.name, self.profile, self.target)


def files() -> dict[tuple[str, str], Evaluation]:
    """Return the network of each card as float32 and int8, with its published accuracy."""
    found = {}
    for name, card in Catalogue.load().items():
        top1 = card.top1()
        if not top1 or not card.macs or not card.params:
            continue
        for form in ("float32", "int8"):
            accuracy = card.top1("int8") if form == "int8" else top1
            found[name, form] = Evaluation(
                Configuration(name, "none", form, Target(HOST, "none", "cpu", 1)),
                Status.OK,
                family=card.family,
                accuracy=Quantity(accuracy or top1 - form_of(form).drop, "%", Provenance.PUBLISHED),
                size=Quantity(card.params * form_of(form).bytes, "bytes", Provenance.ESTIMATED),
                artefact=f"{name}-{form}",
                artefact_sha256=f"{name}-{form}",
                card_facts=CardFacts(card.params, card.macs, input_size=card.input_size),
            )
    return found


def pool_of(profiles: Profiles, runtime: str, form: str, known: Mapping[tuple[str, str], Evaluation]) -> list[Held]:
    """Return the CPU target of each device with the most measured networks of a form, where it has enough."""
    table = fit_table(profiles)
    found = []
    for profile in profiles.values():
        best: Held | None = None
        for target in profile.targets:
            if target.accelerator != "cpu" or runtime_family(target.runtime) != runtime or not profile.cores:
                continue
            rows = defaultdict(list)
            for row in profile.measurements:
                if row.usable and (row.target, row.precision) == (target.name, form) and (row.model, form) in known:
                    rows[row.model].append(row)
            true = {name: combine_measurements(table, target, each).milliseconds for name, each in rows.items()}
            if len(true) >= FEWEST and (best is None or len(true) > len(best.true_ms)):
                best = Held(profile, target, true)
        if best is not None and profile.kind in ("phone", "board", "module"):
            found.append(best)
    return found


def fit_table(profiles: Profiles) -> Any:
    from advisor.devices import load_features
    from advisor.devices._latency.table import build_table

    return build_table(profiles.values(), load_features())


def cases(
    pool: Sequence[Held], profiles: Profiles, form: str, known: Mapping[tuple[str, str], Evaluation]
) -> Iterator[dict[str, Any]]:
    """Hold each device out, and yield what the selector chose there for each budget."""
    for held in pool:
        others = [each for each in pool if silicon_of(each.profile) != silicon_of(held.profile)]
        rest = Profiles(p for p in profiles.values() if silicon_of(p) != silicon_of(held.profile))
        predictor = DevicePredictor(fit_predictor(rest))
        bare = replace(held.profile, measurements=(), kernels=())
        unknown = TargetDevice(held.profile.name, bare, held.target)
        named = [known[name, form] for name in held.true_ms]
        rows = [predictor.evaluate(named, each.device, None) for each in others]
        phones = tuple(Phone(each.profile.name, 1.0, each.device, "profile") for each in others)
        for budget in BUDGETS_MS:
            limits = Limits(latency_ms=budget, confidence=CONFIDENCE)
            matrix = Matrix(phones, tuple(named), tuple(rows), limits)
            chosen = sorted(choose_files(matrix.values(), 3), key=lambda i: matrix.accuracies[i])
            tiers = [named[i] for i in chosen]
            if len(tiers) < 2:
                continue
            recognised = [_known(each.device) for each in others]
            document = _document(tiers, [*recognised, _known(unknown)], budget, predictor)
            true = [held.true_ms[each.configuration.card] for each in tiers]
            meets = [place for place, ms in enumerate(true) if ms <= budget]
            by_name = TierSelector(document, {"names": [unknown.label]})
            alone = {**document, "phones": [p for p in document["phones"] if unknown.label not in p["names"]]}
            by_cores = TierSelector({**alone, "core_macs": {"own": 1}}, {"cores": _cores(bare)})
            first = by_name.tier, by_cores.tier
            by_name.place(true[document["measured_tier"]])
            placed = by_name.tier
            for _ in range(int(RULES["window"]) * len(tiers)):  # a file that misses the budget is left after a window
                by_name.ran(true[by_name.tier or 0])
            for step, tier in zip(STEPS, (*first, placed, by_name.tier), strict=True):
                assert tier is not None
                within = true[tier] <= budget or (not meets and tier == 0)
                yield {
                    "device": held.profile.name, "budget_ms": budget, "step": step, "files": len(tiers),
                    "right_tier": meets[-1] if meets else 0, "chosen_tier": tier, "chosen_ms": round(true[tier], 3),
                    "within": int(within), "close": int(any(budget / 2 < ms < 2 * budget for ms in true)),
                }  # fmt: skip


def _known(device: TargetDevice) -> KnownPhone:
    return KnownPhone((device.label.replace("-", ""), device.label), "", _speed(device), device)


def _speed(device: TargetDevice) -> float:
    return compute_speed(device.profile)


def _cores(profile: DeviceProfile) -> list[dict[str, Any]]:
    """Return one core with the whole speed of the phone, as an app that knows its cores computes it."""
    return [{"part": "own", "mhz": 1000 * compute_speed(profile)}]


def _document(
    tiers: Sequence[Evaluation], phones: Sequence[KnownPhone], budget: float, predictor: DevicePredictor
) -> dict[str, Any]:
    rules = rules_document(tiers, phones, budget, CONFIDENCE, predictor)
    rows = [{"file": each.configuration.card, "memory_bytes": None} for each in tiers]
    return {**rules, "id": "benchmark", "requires": {}, "tiers": rows}


def certainty(
    pool: Sequence[Held], profiles: Profiles, form: str, known: Mapping[tuple[str, str], Evaluation]
) -> dict[int, float]:
    """Return how far above the median 90 % of the latencies reach, by the number of files that were measured."""
    predictor, found = DevicePredictor(fit_predictor(profiles)), defaultdict(list)
    for held in pool:
        device = TargetDevice(
            "new", replace(held.profile, name="new", soc="new", measurements=(), kernels=()), held.target
        )
        named = sorted((known[name, form] for name in held.true_ms), key=lambda e: held.true_ms[e.configuration.card])
        judged = named[-1]
        for count in range(4):
            (one,) = predictor.evaluate([judged], device, None)
            if one.latency_distribution and one.latency:
                found[count].append(np.log(one.latency_distribution.at(CONFIDENCE) / one.latency.value))
            file = named[count]
            device = set_measured(device, file, held.true_ms[file.configuration.card])
    return {count: float(np.exp(np.median(values))) for count, values in found.items()}


def shipped(known: Mapping[tuple[str, str], Evaluation]) -> list[tuple[float, Any]]:
    """Return the answer for the shipped fleet by budget, over all cards with their published accuracies."""
    fleet: Fleet = read_fleet(find_shipped_fleets()[0].read_text(encoding="utf-8"))
    found = []
    for budget in (10.0, 20.0, 33.0, 50.0):
        limits = Limits(latency_ms=budget, confidence=CONFIDENCE)
        found.append((budget, answer_for(fleet, predict_matrix(fleet, list(known.values()), limits))))
    return found


def optimum_s() -> float:
    """Return the seconds of the exact choice of three of 300 files for 200 devices, by speeds and times drawn."""
    draw = np.random.default_rng(0)
    accuracy, ms = np.sort(draw.uniform(60, 95, 300)), np.exp(np.linspace(0, 5, 300) + draw.normal(0, 0.4, 300))
    fast = np.exp(draw.normal(0, 1, 200))
    worst = 0.0
    for values in (np.where(ms / fast[:, None] < 20, accuracy, 0.0) / 200, draw.uniform(0, 1, (200, 300)) / 200):
        began = time.perf_counter()
        choose_files(values, 3)
        worst = max(worst, time.perf_counter() - began)
    return worst


def main() -> None:
    """Write ``results/fleet.csv`` and ``results/fleet.md``."""
    profiles, known = load_profiles(), files()
    rows, buys = list[dict[str, Any]](), dict[str, dict[int, float]]()
    for runtime, form in POOLS:
        pool, name = pool_of(profiles, runtime, form, known), f"{runtime} {form}"
        print(name, len(pool), flush=True)
        rows += [{"pool": name, **row} for row in cases(pool, profiles, form, known)]
        buys[name] = certainty(pool, profiles, form, known)
    with (OUT / "fleet.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    (OUT / "fleet.md").write_text(page(rows, buys, shipped(known), optimum_s()), encoding="utf-8")


def page(
    rows: Sequence[Mapping[str, Any]],
    buys: Mapping[str, Mapping[int, float]],
    fleets: Sequence[tuple[float, Any]],
    seconds: float,
) -> str:
    """Return the table as Markdown."""
    lines = [
        "# One app, many phones", "", (__doc__ or "").partition("\n\n")[2].strip().partition("\n\n")[2], "",
        "## Devices held out", "",
        "*Within*: the chosen file meets the budget in truth, so it is the right tier or a faster one; or no file "
        "meets it, and the floor was chosen. *Right*: the most accurate file that meets it. *Close*: cases in which "
        "the true time of a file is within a factor of 2 of the budget.", "",
        "| pool | step | devices | cases | within | right | close cases | within | right |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]  # fmt: skip
    for pool in (*dict.fromkeys(row["pool"] for row in rows), "all"):
        for step in STEPS:
            found = [row for row in rows if row["step"] == step and pool in (row["pool"], "all")]
            near = [row for row in found if row["close"]]
            shown = " | ".join(
                f"{len(some)} | {np.mean(list(map(_within, some))):.3f} | {np.mean(list(map(_right, some))):.3f}"
                for some in (found, near)
            )
            lines.append(f"| {pool} | {step} | {len({row['device'] for row in found})} | {shown} |")
    lines += [
        "", "## What measuring buys", "",
        "How many times the median 90 % of the latencies of the slowest network reach (median over devices), by the "
        "number of other networks that were timed for 300 ms each, the fastest first.", "",
        "| devices | 0 ms | 300 ms | 600 ms | 900 ms |", "| --- | ---: | ---: | ---: | ---: |",
        *(f"| {pool} | {' | '.join(f'{each[at]:.2f}' for at in sorted(each))} |" for pool, each in buys.items()),
        "", "## The shipped fleet, cards with published accuracies", "",
        "*Kept*: accuracy of phones that surely meet the budget, over that of a file for each phone. *Of the gain*: "
        "what more files than one add, over what a file for each phone adds.", "",
        "| budget | files | mean accuracy, % | surely within | size of all, MB | kept | of the gain |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]  # fmt: skip
    for budget, answer in fleets:
        one = answer.kept[0]
        for option, kept in zip(answer.options, answer.kept, strict=True):
            gain = (kept - one) / (1 - one) if one < 1 else 1.0
            lines.append(
                f"| {budget:g} ms | {len(option.files)} | {option.accuracy:.1f} | {option.sure_share:.3f} "
                f"| {option.bytes / 1e6:.1f} | {kept:.3f} | {gain:.2f} |"
            )
    lines += ["", f"The exact choice of 3 of 300 files for 200 devices took {seconds:.2f} s at most.", ""]
    return "\n".join(lines)


def _within(row: Mapping[str, Any]) -> bool:
    return bool(row["within"])


def _right(row: Mapping[str, Any]) -> bool:
    return bool(row["right_tier"] == row["chosen_tier"])


if __name__ == "__main__":
    main()

"""How cost grows with the runs of a folder, the profiles of devices, the cards of the catalogue, and classes.

``python -m benchmarks growth_counts [--of runs,profiles,cards,classes] [--counts 10,100]``. Every case runs in its
own process. With ``--of none``, what the table has is drawn again. The runs are those of ``answers``; profiles and
cards are copies of shipped ones under other names; features of classes are drawn from normal distributions. What the
table has of other cases stays.
"""

import argparse
import csv
import shutil
import tempfile
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks.answers import CARDS_A_RUN, DEVICE, evaluations_of, write_run
from benchmarks.growth import Measured, alone, draw, exponent
from benchmarks.tables import RESULTS, Row, keep

HEADER = ("case", "of", "count", "seconds", "CPU seconds", "peak MB", "exponent of CPU", "of peak")
IMAGES, FEATURES = 4000, 128
REMARKS = (
    "exponent: the slope of the logarithm of CPU seconds, or of peak memory, against that of the count; CPU seconds "
    "below 0.3 tell none",
    "taken beside other programs: CPU seconds count; imports of up to a second are in them, which flatten small counts",
    f"runs: {CARDS_A_RUN * 5} configurations each, without images; first list: no index of the folder is there",
    "reevaluate --all: CPU seconds of its own process; children write the reports on the other cores meanwhile",
    f"profiles: copies of {DEVICE}, a tenth of its measurements each; matched: by a name that is none of them",
    "cards: those of a team beside the shipped ones, read for the first time; plan: without images",
    f"classes: {IMAGES:,} images with {FEATURES} features; report: recalls and wrong answers from a confusion matrix",
)
_HEADER = """\
family: team
paper: https://example.org
licence: MIT
defaults:
  architecture: mobilenet_v2
  preprocessing: {mean: [127.5, 127.5, 127.5], std: [127.5, 127.5, 127.5]}
cards:
"""
_CARD = """\
  - name: team_net_{number:05d}
    input_size: 224
    arguments: {{width: 1.0}}
    params: {params}
    macs: {macs}
    published:
      - precision: float32
        top1: {top1}
        top5: 92.5
        source: our own measurements
    weights:
      - kind: url
        format: keras_h5
        port: keras
        url: https://example.org/nets/{number}.h5
        file:
          path: {number}.h5
          sha256: "{number:064x}"
          size_bytes: {size}
"""
Case = Callable[[Path, int, int], int]


def make_runs(folder: Path, count: int, _: int) -> int:
    """Write runs."""
    from advisor.catalog import Catalogue

    cards = [card for card in Catalogue.load().values() if card.top1() and card.macs]
    for place in range(count):
        chosen = np.random.default_rng(place).choice(len(cards), CARDS_A_RUN, replace=False)
        write_run(folder / "runs", f"run {place}", [row for i in chosen for row in evaluations_of(cards[i], 1)])
    return 0


def list_runs(folder: Path, _count: int, _: int) -> int:
    """List the runs of a folder."""
    from advisor.api import list_runs

    list_runs(folder / "runs")
    return 0


def first_page(folder: Path, _count: int, _: int) -> int:
    """Make the first page of ``advisor serve``."""
    from starlette.requests import Request

    from advisor.integrations.serve._access import Access
    from advisor.integrations.serve._pages import Pages
    from advisor.reporting import Runs

    asked = {"type": "http", "query_string": b"", "headers": []}
    return len(bytes(Pages(Runs(folder / "runs"), Access(1)).list_runs(Request(asked)).body))


def reevaluate_all(folder: Path, _count: int, _: int) -> int:
    """Answer every run for a device."""
    from advisor.api import reevaluate

    reevaluate(runs=folder / "runs", device=[DEVICE])
    return 0


def make_profiles(folder: Path, count: int, _: int) -> int:
    """Write profiles of devices."""
    from advisor.devices import find_shipped_profiles

    text = (find_shipped_profiles() / f"{DEVICE}.yaml").read_text(encoding="utf-8")
    head, *rows = (find_shipped_profiles() / f"{DEVICE}.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "devices").mkdir()
    for place in range(count):
        name = f"board-{place}"
        (folder / "devices" / f"{name}.yaml").write_text(text.replace(f"name: {DEVICE}", f"name: {name}", 1))
        (folder / "devices" / f"{name}.csv").write_text(head + "".join(rows[place % 10 :: 10]))
    return 0


def list_profiles(folder: Path, _count: int, _: int) -> int:
    """Read all profiles."""
    from advisor.devices import load_known_devices
    from advisor.devices._profiles.listing import list_row

    return len([list_row(each) for each in load_known_devices([folder / "devices"]).values()])


def match_name(folder: Path, _count: int, _: int) -> int:
    """Look for a name that is none of them, whose error names the nearest."""
    from advisor.core import UsageError
    from advisor.devices import load_known_devices

    try:
        load_known_devices([folder / "devices"]).profile("bored-7")
    except UsageError:
        return 0
    raise AssertionError("the name is known")


def predict_for_all(folder: Path, _count: int, _: int) -> int:
    """Predict one file for all devices."""
    from advisor.catalog import Catalogue
    from advisor.devices import load_known_devices
    from advisor.devices._prediction import fit_predictor
    from advisor.devices._profiles.loading import load_profiles
    from advisor.engine import DevicePredictor, TargetDevice

    profiles, predictor = load_known_devices([folder / "devices"]), DevicePredictor(fit_predictor(load_profiles()))
    card = Catalogue.load()["mobilenet_v2_1.0_224"]
    for name in (name for name in profiles if name.startswith("board-")):
        found = predictor.predict_card(card, "int8", TargetDevice(name, *profiles.select(name)))
        assert not isinstance(found, str), found
    return 0


def catalogue_text(cards: int) -> str:
    """Return a catalogue file of so many cards, as full as the shipped ones."""
    entries = (
        _CARD.format(number=n, params=3_000_000 + n, macs=300_000_000 + n, top1=60 + n % 200 / 10, size=4 * n + 1)
        for n in range(cards)
    )
    return _HEADER + "".join(entries)


def make_cards(folder: Path, count: int, _: int) -> int:
    """Write a catalogue file."""
    (folder / "team.yaml").write_text(catalogue_text(count), encoding="utf-8")
    return 0


def list_cards(folder: Path, _count: int, _: int) -> int:
    """Read the catalogue."""
    from advisor.catalog import Catalogue

    return len(Catalogue.load([folder / "team.yaml"]))


def plan_search(folder: Path, _count: int, _: int) -> int:
    """Plan a search."""
    from advisor.api import plan

    plan(budget="50ms", catalog=[folder / "team.yaml"])
    return 0


def fit_head(_folder: Path, count: int, _: int) -> int:
    """Choose and fit a head."""
    from advisor.training import train_head

    draw = np.random.default_rng(0)
    labels = np.arange(IMAGES) % count
    features = draw.normal(size=(count, FEATURES))[labels] + draw.normal(size=(IMAGES, FEATURES))
    train_head(features.astype(np.float32), labels.tolist(), count, 0, last=FEATURES)
    return 0


def report_classes(_folder: Path, count: int, _: int) -> int:
    """Make what a report shows of classes."""
    from advisor.core import ImageAnswers
    from advisor.reporting._class_counts import find_weakest
    from advisor.reporting._classes import compute_recalls, list_confused_pairs

    draw, true = np.random.default_rng(0), np.arange(IMAGES) % count
    table = np.zeros((count, count), dtype=int)
    np.add.at(table, (true, np.where(draw.random(IMAGES) < 0.8, true, draw.integers(0, count, IMAGES))), 1)
    answers = ImageAnswers(confusion=tuple(map(tuple, table.tolist())))
    labels = [f"class {place}" for place in range(count)]
    find_weakest(compute_recalls(answers, labels))
    list_confused_pairs(answers, labels)
    return 0


CASES: Mapping[str, Mapping[str, Case]] = {
    "runs": {
        "making (no case)": make_runs, "first list": list_runs, "list again": list_runs, "page of serve": first_page,
        "reevaluate --all": reevaluate_all,
    },
    "profiles": {
        "making (no case)": make_profiles, "list": list_profiles, "match a name": match_name,
        "predict a file for all": predict_for_all,
    },
    "cards": {"making (no case)": make_cards, "list": list_cards, "plan": plan_search},
    "classes": {"fit a head": fit_head, "report": report_classes},
}  # fmt: skip
COUNTS = {"runs": (10, 100, 1000), "profiles": (100, 1000), "cards": (76, 1000), "classes": (10, 100, 1000)}


def main() -> None:
    """Measure the cases and keep the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--of", default=",".join(CASES))
    parser.add_argument("--counts", default="", help="default: those of each")
    chosen, found = parser.parse_args(), known()
    for of in (of for of in chosen.of.split(",") if of != "none"):
        for count in map(int, chosen.counts.split(",")) if chosen.counts else COUNTS[of]:
            folder = Path(tempfile.mkdtemp())
            for name, case in CASES[of].items():
                found[of, name, count] = alone(case, folder, count, 0)
                print(of, name, count, *found[of, name, count], flush=True)
                keep("growth_counts", "How cost grows with counts", HEADER, rows(found), REMARKS)
            shutil.rmtree(folder)
    draw("growth_counts", "count", ((f"{of}: {name}", count, own) for (of, name, count), own in found.items()))


def known() -> dict[tuple[str, str, int], Measured]:
    """Return what the table has."""
    table = RESULTS / "growth_counts.csv"
    if not table.is_file():
        return {}
    with table.open(newline="", encoding="utf-8") as file:
        lines = list(csv.reader(file))[1:]
    return {(of, name, int(n)): (float(s), float(cpu), float(peak), 0.0) for name, of, n, s, cpu, peak, *_ in lines}


def rows(found: dict[tuple[str, str, int], Measured]) -> list[Row]:
    """Return the rows of the table, each with its exponents against the row before it."""
    table: list[Row] = []
    keys = [key for of, cases in CASES.items() for name in cases for key in sorted(found) if key[:2] == (of, name)]
    for last, key in pairwise([("", "", 0), *keys]):
        (seconds, cpu_s, peak, _), slopes = found[key], ("", "")
        if last[:2] == key[:2]:
            before = found[last]
            slopes = exponent(last[2], before[1], key[2], cpu_s), exponent(last[2], before[2], key[2], peak)
        table.append((key[1], key[0], key[2], f"{seconds:.1f}", f"{cpu_s:.2f}", f"{peak:.0f}", *slopes))
    return table


if __name__ == "__main__":
    main()

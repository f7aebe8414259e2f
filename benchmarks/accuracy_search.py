"""``advisor search`` as a user runs it, and its pick scored without advisor: what it claims, and what is true.

    python -m benchmarks accuracy --part search
    python -m benchmarks accuracy --part search --sets grocery,trashnet --seeds 0,1

The sets are ``grocery`` (its own split: the hold-out is the official test, another visit to the shops),
``grocery_train`` (its training folder alone; the official test is scored too) and ``trashnet`` (a split for each
seed). Each search begins with an empty cache of results. ``--classes`` and ``--search`` try the benchmark
quickly: its table is printed then, and not kept.
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from advisor.engine import StageName
from advisor.store import cache_root
from benchmarks import score_file
from benchmarks.accuracy import part_parser
from benchmarks.speed import WHOLE, Speed, limited
from benchmarks.tables import Row, keep, kept_of_others, markdown

TRASHNET = Path(__file__).resolve().parents[2] / "shared" / "data" / "images" / "trashnet"
GROCERY = TRASHNET.parent / "grocery"
SETS = ("grocery", "grocery_train", "trashnet")
SEEDS = "0,1,2,3,4"
NAME = "accuracy_search"
HEADER = (
    "set", "pick", "training", "recipe", "validation %", "hold-out claimed %", "hold-out scored %",
    "official test scored %", "in new conditions %", "CPU min", "of these until features", "wall min",
)  # fmt: skip
REMARKS = (
    "Hold-out claimed: the answer's figure. Scored: the shipped file on the same images, with LiteRT and Pillow alone.",
    "The official test of grocery is another visit to the shops; the set `grocery` has it as its hold-out.",
    "CPU minutes: user and system time of the search and its child processes. Until features: the "
    "share of the stages before the head, by the clock.",
)
BEFORE_HEAD = ("convert", "cut", "screen", "features")


@dataclass(frozen=True)
class Case:
    """One search: a name for its row, its images, further options, the folder of an official test or None, and the
    machine that it is run as.
    """

    name: str
    data: Path
    options: tuple[str, ...] = ()
    test: Path | None = None
    speed: Speed = WHOLE


@dataclass(frozen=True)
class Searched:
    """A finished search: its run folder, CPU seconds with those of its children, and wall seconds."""

    run: Path
    cpu_s: float
    wall_s: float


def main(options: Sequence[str] = ()) -> None:
    """Search each set, score the picks, and keep the table."""
    parser = part_parser("search", __doc__)
    parser.add_argument("--sets", default=",".join(SETS), help=f"of {', '.join(SETS)}, joined by commas")
    parser.add_argument("--seeds", default=SEEDS, help="seeds of TrashNet's split")
    parser.add_argument("--classes", type=int, help="use only the first classes of each set")
    parser.add_argument("--search", default="", help="further options of advisor search, in quotes")
    chosen = parser.parse_args(list(options))
    trial = chosen.classes is not None or bool(chosen.search)
    with ExitStack() as stack:
        cases = list(cases_of(chosen.sets.split(","), [int(seed) for seed in chosen.seeds.split(",")]))
        if chosen.classes:
            subsets = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            cases = [with_classes(case, chosen.classes, subsets) for case in cases]
        rows: list[Row] = []
        for case in cases:
            rows.append(row_of(replace(case, options=(*case.options, *shlex.split(chosen.search)))))
            print(*rows[-1], sep=" | ", flush=True)
            if not trial:
                others, _ = kept_of_others(NAME, [str(row[0]) for row in rows])
                keep(NAME, "Searches as a user runs them", HEADER, sorted([*others, *rows], key=str), REMARKS)
    if trial:
        print(markdown(HEADER, rows))


def cases_of(sets: Sequence[str], seeds: Sequence[int]) -> Iterator[Case]:
    """Return the searches of some of :data:`SETS`."""
    for name in sets:
        if name == "grocery":
            yield Case(name, GROCERY)
        elif name == "grocery_train":
            yield Case(name, GROCERY / "train", test=GROCERY / "test")
        elif name == "trashnet":
            yield from (Case(f"{name}, seed {seed}", TRASHNET, ("--seed", str(seed))) for seed in seeds)
        else:
            raise SystemExit(f"--sets: '{name}' is not one of {', '.join(SETS)}")


def with_classes(case: Case, count: int, folder: Path) -> Case:
    """Return the case with links to the first classes that every part of its images has."""
    parts = [case.data / name for name in ("train", "val", "test") if (case.data / name).is_dir()] or [case.data]
    every = set.intersection(*({each.name for each in part.iterdir() if each.is_dir()} for part in parts))
    names = sorted(every)[:count]
    root = folder / case.name.replace(", ", "-")
    for part in parts:
        link_classes(part, root / part.relative_to(case.data), names)
    test = case.test and link_classes(case.test, folder / f"{root.name}-test", names)
    return replace(case, data=root, test=test)


def link_classes(source: Path, folder: Path, names: Sequence[str]) -> Path:
    """Make a folder of links to the folders of some classes, and return it."""
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).symlink_to(source / name)
    return folder


def row_of(case: Case) -> Row:
    """Search, score the pick, and return the row of the table."""
    with tempfile.TemporaryDirectory() as place:
        found = search(case, Path(place))
        answer = json.loads((found.run / "recommendation.json").read_text(encoding="utf-8"))
        pick, run = answer["pick"], found.run
        if pick is None:
            return (case.name, "none", *[""] * (len(HEADER) - 2))
        images = Path(json.loads((run / "dataset.json").read_text(encoding="utf-8"))["folder"])
        holdout = json.loads((run / "split.json").read_text(encoding="utf-8"))["holdout"]
        model = run / pick["artefact"]
        configuration, durations = pick["configuration"], json.loads((run / "manifest.json").read_text())["durations"]
        return (
            case.name,
            configuration["card"],
            configuration["training"],
            configuration["compression"],
            shown(pick["accuracy"]),
            shown(pick["holdout_accuracy"]),
            scored(model, [(images / row["path"], row["class"]) for row in holdout]),
            scored(model, labelled(case.test)) if case.test else "",
            shown(pick.get("new_conditions")),
            f"{found.cpu_s / 60:.1f}",
            f"{found.cpu_s / 60 * before_head(durations):.1f}",
            f"{found.wall_s / 60:.1f}",
        )


def before_head(durations: Mapping[str, float]) -> float:
    """Return the share of the stages before the head in the seconds of all stages.

    Stages are timed by the clock. On a busy machine it runs faster than CPU time, for all stages alike.
    """
    stages = {name: durations.get(name, 0.0) for name in StageName}
    return sum(stages[StageName(name)] for name in BEFORE_HEAD) / max(sum(stages.values()), 1e-9)


def search(case: Case, place: Path) -> Searched:
    """Run ``advisor search`` with an empty cache of results, or with that of the last search at the same ``place``."""
    cache = place / "cache" if (place / "cache").exists() else fresh_cache(place / "cache")
    command = [sys.executable, "-m", "advisor", "search", "--data", str(case.data), "--out", str(place / "runs")]
    environment = {**os.environ, "ADVISOR_CACHE_DIR": str(cache)}
    # A user's Python keeps the modules that it has compiled: without them, the processes of a search take 3 s more.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    began = time.monotonic()
    with (place / "said.txt").open("w") as said, limited(case.speed):
        child = subprocess.Popen([*command, *case.options], env=environment, stdout=said, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    wall_s = time.monotonic() - began
    if child.returncode not in (0, 3):
        raise SystemExit(f"{case.name}: exit code {child.returncode}: {(place / 'said.txt').read_text()[-2000:]}")
    return Searched((place / "runs" / "latest").resolve(), usage.ru_utime + usage.ru_stime, wall_s)


def labelled(folder: Path) -> list[tuple[Path, str]]:
    """Return the images of a folder of classes with their classes."""
    classes = sorted(each for each in folder.iterdir() if each.is_dir())
    return [(path, each.name) for each in classes for path in sorted(each.iterdir())]


def scored(model: Path, images: Sequence[tuple[Path, str]], description: score_file.Description | None = None) -> str:
    """Return the top-1 of a file in % on labelled images, with LiteRT and Pillow alone.

    ``description`` is that of a file without metadata.
    """
    found = score_file.answers(model, [path for path, _ in images], description)
    right = sum(answer == label for answer, (_, label) in zip(found, images, strict=True))
    return f"{100 * right / len(images):.1f}"


def shown(quantity: dict[str, Any] | None) -> str:
    """Return a share in % with its interval."""
    if quantity is None:
        return ""
    low, high = quantity.get("low"), quantity.get("high")
    return f"{quantity['value']:.1f}" + (f" ({low:.1f}-{high:.1f})" if low is not None and high is not None else "")


def fresh_cache(root: Path) -> Path:
    """Make a cache folder without results, with the user's weights."""
    root.mkdir()
    weights = cache_root() / "weights"
    weights.mkdir(parents=True, exist_ok=True)
    (root / "weights").symlink_to(weights)
    return root

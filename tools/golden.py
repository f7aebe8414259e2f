"""Freeze what a change of form may not change: ``python -m tools.golden FILE``.

The results are help texts, schemas, plans on six devices, and a seeded search with an empty cache:
its cache keys, its evaluations without times, its pick and the files of its bundle. They belong to
one machine. The command writes FILE before the change, and compares with it afterwards. The
weights of :data:`CARD` must be in the cache: ``advisor catalog fetch CARD``.
"""

import argparse
import difflib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import typer.main
from PIL import Image
from skimage import data

from tools.schemas import schemas

CARD = "mobilenet_v1_0.25_224"
DEVICES = ("pixel-8", "galaxy-s24", "iphone-xs", "raspberry-pi-4", "coral-usb", "esp32-s3")
PHOTOGRAPHS = {"astronaut": data.astronaut, "chelsea": data.chelsea, "rocket": data.rocket}
CROPS = 12
"""Images of each class of the search."""

IF_TIME = ("labels",)
"""Stages that a search runs only if they cost a small share of the seconds that it took."""

MEASURED = {"latency", "memory", "load", "host", "p90", "seconds", "when"}
"""Words of the entries that differ between two runs on one machine."""


def main() -> int:
    """Write the results to a new file, or return 1 if they differ from those in the file."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.golden", description=__doc__.partition("\n")[0]
    )
    parser.add_argument(
        "file", type=Path, help="JSON file of results: written if it does not exist, else compared"
    )
    path = parser.parse_args().file
    results = json.dumps(frozen_results(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    if not path.exists():
        path.write_text(results, encoding="utf-8")
        return 0
    before = path.read_text(encoding="utf-8")
    lines = list(
        difflib.unified_diff(
            before.splitlines(), results.splitlines(), str(path), "now", n=1, lineterm=""
        )
    )
    print("\n".join(lines[:200]) or "golden: no difference")
    return int(bool(lines))


def frozen_results() -> dict[str, Any]:
    """Return every result by its name; a long text as its hash."""
    texts = {f"help {name}": hash_text(text) for name, text in help_texts()}
    texts |= {f"schema {name}": hash_text(text) for name, text in schemas().items()}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        environment = prepare_cache(root / "cache")
        for device in DEVICES:
            texts[f"plan {device}"] = hash_text(plan_on(device, environment, root))
        return texts | run_search(root, environment)


def hash_text(text: str) -> str:
    """Return the beginning of a text's SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def help_texts() -> Iterator[tuple[str, str]]:
    """Yield the help of every command, by the command's words."""
    from advisor.cli._main import app

    command = typer.main.get_command(app)
    yield from _help_of(command, click.Context(command, info_name="advisor"))


def _help_of(command: Any, context: click.Context) -> Iterator[tuple[str, str]]:
    yield context.command_path, command.get_help(context)
    for name, child in getattr(command, "commands", {}).items():
        yield from _help_of(child, click.Context(child, info_name=name, parent=context))


def prepare_cache(cache: Path) -> Mapping[str, str]:
    """Return an environment with an empty cache, which has only the weights of the user's own
    one.
    """
    weights = (
        Path(os.environ.get("ADVISOR_CACHE_DIR") or Path.home() / ".cache" / "advisor") / "weights"
    )
    shutil.copytree(weights, cache / "weights")
    return {**os.environ, "ADVISOR_CACHE_DIR": str(cache), "NO_COLOR": "1"}


def plan_on(device: str, environment: Mapping[str, str], folder: Path) -> str:
    """Return the plan on a device without what depends on this machine's speed."""
    asked = (
        "plan",
        "--budget",
        "50ms",
        "--device",
        device,
        "--offline",
        "--json",
        "--out",
        str(folder / "runs"),
    )
    plan = json.loads(run_advisor(asked, environment))
    plan["request"].pop("out")
    return json.dumps(plan, sort_keys=True)


def run_advisor(arguments: tuple[str, ...], environment: Mapping[str, str]) -> str:
    """Return what a command prints."""
    command = [sys.executable, "-m", "advisor", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, env=dict(environment), check=False
    )
    if done.returncode not in (0, 3):
        raise SystemExit(f"advisor {' '.join(arguments)}: {done.stderr}")
    return done.stdout


def run_search(root: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the keys, evaluations, pick and bundle of a seeded search."""
    photos = write_photos(root / "photos")
    run = root / "run"
    options = (
        "--candidates",
        CARD,
        "--training",
        "head",
        "--compressions",
        "float32,int8",
        "--budget",
        "2000ms",
    )
    place = (
        "--data",
        str(photos),
        "--out",
        str(run),
        "--threads",
        "1",
        "--workers",
        "1",
        "--seed",
        "7",
        "--offline",
    )
    run_advisor(("search", *options, *place), environment)
    folder = next(
        path for path in sorted(run.iterdir()) if path.is_dir() and not path.is_symlink()
    )
    bundle = root / "bundle"
    run_advisor(("export", str(folder), "--to", str(bundle)), environment)
    results = [path for path in (root / "cache" / "artifacts").glob("*/*") if path.is_dir()]
    keys = sorted(path.parent.name for path in results if not path.parent.name.startswith(IF_TIME))
    rows = [
        json.loads(line)
        for line in (folder / "evaluations.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    answer = json.loads((folder / "recommendation.json").read_text(encoding="utf-8"))
    files = sorted(
        (path.relative_to(bundle).as_posix(), path) for path in bundle.rglob("*") if path.is_file()
    )
    return {
        "stages": keys,
        "cache keys": sorted(stable_keys(root / "cache")),
        "evaluations": [without_measured(row) for row in sorted(rows, key=lambda row: row["key"])],
        "pick": (answer.get("pick") or {}).get("configuration"),
        "bundle": {
            name: hash_text(stable_text(path))
            for name, path in files
            if not name.startswith("SHA256")
        },
    }


def write_photos(folder: Path) -> Path:
    """Write crops of three photographs, a class each."""
    for name, load in PHOTOGRAPHS.items():
        photograph = Image.fromarray(load())
        (folder / name).mkdir(parents=True)
        for index in range(CROPS):
            left, top = 17 * index % 90, 29 * index % 110
            crop = photograph.crop((left, top, left + 240 + index, top + 240 + index))
            crop.resize((128, 128)).save(folder / name / f"{index:02}.png")
    return folder


def stable_keys(cache: Path) -> Iterator[str]:
    """Yield stage and key of each cached result that every search makes, on any day."""
    for stage in sorted((cache / "artifacts").iterdir()):
        if stage.name.startswith(IF_TIME):
            continue
        yield from (f"{stage.name}/{path.name}" for path in stage.iterdir() if path.is_dir())


def without_measured(value: Any) -> Any:
    """Return a JSON value without the entries that a measurement of this machine gave."""
    if isinstance(value, dict):
        return {
            key: without_measured(entry) for key, entry in value.items() if not is_measured(key)
        }
    if isinstance(value, list):
        return [without_measured(entry) for entry in value]
    return value


def is_measured(key: str) -> bool:
    """Return whether an entry of this name differs between two runs."""
    return key in ("hash", "before", "timings", "conditions", "details") or any(
        word in key for word in MEASURED
    )


def stable_text(path: Path) -> str:
    """Return a file of the bundle as text; of its texts the numbers are left out."""
    content = path.read_bytes()
    if path.suffix in (".md", ".json", ".kt", ".swift", ".py"):
        return "".join(letter for letter in content.decode() if not letter.isdigit())
    return content.hex()


if __name__ == "__main__":
    raise SystemExit(main())

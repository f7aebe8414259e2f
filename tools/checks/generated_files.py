"""Check that the generated files of the repository are what their generators make today.

These are the results and the page of latency prediction, its calibration, and the device profiles.
A problem names the command that renews the file. The JSON Schemas are not in git: the check writes
them, so that those of the checkout fit the code.
"""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from advisor.devices import load_features
from advisor.devices._latency.table import build_table
from advisor.devices._profiles import load_profiles
from tools.schemas import write_schemas

PROJECT = Path(__file__).resolve().parents[2]
RESULTS = PROJECT / "benchmarks" / "results"
PROFILES = PROJECT / "device_profiles"
SOURCES = PROJECT.parent / "shared" / "data" / "measurements"
"""The published tables that the profiles are made from; not part of the repository."""


def problems() -> Iterator[str]:
    """Yield one line for each file that its generator would write otherwise,
    with the command that renews it.
    """
    results = json.loads((RESULTS / "latency_prediction.json").read_text(encoding="utf-8"))
    yield from _other_measurements(results)
    if _prediction_page(results) != (RESULTS / "latency_prediction.md").read_text(
        encoding="utf-8"
    ):
        yield _stale(RESULTS / "latency_prediction.md", "make bench ARGS=latency_prediction")
    yield from _other_profiles()
    yield from _unmade_schemas()


def _other_measurements(results: Any) -> Iterator[str]:
    measurements = build_table(load_profiles().values(), load_features()).fingerprint()
    if results["data"] != measurements:
        yield _stale(RESULTS / "latency_prediction.json", "make bench ARGS=latency_prediction")
    calibration = PROFILES / "prediction_calibration.json"
    if json.loads(calibration.read_text(encoding="utf-8"))["data_hash"] != measurements:
        yield _stale(calibration, "make bench ARGS=latency_prediction")


def _prediction_page(results: Any) -> str:
    from benchmarks.latency_prediction import PARTS
    from benchmarks.latency_protocols.page import markdown

    return markdown([row for part in PARTS for row in results[part].get("rows", ())], results)


def _other_profiles() -> Iterator[str]:
    if not SOURCES.is_dir():
        print(
            f"checks: {SOURCES} is missing, the device profiles are not compared with their"
            " sources"
        )
        return
    from benchmarks.device_sources.assemble import write_profiles

    with tempfile.TemporaryDirectory() as folder:
        write_profiles(SOURCES, PROJECT / "benchmarks" / "device_specs.yaml", Path(folder))
        for made in sorted(Path(folder).iterdir()):
            shipped = PROFILES / made.name
            if not shipped.is_file() or shipped.read_bytes() != made.read_bytes():
                yield _stale(shipped, "python -m benchmarks.make_device_profiles")


def _unmade_schemas() -> Iterator[str]:
    # The schemas are not in git. Writing them keeps those of the checkout as new as the code.
    try:
        write_schemas()
    except ValueError as error:
        yield f"python -m tools.schemas: {error}"


def _stale(path: Path, command: str) -> str:
    return f"{path.relative_to(PROJECT)}: differs from what its generator writes; run {command}"

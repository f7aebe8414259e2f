"""Make ``device_profiles/`` from tables of published measurements, and learn how far predictions from them err.

Run from the repository's root: ``python -m benchmarks.make_device_profiles ../shared/data/measurements``.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from advisor.devices import DeviceProfile, load_features
from advisor.devices._latency.calibration import CALIBRATION_FILE, Calibration
from advisor.devices._latency.table import build_table
from advisor.devices._profiles import read_profile
from benchmarks.device_sources.assemble import write_profiles
from benchmarks.latency_protocols.judging import shown_table
from benchmarks.latency_protocols.regimes import calibrate

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    """Read the command line and write the profiles."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", type=Path, help="folder of the CSV tables")
    parser.add_argument("--out", type=Path, default=ROOT / "device_profiles")
    arguments = parser.parse_args()
    arguments.out.mkdir(exist_ok=True)
    counts = write_profiles(arguments.tables, ROOT / "benchmarks" / "device_specs.yaml", arguments.out)
    for name, rows in counts.items():
        print(f"{name:30} {rows:5} rows")
    print(f"{len(counts)} devices, {sum(counts.values())} rows")
    profiles = [read_profile(arguments.out / f"{name}.yaml") for name in counts]
    write_calibration(profiles, arguments.out)


def write_calibration(profiles: Sequence[DeviceProfile], out: Path) -> Calibration:
    """Write the errors of predictions beside the profiles and return them.

    The judging sources take no part, so that the coverage on them is that of a source that nobody has seen.
    """
    features = load_features()
    calibration = replace(
        calibrate(shown_table(profiles, features)), data_hash=build_table(profiles, features).fingerprint()
    )
    (out / CALIBRATION_FILE).write_text(json.dumps(asdict(calibration)) + "\n", encoding="utf-8")
    return calibration


if __name__ == "__main__":
    main()

"""Runs and devices for tests of predictions."""

from dataclasses import replace
from pathlib import Path

import yaml

from advisor.core import CardFacts, Evaluation, TimingFacts
from advisor.devices import find_shipped_profiles
from tests.builders import evaluation

REQUEST = {"budget": "150ms"}
"""On a Raspberry Pi 4 the small network is several times below it, the large one several times above."""


def with_facts(row: Evaluation, macs: float, params: float) -> Evaluation:
    return replace(row, card_facts=CardFacts(params, macs, input_size=224), timing=TimingFacts(load_ms=3.0, threads=1))


def rows() -> list[Evaluation]:
    """A large accurate network and a small one; both meet the budget on this machine."""
    large = evaluation("inception_v3_299", "float32", accuracy=92, half_width=1, latency=30, size=95e6)
    small = evaluation("mobilenet_v1_0.25_224", "float32", accuracy=80, half_width=1, latency=1, size=2e6)
    return [with_facts(large, 5.7e9, 23.8e6), with_facts(small, 41e6, 0.47e6)]


def own_profile(folder: Path, name: str = "our-kiosk", clock: int = 1500) -> Path:
    """Write a device of the team's own: a Raspberry Pi 4 under another name, without measurements."""
    folder.mkdir(exist_ok=True)
    profile = yaml.safe_load((find_shipped_profiles() / "raspberry-pi-4.yaml").read_text(encoding="utf-8"))
    profile["name"] = name
    profile["title"] = f"Our kiosk at {clock} MHz"
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(profile), encoding="utf-8")
    return folder

"""The selectors of apps: the same choices in Python, JavaScript in Chromium, Kotlin and Swift."""

import base64
import json
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from advisor.integrations.fleet._rules import RULES, core_macs
from advisor.integrations.fleet.selector import TierSelector, plain
from tests.makers.browsers import Browser, new_context
from tests.makers.kotlin import compile_kotlin
from tests.makers.swift import compile_swift, run_swift
from tests.reporting.bundle.test_model import parsed
from tests.requirements import skip_or_fail
from tests.tables import read_table, with_cases

PACKAGE = Path(str(files("advisor.integrations.fleet")))
SAME = "the state of before"
DRIVE = (Path(__file__).parent / "drive_selector.js").read_text(encoding="utf-8")
MEASURE = (Path(__file__).parent / "measure_tiers.js").read_text(encoding="utf-8")
ROWS = read_table(__file__, "scenarios.yaml")
SCENARIOS: dict[str, tuple[list[list[Any]], list[Any]]] = {
    name: (row["steps"], row["tiers"]) for name, row in ROWS.items()
}
JSON_JAR = Path("/usr/share/java/com.android.json.jar")
"""Android's own org.json, from Debian's package libandroid-json-java."""


def document() -> dict[str, Any]:
    """Three tiers of 5, 20 and 40 ms on the middle one of three phones, under a budget of 50 ms."""
    made = read_table(__file__, "three_tiers.yaml")
    return {**made, "rules": {**RULES, "window": 5}, "core_macs": core_macs()}


class Driver:
    """Does the steps of a scenario with the Python selector."""

    def __init__(self) -> None:
        self.selector: TierSelector | None = None

    def do(self, step: list[Any]) -> int:
        name, *given = step
        if name in ("start", "restart"):
            stored = self.selector.state() if self.selector and given[1] == SAME else given[1]
            self.selector = TierSelector(document(), given[0], stored)
        if name == "place":
            self.selector.place(*given)
        elif name == "ran":
            for _ in range(given[1]):
                self.selector.ran(given[0], given[2])
        elif name == "test":
            self.selector.self_test(lambda tier, _: output(tier, given[0]))
        return -1 if self.selector.tier is None else self.selector.tier


def output(tier: int, failing: list[int]) -> list[float]:
    """The outputs of a file; of the third one every second value counts."""
    if tier in failing:
        return [float("nan")] * (4 if tier == 2 else 2)
    return [0.25, 9.0, 0.76, 9.0] if tier == 2 else [0.26, 0.74]


@pytest.mark.parametrize("name", SCENARIOS)
def test_python_chooses(name: str) -> None:
    steps, expected = SCENARIOS[name]
    driver = Driver()
    assert [driver.do(step) for step in steps] == expected


def test_the_fastest_file_is_timed_for_the_window() -> None:
    asked: list[int] = []
    selector = TierSelector(document(), {"names": ["middle"]})
    selector.measure(lambda tier: asked.append(tier) or 2.0)
    assert asked == [0] * 16, "the first run does not count; then 30 ms in runs of 2 ms"
    assert selector.ratio == pytest.approx(0.4)


def test_inputs_repeat_pixels_and_normalise() -> None:
    selector, small = TierSelector(document(), {}), bytes(range(12))
    values = selector.inputs(0, base64.b64encode(small).decode())
    rows = [values[12 * row : 12 * row + 12] for row in range(4)]
    assert rows[0] == rows[1]
    assert rows[0][:3] == rows[0][3:6] == pytest.approx([(each - 127.5) / 127.5 for each in (0, 1, 2)])
    assert rows[3][9:] == pytest.approx([(each - 127.5) / 127.5 for each in (9, 10, 11)])


def test_a_file_that_cannot_run_or_gives_other_sizes_fails() -> None:
    def broken(tier: int, _: list[float]) -> list[float]:
        if tier == 2:
            raise RuntimeError("no delegate")
        return [0.25]

    selector = TierSelector(document(), {"names": ["fast"]})
    assert selector.self_test(broken) is None
    assert selector.file is None


@with_cases
def test_names_are_compared_without_makers_and_signs(name: str, expected: str) -> None:
    assert plain(name) == expected


def test_javascript_chooses_the_same_in_chromium(browser: Browser) -> None:
    page = new_context(browser).new_page()
    page.add_script_tag(content=(PACKAGE / "selectors" / "selector.js").read_text(encoding="utf-8"))
    steps = {name: each for name, (each, _) in SCENARIOS.items()}
    found = page.evaluate(DRIVE, [document(), steps, SAME])
    assert found == {name: expected for name, (_, expected) in SCENARIOS.items()}
    selector = TierSelector(document(), {"names": ["middle"]})
    selector.measure(lambda _: 2.0)
    assert page.evaluate(MEASURE, [document()]) == [16, pytest.approx(selector.ratio), selector.file]


@pytest.mark.parametrize(("file", "platform"), [("TierSelector.kt", "android"), ("TierSelector.swift", "ios")])
def test_kotlin_and_swift_are_valid(file: str, platform: str) -> None:
    assert parsed(platform, (PACKAGE / "selectors" / file).read_text(encoding="utf-8")) == []


@pytest.mark.slow
def test_kotlin_compiles_and_chooses_the_same(kotlin_home: Path, tmp_path: Path) -> None:
    if not JSON_JAR.is_file():
        skip_or_fail("no JSON of Android: install Debian's package libandroid-json-java")
    (tmp_path / "tiers.json").write_text(json.dumps(document()), encoding="utf-8")
    (tmp_path / "steps.json").write_text(json.dumps({name: steps for name, (steps, _) in SCENARIOS.items()}))
    sources = [PACKAGE / "selectors" / "TierSelector.kt", *Path(__file__).parent.glob("*.kt")]
    classes = ":".join(map(str, compile_kotlin(kotlin_home, sources, tmp_path / "classes", JSON_JAR)))
    ran = ["java", "-cp", classes, "Selector_mainKt", str(tmp_path / "tiers.json"), str(tmp_path / "steps.json"), SAME]
    found = json.loads(subprocess.run(ran, capture_output=True, text=True, timeout=100, check=True).stdout)
    assert found == {name: expected for name, (_, expected) in SCENARIOS.items()}


@pytest.mark.integration
def test_swift_compiles_and_chooses_the_same(swift_runner: list[str], tmp_path: Path) -> None:
    scenarios = {name: row for name, row in SCENARIOS.items() if "cores" not in name}
    (tmp_path / "tiers.json").write_text(json.dumps(document()), encoding="utf-8")
    (tmp_path / "steps.json").write_text(json.dumps({name: steps for name, (steps, _) in scenarios.items()}))
    shutil.copy(PACKAGE / "selectors" / "TierSelector.swift", tmp_path)
    shutil.copy(Path(__file__).with_name("selector_main.swift"), tmp_path / "main.swift")
    compile_swift(swift_runner, tmp_path, ["TierSelector.swift", "main.swift"])
    tiers = json.loads(run_swift(swift_runner, tmp_path, "./program", "tiers.json", "steps.json", SAME))
    assert tiers == {name: expected for name, (_, expected) in scenarios.items()}

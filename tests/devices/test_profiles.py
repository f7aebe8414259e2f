"""Reading, selecting and refusing device profiles."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.core.errors import UsageError
from advisor.core.evaluation import Target
from advisor.devices.profiles import HOST, Profiles, load_profiles, read_profile

PROFILE = """\
name: gadget
title: A gadget
kind: board
soc: Maker M1
cores:
- {core: Cortex-A53, count: 4, max_mhz: 1200}
memory: 512MiB
limits:
  arena: 256KiB
targets:
- name: tflite-cpu-x4
  runtime: tflite
  version: "2.17"
  accelerator: cpu
  threads: 4
  precisions: [float32, int8]
default_target: tflite-cpu-x4
"""
PROMISED = """
pixel-1 pixel-2 pixel-3 pixel-4 galaxy-s24 galaxy-s25 snapdragon-855 snapdragon-865 snapdragon-845 kirin-990
raspberry-pi-3 raspberry-pi-4 raspberry-pi-5 raspberry-pi-zero-2-w rk3399 rk3588 jetson-nano coral-dev-board
stm32h747i-disco stm32f769i-disco stm32n6570-dk esp32-s3
"""
ROWS = "target,model,precision,latency_ms\ntflite-cpu-x4,mobilenet_v2_1.0_224,float32,80.5\n"


def write(folder: Path, profile: str = PROFILE, rows: str | None = ROWS, name: str = "gadget") -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(profile)
    if rows is not None:
        path.with_suffix(".csv").write_text(rows)
    return path


def test_a_profile_is_read_with_its_measurements(tmp_path: Path) -> None:
    profile = read_profile(write(tmp_path))
    assert (profile.memory_bytes, profile.limits.arena_bytes, profile.cores[0].count) == (2**29, 2**18, 4)
    assert [(m.model, m.latency_ms) for m in profile.measurements] == [("mobilenet_v2_1.0_224", 80.5)]
    assert profile.target().of("gadget") == Target("gadget", "tflite==2.17", "cpu", 4)


def test_the_shipped_profiles_cover_the_promised_devices(profiles: Profiles) -> None:
    for name in PROMISED.split():
        assert name in profiles
    assert len(profiles) > 40


def test_every_shipped_measurement_keeps_its_source(profiles: Profiles) -> None:
    rows = [row for profile in profiles.values() for row in profile.measurements]
    assert len(rows) > 6000
    assert all(row.source_repo and row.source_path for row in rows)


def test_microcontrollers_have_hard_limits(profiles: Profiles) -> None:
    for profile in profiles.values():
        if profile.kind == "microcontroller":
            assert None not in (profile.limits.arena_bytes, profile.limits.flash_bytes), profile.name


def test_no_job_is_counted_under_two_devices(profiles: Profiles) -> None:
    jobs = [
        row.job
        for profile in profiles.values()
        for row in profile.measurements
        if row.source_repo == "quic/ai-hub-models"
    ]
    assert len(jobs) == len(set(jobs))


def test_throughput_and_fallbacks_are_flagged(profiles: Profiles) -> None:
    assert all(row.flag == "throughput" for row in profiles["hailo-8"].measurements)
    fallen = [row for row in profiles["qualcomm-qcs8275"].measurements if row.flag == "fallback"]
    assert ("squeezenet_1.1_224", "float32") in {(row.model, row.precision) for row in fallen}


def test_the_host_is_always_there(profiles: Profiles) -> None:
    host = profiles[HOST]
    assert host.memory_bytes
    assert host.cores[0].count >= 1
    assert host.target().accelerator == "cpu"


def test_a_selector_names_device_and_target(profiles: Profiles) -> None:
    profile, target = profiles.select("galaxy-s24:qnn-npu")
    assert (profile.name, target.runtime) == ("galaxy-s24", "qnn")
    assert profiles.select("galaxy-s24")[1].name == profile.default_target


@pytest.mark.parametrize(("selector", "nearest"), [("galaxy-24", "galaxy-s24"), ("pixel-4:tflite-gpux", "tflite-gpu")])
def test_an_unknown_name_meets_the_nearest(profiles: Profiles, selector: str, nearest: str) -> None:
    with pytest.raises(UsageError, match=nearest):
        profiles.select(selector)


def test_a_users_profile_replaces_a_shipped_one(tmp_path: Path) -> None:
    write(tmp_path, PROFILE.replace("gadget", "pixel-4"), name="pixel-4")
    assert load_profiles([tmp_path])["pixel-4"].title == "A pixel-4"


def test_two_folders_may_not_have_the_same_device(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write(tmp_path / name)
    with pytest.raises(UsageError, match="the device 'gadget' is in"):
        load_profiles([tmp_path / "a", tmp_path / "b"])


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a folder"):
        load_profiles([tmp_path / "nowhere"])


@pytest.mark.parametrize(
    ("before", "after", "line", "words"),
    [
        ("title:", "titel:", 2, "unknown key 'titel' .did you mean 'title'"),
        ("memory: 512MiB", "memory: 512", 7, "has no unit"),
        ("memory: 512MiB", "memory: 512MX", 7, "unknown unit"),
        ("memory: 512MiB", "memory: 9000000GB", 7, "less than or equal"),
        ("count: 4", "count: 0", 6, "greater than or equal to 1"),
        ("threads: 4", "threads: 4.5", 15, "integer"),
        ("threads: 4", "treads: 4", 15, "did you mean 'threads'"),
        ("[float32, int8]", "[float32, int9]", 16, "did you mean 'int8'"),
        ("[float32, int8]", "[]", 16, "at least 1"),
        ("accelerator: cpu", "accelerator: cpux", 14, "did you mean 'cpu'"),
        ("default_target: tflite-cpu-x4", "default_target: tflite-cpu-x8", 17, "did you mean 'tflite-cpu-x4'"),
        ("name: gadget", "name: widget", 1, "differs from the file's"),
        ("name: gadget", "name: '../gadget'", 1, "pattern"),
        ("soc: Maker M1", "title: Again", 4, "is there twice"),
        ("soc: Maker M1", "soc: &a Maker", 1, "unused anchor is harmless"),
        ("kind: board", "kind: *a", 3, "alias"),
        ("kind: board", "3: board", 3, "is not text"),
    ],
)
def test_a_bad_profile_is_refused_with_file_and_line(
    tmp_path: Path, before: str, after: str, line: int, words: str
) -> None:
    path = write(tmp_path, PROFILE.replace(before, after, 1))
    if "harmless" in words:
        assert read_profile(path).soc == "Maker"
        return
    with pytest.raises(UsageError, match=words) as caught:
        read_profile(path)
    assert f"{path}:{line}:" in caught.value.message


def test_a_target_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    start = PROFILE.index("- name: tflite")
    target = PROFILE[start : PROFILE.index("default_target")]
    with pytest.raises(UsageError, match=r"gadget.yaml:17: the target 'tflite-cpu-x4' is defined twice"):
        read_profile(write(tmp_path, PROFILE.replace(target, target * 2)))


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "just words", "name: [unclosed", "\x00"])
def test_what_is_no_profile_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match="gadget.yaml"):
        read_profile(write(tmp_path, text))

"""Reading, selecting and refusing device profiles."""

from dataclasses import replace
from pathlib import Path

import pytest

from advisor import devices
from advisor.core import FORMS, Target, UsageError, form_of
from advisor.devices import Profiles, find_version, listing
from advisor.devices._latency.measured import similar_form
from advisor.devices._profiles import load_profiles, read_profile
from advisor.devices._profiles.loading import read_checked_profile
from tests.builders import must_fail, present, write_file
from tests.tables import read_table, with_cases

PROFILE = (Path(__file__).parent / "board.yaml").read_text(encoding="utf-8")
ROWS = "target,model,precision,latency_ms\ntflite-cpu-x4,mobilenet_v2_1.0_224,float32,80.5\n"


def write(folder: Path, profile: str = PROFILE, rows: str | None = ROWS, name: str = "gadget") -> Path:
    path = write_file(folder / f"{name}.yaml", profile)
    if rows is not None:
        path.with_suffix(".csv").write_text(rows)
    return path


def test_a_profile_is_read_with_its_measurements(tmp_path: Path) -> None:
    profile = read_profile(write(tmp_path))
    assert (profile.memory_bytes, profile.limits.arena_bytes, profile.cores[0].count) == (2**29, 2**18, 4)
    assert [(m.model, m.latency_ms) for m in profile.measurements] == [("mobilenet_v2_1.0_224", 80.5)]
    assert profile.target().of("gadget") == Target("gadget", "tflite==2.17", "cpu", 4)


def test_the_shipped_profiles_cover_the_promised_devices_with_their_sources_and_hard_limits(profiles: Profiles) -> None:
    for name in read_table(__file__, "texts.yaml")["promised_devices"]:
        assert name in profiles
    assert len(profiles) > 40
    rows = [row for profile in profiles.values() for row in profile.measurements]
    assert len(rows) > 6000
    assert all(row.source_repo and row.source_path for row in rows)
    for profile in profiles.values():
        if profile.kind == "microcontroller":
            assert None not in (profile.limits.arena_bytes, profile.limits.flash_bytes), profile.name


def test_no_shipped_profile_is_refused_as_a_users_and_no_job_is_counted_under_two_devices(profiles: Profiles) -> None:
    for name in ("raspberry-pi-zero-w", "macbook-air-m3", "esp32", "radxa-orion-o6", "galaxy-s26", "jetson-agx-orin"):
        assert read_checked_profile(present(profiles[name].origin)) == profiles[name]
    rows = [row for profile in profiles.values() for row in profile.measurements]
    jobs = [row.job for row in rows if row.source_repo == "quic/ai-hub-models"]
    assert len(jobs) == len(set(jobs))


def test_a_users_profile_replaces_a_shipped_one_and_a_missing_folder_is_refused(tmp_path: Path) -> None:
    write(tmp_path, PROFILE.replace("gadget", "pixel-4"), name="pixel-4")
    assert load_profiles([tmp_path])["pixel-4"].title == "A pixel-4"
    must_fail(UsageError, "is not a folder", load_profiles, [tmp_path / "nowhere"])


def test_two_folders_may_not_have_the_same_device_nor_one_device_a_target_twice(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write(tmp_path / name)
    must_fail(UsageError, "the device 'gadget' is in", load_profiles, [tmp_path / "a", tmp_path / "b"])
    start = PROFILE.index("- name: tflite")
    target = PROFILE[start : PROFILE.index("default_target")]
    with pytest.raises(UsageError, match=r"gadget.yaml:17: the target 'tflite-cpu-x4' is defined twice"):
        read_profile(write(tmp_path, PROFILE.replace(target, target * 2)))


@with_cases
def test_a_bad_profile_is_refused_at_its_line(tmp_path: Path, before: str, after: str, line: int, words: str) -> None:
    path = write(tmp_path, PROFILE.replace(before, after, 1))
    if "harmless" in words:
        assert read_profile(path).soc == "Maker"
        return
    caught = must_fail(UsageError, words, read_profile, path)
    assert f"{path}:{line}:" in caught.message


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "just words", "name: [unclosed", "\x00"])
def test_what_is_no_profile_is_refused(tmp_path: Path, text: str) -> None:
    must_fail(UsageError, "gadget.yaml", read_profile, write(tmp_path, text))


def test_all_errors_of_both_files_are_reported_at_once(tmp_path: Path) -> None:
    text = PROFILE.replace("title:", "titel:").replace("count: 4", "count: 0").replace("kind: board", "kind: bord")
    rows = "target,model,precision,latency_ms\ntflite-cpu-x4,net,float64,80.5\ntflite-cpu-x4,net,int8,-1\n"
    path = write(tmp_path, text, rows)
    caught = must_fail(UsageError, "", read_profile, path)
    heads = [line.split(": ")[0].strip() for line in caught.message.splitlines()]
    csv = path.with_suffix(".csv")
    assert heads == ["5 errors:", f"{path}:2", f"{path}:3", f"{path}:6", f"{csv}:2", f"{csv}:3"]
    assert "key 'title' is missing" not in caught.message


def rows_of(*rows: str) -> str:
    return "target,model,precision,latency_ms\n" + "".join(f"tflite-cpu-x4,{row}\n" for row in rows)


def test_an_unknown_model_of_a_users_profile_is_refused_with_the_nearest(tmp_path: Path) -> None:
    path = write(tmp_path, rows=rows_of("mobilenet_v2_1.0_224,float32,80.5", "mobilenetv2_1.0_224,int8,40"))
    with pytest.raises(UsageError, match=r"gadget.csv:3: unknown model 'mobilenetv2_1.0_224'.*'mobilenet_v2_1.0_224'"):
        load_profiles([tmp_path])
    must_fail(UsageError, "unknown model", read_checked_profile, path)


@pytest.mark.parametrize(("float32", "int8", "swapped"), [(60.0, 25.0, False), (25.0, 60.0, True), (60.0, 66.0, False)])
def test_precisions_that_look_swapped_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, float32: float, int8: float, swapped: bool
) -> None:
    models = ("mobilenet_v2_1.0_224", "mobilenet_v1_1.0_224", "mobilenet_v1_0.5_224")
    rows = rows_of(*(f"{model},{form},{ms}" for model in models for form, ms in (("float32", float32), ("int8", int8))))
    read_checked_profile(write(tmp_path, rows=rows))
    assert ("on tflite-cpu-x4 int8 takes 2.4 times as long as float32" in caplog.text) is swapped
    assert ("are the precisions swapped?" in caplog.text) is swapped


@with_cases
def test_another_unit_is_refused(tmp_path: Path, latencies: list[float], unit: str, cores: bool) -> None:
    profile = PROFILE if cores else PROFILE.replace("cores:\n- {core: Cortex-A53, count: 4, max_mhz: 1200}\n", "")
    rows = rows_of(f"mobilenet_v2_1.0_224,float32,{latencies[0]}", f"mobilenet_v1_0.5_224,float32,{latencies[1]}")
    path = write(tmp_path, profile, rows)
    if not unit:
        assert len(read_checked_profile(path).measurements) == 2
        return
    caught = must_fail(UsageError, "", read_checked_profile, path)
    assert caught.message.endswith(f"the column latency_ms is in milliseconds and looks like {unit}")
    assert len(caught.message.splitlines()) == 1


@with_cases
def test_cores_that_contradict_the_soc_are_refused(tmp_path: Path, core: str, count: int, accepted: bool) -> None:
    text = PROFILE.replace("Maker M1", "Broadcom BCM2711").replace("Cortex-A53, count: 4", f"{core}, count: {count}")
    path = write(tmp_path, text)
    if accepted:
        assert read_checked_profile(path).cores[0].count == count
        return
    must_fail(UsageError, rf"cores {count} x {core} contradict the SoC Broadcom BCM2711", read_checked_profile, path)


def test_a_vendors_name_of_a_core_means_its_design(tmp_path: Path) -> None:
    text = PROFILE.replace("Maker M1", "Qualcomm Snapdragon 855").replace("Cortex-A53", "Cortex-A76")
    assert read_checked_profile(write(tmp_path, text)).name == "gadget"


def test_missing_cores_and_rows_of_another_build_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = ROWS.replace("latency_ms", "latency_ms,runtime_version").replace("80.5", "80.5,1.15.0+ruy")
    text = PROFILE.replace("threads: 4", "threads: 8").replace("Maker M1", "MediaTek Helio P60")
    read_checked_profile(write(tmp_path, text, rows))
    assert "the SoC MediaTek Helio P60 also has 4 x Cortex-A73, and 'cores' does not list them" in caplog.text
    assert "has 8 threads, but 'cores' lists 4: is a kind of core missing?" in caplog.text
    assert "1 of the measurements on tflite-cpu-x4 are of 1.15.0+ruy, and the target is" in caplog.text


@pytest.mark.parametrize("recipe", FORMS)
def test_a_latency_stands_for_every_recipe(recipe: str) -> None:
    form = form_of(recipe)
    precision, doubt = similar_form(form.name, (), ("float32", "int8", "int16x8"))
    assert (precision, doubt) == (form.like, form.log_sd)


def test_a_forms_own_measurements_come_first_and_one_of_which_nothing_is_known_is_refused() -> None:
    assert similar_form("float16", ("float16",), ("float16", "float32")) == ("float16", 0.0)
    must_fail(UsageError, "'wheight_int8' .did you mean 'weight_int8'", similar_form, "wheight_int8", (), ("float32",))


def test_the_build_of_a_package_for_cpus_counts_as_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gadget_cpu-1.2.dist-info").mkdir()
    (tmp_path / "gadget_cpu-1.2.dist-info" / "METADATA").write_text("Name: gadget-cpu\nVersion: 1.2\n")
    assert find_version("gadget") == ""
    monkeypatch.syspath_prepend(str(tmp_path))
    assert find_version("gadget") == "1.2"


def test_a_plan_can_say_which_build_a_latency_belongs_to(profiles: Profiles) -> None:
    board = profiles["raspberry-pi-4"]
    said = board.build_remark(board.target())
    build = "CPU with 4 threads, LiteRT 2.3.0 with XNNPACK, 64-bit, the build in the package ai-edge-litert"
    assert said.startswith(f"raspberry-pi-4: {build};")
    assert [f"raspberry-pi-4:tflite-cpu-x{end}" in said for end in ("4-ruy", "1")] == [True, False]
    assert "with XNNPACK, 32-bit;" in board.build_remark(board.target("tflite-cpu-x4-armhf"))
    assert not board.build_remark(board.target("ncnn-cpu-x4"))
    first = board.remark_other_builds(board.target())
    assert first == "LiteRT 2.3.0 with XNNPACK; others may take up to 1.9 times as long"
    assert not profiles["galaxy-s25"].remark_other_builds(profiles["galaxy-s25"].target("npu"))
    unstated = replace(board, isa="")
    unknown = "with ruy; the profile states no isa, so 32 or 64 bits are not known; others"
    assert unknown in unstated.build_remark(board.target("tflite-cpu-x4-ruy"))
    assert "32-bit" in unstated.build_remark(board.target("tflite-cpu-x4-armhf"))
    said = profiles["galaxy-s25"].build_remark(profiles["galaxy-s25"].target("npu"))
    assert said.split("; ")[-1] == "other processors: galaxy-s25:cpu, galaxy-s25:gpu"
    said = profiles["jetson-nano"].build_remark(profiles["jetson-nano"].target())
    assert said.endswith("; its GPU is described for ncnn, opencv-dnn, not for .tflite files: jetson-nano:gpu")


def test_a_target_without_a_measurement_says_so(profiles: Profiles) -> None:
    said = listing.remark_unmeasured(profiles["orange-pi-5"], profiles["orange-pi-5"].target())
    assert said.startswith("orange-pi-5: nothing was measured on tflite-cpu-x4, only with ncnn; latencies are predict")
    assert said.endswith("measure it: advisor devices calibrate orange-pi-5 --ssh USER@ADDRESS")
    assert not listing.remark_unmeasured(profiles["raspberry-pi-4"], profiles["raspberry-pi-4"].target())
    said = listing.remark_unmeasured(profiles["pixel-2"], profiles["pixel-2"].target())
    assert said.startswith("pixel-2: only float32 was measured on tflite-cpu-x4; latencies in int8 are predicted")


@with_cases
def test_a_missing_kind_is_inferred_and_said(tmp_path: Path, line: str, kind: str, target: str) -> None:
    (tmp_path / "ours.yaml").write_text(f"name: ours\n{line}\n", encoding="utf-8")
    added = devices.add(tmp_path / "ours.yaml", into=tmp_path / "kept").profile
    assert (added.kind, added.default_target) == (kind, target)
    assert f"counts as a {kind};" in listing.list_remarks(added)[0]
    assert f"counts as a {kind};" in listing.remark_unmeasured(added, added.target())


def test_kernels_are_a_part_of_the_identity_of_a_target(profiles: Profiles) -> None:
    names = ("tflite-cpu-x4", "tflite-cpu-x4-armhf", "tflite-cpu-x4-ruy")
    builds = {profiles["raspberry-pi-4"].target(name).of("x").runtime for name in names}
    assert builds == {"tflite==2.3.0+xnnpack", "tflite==2.3.0+armhf+xnnpack", "tflite==2.7.1+ruy"}

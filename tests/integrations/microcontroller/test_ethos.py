"""Real files through Arm's compiler for Ethos-U."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from advisor.core import Provenance, StageError, UsageError, install_extra
from advisor.integrations.microcontroller import ethos
from advisor.integrations.microcontroller.ethos import CONFIGURATIONS, estimate, unit_named
from advisor.measurement import EthosEstimate, Unit
from tests.builders import must_fail, write_file
from tests.measurement import small_models
from tests.requirements import skip_or_fail
from tests.tables import with_cases


@pytest.fixture(scope="module")
def compiled(int8_model: Path) -> EthosEstimate:
    if find_spec("ethosu") is None:
        skip_or_fail("ethos-u-vela is not installed")
    return estimate(int8_model, unit_named("ethos-u55"))


@pytest.mark.integration
def test_an_int8_file_runs_whole_and_every_figure_is_estimated(compiled: EthosEstimate) -> None:
    assert (compiled.on_npu, compiled.operators, dict(compiled.on_cpu)) == (6, 6, {})
    for figure in (compiled.cycles, compiled.latency, compiled.sram, compiled.flash):
        assert figure.value > 0
        assert figure.provenance is Provenance.ESTIMATED
        assert figure.source.startswith("ethos-u-vela 5")
    assert compiled.latency.value == pytest.approx(compiled.cycles.value / compiled.clock_mhz / 1e3)
    assert compiled.sentence.startswith("Ethos-U55-128 (shared-sram) runs 6 of 6 operators: ")


@pytest.mark.integration
def test_what_stays_on_the_cpu_is_named_with_the_reason(compiled: EthosEstimate, tmp_path: Path) -> None:
    path = write_file(tmp_path / "float.tflite", small_models.classifier())
    found = estimate(path, unit_named("ethos-u65-256"))
    assert (found.on_npu, found.on_cpu["CONV_2D"]) == (0, 2)
    assert found.latency is None
    assert "Operation has tensor with unsupported DataType Float32" in found.reasons
    assert found.to_json()["compiler"] == compiled.compiler


@pytest.mark.integration
def test_dedicated_sram_keeps_the_rest_in_dram(int8_model: Path, compiled: EthosEstimate) -> None:
    assert estimate(int8_model, unit_named("ethos-u85:dedicated-sram")).dram.value > 0
    assert compiled.dram.value == 0


@pytest.mark.integration
def test_a_file_that_takes_too_long_is_an_error(int8_model: Path) -> None:
    must_fail(StageError, "", estimate, int8_model, unit_named("ethos-u55"), timeout_s=0.01)


def test_a_family_has_a_configuration_and_a_memory_mode_by_default() -> None:
    assert unit_named("ethos-u55") == Unit("ethos-u55-128", "shared-sram", "Ethos_U55_High_End_Embedded")
    assert unit_named("ethos-u85") == Unit("ethos-u85-256", "dedicated-sram", "Ethos_U85_SYS_DRAM_Mid")
    assert unit_named("ethos-u65-512:sram-only") == Unit("ethos-u65-512", "sram-only", "Ethos_U65_High_End")
    assert all(unit_named(name).name == name for name in CONFIGURATIONS)


@with_cases
def test_what_does_not_exist_is_refused_with_the_nearest(name: str, words: str) -> None:
    must_fail(UsageError, words, unit_named, name)


def test_without_the_extra_the_hint_says_what_to_install(int8_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ethos, "find_spec", lambda _name: None)
    error = must_fail(UsageError, "ethos-u-vela is not installed", estimate, int8_model, unit_named("ethos-u55"))
    assert install_extra("micro") in error.hint

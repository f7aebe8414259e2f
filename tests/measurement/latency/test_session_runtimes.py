"""Other runtimes, each in an environment of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

from advisor.core.errors import UsageError
from advisor.measurement.latency.session import Runtime, interpreter, parse_runtime, refuse_newer_python
from advisor.measurement.latency.timing import Setup, measure
from tests.requirements import skip_or_fail


@pytest.mark.parametrize("text", ["tflite-runtime==2.14.0", " TFLite_Runtime == 2.14.0 "])
def test_a_package_with_a_version_is_read(text: str) -> None:
    assert parse_runtime(text) == Runtime("tflite-runtime", "2.14.0")


@pytest.mark.parametrize(
    "text",
    [
        "tflite-runtime",
        "tflite-runtime>=2",
        "tflite-runtime==",
        "tflite-runtime==2.14.0 --index-url x",
        "a @ file:b==1",
    ],
)
def test_no_exact_version_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not a package with an exact version"):
        parse_runtime(text)


def test_another_package_names_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"unknown runtime 'tflite-run' \(did you mean 'tflite-runtime'\?\)"):
        parse_runtime("tflite-run==2.14.0")


def test_the_installed_runtime_needs_no_environment() -> None:
    from importlib.metadata import version

    assert interpreter(Runtime("ai-edge-litert", version("ai-edge-litert"))) is None


def test_a_python_newer_than_the_last_wheel_is_told() -> None:
    with pytest.raises(UsageError, match=r"tflite-runtime==2\.14\.0 has no wheel for Python 3\.12; its last wheels"):
        refuse_newer_python(Runtime("tflite-runtime", "2.14.0"), (3, 12))
    refuse_newer_python(Runtime("tflite-runtime", "2.14.0"), (3, 11))
    refuse_newer_python(Runtime("ai-edge-litert", "2.2.0"), (3, 13))


@pytest.mark.integration
def test_what_pip_cannot_find_is_one_line_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(UsageError, match=r"ai-edge-litert==0\.0\.1 cannot be installed: .*No matching") as caught:
        interpreter(Runtime("ai-edge-litert", "0.0.1"))
    assert "\n" not in caught.value.message
    assert [path for path in (tmp_path / "runtimes").iterdir() if path.is_dir()] == []


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="tflite-runtime has no wheel for this Python")
def test_an_older_runtime_measures_in_an_environment_made_once(
    float_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path))
    runtime = Runtime("tflite-runtime", "2.14.0")
    try:
        python = interpreter(runtime)
    except UsageError as error:
        skip_or_fail(f"the package index is out of reach: {error.message}")
    assert python is not None
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert interpreter(runtime) == python
    code = "import importlib.util as u; print(u.find_spec('ai_edge_litert'), u.find_spec('advisor'))"
    seen = subprocess.run([str(python), "-I", "-c", code], capture_output=True, text=True, check=True).stdout
    assert seen.split() == ["None", "None"]
    timing = measure(float_model, [1], "search", retry=False, setup=Setup(python=python))
    assert timing.runtime == "tflite-runtime==2.14.0"

"""The agent on another architecture: an aarch64 Python with the aarch64 runtime under qemu, outputs as on the host."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from advisor.devices.connections.agent import HostConnection
from advisor.devices.connections.protocol import MeasurementJob
from tests.devices.arm_root import aarch64_python
from tests.measurement import small_models

pytestmark = pytest.mark.timeout(900)

OUTPUTS = """\
import importlib.util, json, platform, sys
spec = importlib.util.spec_from_file_location("agent", sys.argv[1])
agent = importlib.util.module_from_spec(spec)
sys.modules["agent"] = agent
spec.loader.exec_module(agent)
found = {}
for path in sys.argv[2:]:
    interpreter = agent.new_interpreter(path, 1, "default")
    interpreter.allocate_tensors()
    agent.set_inputs(interpreter)
    interpreter.invoke()
    found[path] = [interpreter.get_tensor(each["index"]).tolist() for each in interpreter.get_output_details()]
print(json.dumps({"machine": platform.machine(), "outputs": found}))
"""


@pytest.fixture(scope="module")
def emulated(starts_processes: None) -> Path:
    return aarch64_python()


def test_the_agent_runs_and_times_there(emulated: Path, agent: Path, model: Path) -> None:
    (timing,) = HostConnection(agent, emulated).measure(MeasurementJob((model,), effort="load", timeout_s=300))
    assert timing.median_ms > 0
    assert timing.runtime.startswith("ai-edge-litert==")


def test_outputs_are_those_of_the_host(emulated: Path, agent: Path, model: Path, tmp_path: Path) -> None:
    quantized = tmp_path / "int8.tflite"
    quantized.write_bytes(small_models.quantized(small_models.classifier(), tmp_path, 32))
    script = tmp_path / "outputs.py"
    script.write_text(OUTPUTS)
    arguments = [str(script), str(agent), str(model), str(quantized)]
    there, here = (
        json.loads(subprocess.run([str(python), *arguments], check=True, capture_output=True, timeout=300).stdout)
        for python in (emulated, Path(sys.executable))
    )
    assert there["machine"] == "aarch64"
    assert there["outputs"][str(quantized)] == here["outputs"][str(quantized)]
    for theirs, ours in zip(there["outputs"][str(model)][0][0], here["outputs"][str(model)][0][0], strict=True):
        assert theirs == pytest.approx(ours, abs=1e-6)

"""A float file becomes a ``.pte`` that computes the same, and is timed in ExecuTorch."""

import importlib.util
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

from advisor.catalog import Catalogue
from advisor.catalog._graph_file import graph_of
from advisor.core import HOST, StageError, UsageError
from advisor.devices import MeasurementJob, RuntimeFile, host_profile, local_runtimes
from advisor.devices._profiles import runtimes
from advisor.integrations import executorch
from advisor.tflite import read
from tests.builders import must_fail
from tests.measurement import small_models

RUNTIME = local_runtimes()[f"{HOST}:executorch"]
installed = pytest.mark.skipif(
    importlib.util.find_spec("executorch") is None,
    reason="executorch is not installed; continuous integration cannot install PyTorch",
)
NETWORKS: dict[str, Callable[[], bytes]] = {
    "classifier": small_models.classifier,
    "swish": small_models.swish_net,
    "two levels": lambda: small_models.two_levels(16),
}


def test_what_is_missing_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtimes, "find_version", lambda _: "")
    problem, hint = RUNTIME.missing()
    assert problem == "needs executorch, torch"
    assert "[executorch]" in hint
    must_fail(UsageError, "ExecuTorch needs executorch, torch", executorch.inputs, "0" * 64)


def test_it_takes_files_that_compute_in_float_and_has_the_targets_of_this_machine() -> None:
    profile = RUNTIME.profile()
    assert {target.precisions for target in profile.targets} == {("float32",)}
    assert [target.name for target in profile.targets] == [target.name for target in host_profile().targets]


@installed
@pytest.mark.integration
@pytest.mark.parametrize("name", NETWORKS)
def test_an_export_answers_as_its_file(name: str, tmp_path: Path) -> None:
    path = small_models.saved(tmp_path, NETWORKS[name]())
    found = executorch.write_pte(path, tmp_path / "model.pte")
    assert isinstance(found, dict), found
    assert found["same_answers"] == found["inputs"]
    assert found["largest_difference"] < 1e-4


@installed
@pytest.mark.integration
@pytest.mark.parametrize("name", ["mobilenet_v3_small_0.5_lamb_224", "edgenext_xx_small_288", "ghostnet_1.0_224"])
def test_the_network_of_a_file_computes_what_litert_does(name: str) -> None:
    import torch

    from advisor.integrations.executorch._network import FileNetwork

    graph = graph_of(Catalogue.load()[name])
    data = graph.fill_constants(graph.draw_tensors())
    image = np.random.default_rng(0).uniform(-1, 1, read(data).inputs[0].shape).astype(np.float32)
    interpreter = Interpreter(model_content=data)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], image)
    interpreter.invoke()
    with torch.no_grad():
        found = FileNetwork(read(data)).eval()(torch.from_numpy(image))
    for detail, values in zip(interpreter.get_output_details(), found, strict=True):
        expected = interpreter.get_tensor(detail["index"])
        assert np.abs(values.numpy() - expected).max() < 1e-4 * max(np.ptp(expected), 1e-9)


@installed
@pytest.mark.integration
@pytest.mark.usefixtures("own_folders")
def test_each_count_of_threads_is_timed_in_a_process_of_its_own(tmp_path: Path) -> None:
    path = small_models.saved(tmp_path, small_models.classifier())
    assert RuntimeFile.make_file("executorch", path).path.suffix == ".pte"
    job = MeasurementJob((path,), (1, 2), "search", 120.0, "executorch")
    timings = RUNTIME.connect(RUNTIME.profile().target()).measure(job)
    assert [timing.threads for timing in timings] == [1, 2]
    assert {timing.model for timing in timings} == {path}
    assert all(timing.runtime.startswith("executorch==1.") for timing in timings)
    assert all(timing.median_ms > 0 for timing in timings)


@installed
@pytest.mark.integration
@pytest.mark.usefixtures("own_folders")
def test_a_file_that_cannot_be_exported_is_refused_with_its_reason(tmp_path: Path) -> None:
    path = small_models.saved(tmp_path, small_models.open_output())
    with pytest.raises(StageError, match="no ExecuTorch export: ExecuTorch is not given the operator WHERE"):
        RuntimeFile.make_file("executorch", path)

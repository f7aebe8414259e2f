"""A server on the loopback interface that speaks the protocol of Qualcomm AI Hub, for its real client."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

TOKEN = "tok-5f0c-of-the-test"
S24 = ("framework:tflite", "chipset:qualcomm-snapdragon-8gen3", "chipset:sm8650", "os:android")
DEVICES = {"Samsung Galaxy S24": S24, "RB3": ("os:qc",)}


@dataclass
class AiHub:
    """The state of a cloud; a test changes it."""

    runs_us: tuple[int, ...] = (900, 410, 400, 420, 405)
    units: str = "NNC"  # unit of each operator: NPU, GPU or CPU
    state: int = 10  # of each job: done; 1: created, 30: failed
    failure: str = ""  # what the device says of a job that failed
    refusal: tuple[int, str] = (0, "")  # answer to every call; status 0 for none
    noise: float = 0.0  # what is added to each output
    files: dict[str, bytes] = field(default_factory=dict)  # what was sent, by its name
    jobs: dict[str, Any] = field(default_factory=dict)  # the jobs as they were ordered


@pytest.fixture
def aihub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AiHub]:
    """A cloud, and the client's settings with a token for it."""
    if find_spec("qai_hub") is None:
        pytest.skip("qai-hub takes an older protobuf than the tools here: pip install --no-deps qai-hub and its parts")
    from advisor.devices._connections import clouds

    cloud, settings = AiHub(), tmp_path / "client.ini"
    monkeypatch.setenv("QAIHUB_CLIENT_INI", str(settings))
    monkeypatch.setattr("advisor.integrations.clouds._cloud.POLL_S", 0.02)
    clouds.ask_devices.cache_clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"cloud": cloud})) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        settings.write_text(f"[api]\napi_token = {TOKEN}\napi_url = {address}\nweb_url = {address}\n")
        yield cloud
        server.shutdown()
    clouds.ask_devices.cache_clear()


class _Handler(BaseHTTPRequestHandler):
    cloud: AiHub

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def _serve(self) -> None:
        url, cloud = urlsplit(self.path), self.cloud
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        name = url.path.rpartition("/")[2]
        status, answer = cloud.refusal[0] or 200, cloud.refusal[1].encode()
        if url.path.startswith("/asset/"):  # an address that is valid without a token, as those of object stores are
            if self.command != "GET":
                is_form = self.headers.get("Content-Type", "").startswith("multipart")
                cloud.files[name] = body.partition(b"\r\n\r\n")[2].rpartition(b"\r\n--")[0] if is_form else body
            status, answer = 200, cloud.files[name]
        elif self.headers["Authorization"] != f"token {TOKEN}":
            status = 401
        elif not cloud.refusal[0]:
            answer = self._message(url.path.strip("/").split("/")[2:], url.query, body).SerializeToString()
        self.send_response(status)
        headers = {"Content-Type": "application/x-protobuf", "ETag": "e", "Content-Length": len(answer)}
        for key, value in headers.items():
            self.send_header(key, str(value))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = do_PUT = do_PATCH = _serve

    def _message(self, place: list[str], query: str, body: bytes) -> Any:
        from qai_hub import public_api_pb2 as messages

        cloud, name = self.cloud, (*place, "")[1]
        asset = {"url": f"http://{self.headers['Host']}/asset/{name}"}
        match self.command, *place:
            case "GET", "devices":
                wanted = parse_qs(query).get("name", DEVICES)
                rows = [{"name": device, "os": "14", "attributes": DEVICES[device]} for device in wanted]
                return messages.DeviceList(devices=rows)
            case "POST", "models" | "datasets":
                name = f"{place[0][0]}{len(cloud.files)}"
                cloud.files[name] = b""
            case "GET", _, _, "multipart_upload":
                return messages.FileUploadResponse(multipart_url={"urls": asset.values(), "max_part_size": 2**30})
            case "GET", _, _, "upload_url":
                return messages.FileUploadResponse(url={**asset, "file_field_name": "file"})
            case "GET", _, _, "download_data":
                return messages.FileDownloadResponse(url={**asset, "filename": f"{name}.h5"})
            case "POST", "jobs":
                name = f"j{len(cloud.jobs)}"
                cloud.jobs[name] = messages.Job.FromString(body).inference_job
            case "GET", "jobs", _:
                return messages.Job(inference_job={"job_state": cloud.state, "failure_reason": cloud.failure})
            case "GET", "jobs", _, "result":
                return messages.JobResult(inference_job_result=self._result(cloud.jobs[name]))
            case "GET", "datasets", _:
                return messages.Dataset(dataset_id=name)
        return messages.CreateUpdateResponse(id=name)  # also of an upload that is complete

    def _result(self, job: Any) -> dict[str, Any]:
        """Return the profile of a job, and run its file on the images that were sent."""
        cloud, sent = self.cloud, job.dataset.dataset_id
        detail = {"major_version": 1, "minor_version": 2, "warm_load_time": 5000, "all_execution_times": cloud.runs_us}
        detail["layer_details"] = [{"compute_unit": "_CGN".index(unit)} for unit in cloud.units]
        detail["execution_memory"] = {"increase": {"lower": 0, "upper": 7_000_000}}
        if sent:
            cloud.files["out"] = _run(cloud.files[job.model.model_id], cloud.files[sent], cloud.noise)
        return {"detail": detail, "output_dataset_id": "out" if sent else ""}


def _run(model: bytes, dataset: bytes, noise: float) -> bytes:
    """Return the outputs of a file for the inputs of a dataset, as a dataset."""
    import h5py
    from ai_edge_litert.interpreter import Interpreter
    from qai_hub.util.dataset_entries_converters import dataset_entries_to_h5, h5_to_dataset_entries

    runner = Interpreter(model_content=model).get_signature_runner()
    with h5py.File(BytesIO(dataset), "r") as file:
        (arrays,) = h5_to_dataset_entries(file).values()
    (name,) = runner.get_input_details()
    outputs = [next(iter(runner(**{name: array}).values())) for array in arrays]
    written = BytesIO()
    with h5py.File(written, "w") as file:
        dataset_entries_to_h5({"output": [row + np.float32(noise) * np.arange(row.size) for row in outputs]}, file)
    return written.getvalue()

"""A server on the loopback interface that speaks the protocol of Qualcomm AI Hub, for its real client."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from email.parser import BytesParser
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


@dataclass
class AiHub:
    """The state of a cloud; a test changes it."""

    devices: dict[str, tuple[str, ...]] = field(default_factory=lambda: {"Samsung Galaxy S24": S24, "RB3": ("os:qc",)})
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
    from advisor.integrations.clouds import _cloud

    cloud = AiHub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"cloud": cloud}))
    Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    settings = tmp_path / "client.ini"
    settings.write_text(f"[api]\napi_token = {TOKEN}\napi_url = {address}\nweb_url = {address}\n")
    monkeypatch.setenv("QAIHUB_CLIENT_INI", str(settings))
    monkeypatch.setattr(_cloud, "POLL_S", 0.02)
    clouds.ask_devices.cache_clear()
    yield cloud
    server.shutdown()
    server.server_close()
    clouds.ask_devices.cache_clear()


class _Handler(BaseHTTPRequestHandler):
    cloud: AiHub

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def _serve(self) -> None:
        url, cloud, body = urlsplit(self.path), self.cloud, self._read()
        name = url.path.rpartition("/")[2]
        if url.path.startswith("/asset/"):  # an address that is valid without a token, as those of object stores are
            if self.command != "GET":
                kind = self.headers.get("Content-Type", "")
                cloud.files[name] = _part(kind, body) if kind.startswith("multipart") else body
            return self._answer(200, cloud.files[name])
        if cloud.refusal[0] or self.headers["Authorization"] != f"token {TOKEN}":
            return self._answer(cloud.refusal[0] or 401, cloud.refusal[1].encode())
        answer = self._message(url.path.strip("/").split("/")[2:], parse_qs(url.query), body)
        return self._answer(200, answer.SerializeToString())

    do_GET = do_POST = do_PUT = do_PATCH = _serve

    def _message(self, place: list[str], query: dict[str, list[str]], body: bytes) -> Any:
        from qai_hub import public_api_pb2 as messages

        cloud, name = self.cloud, (*place, "")[1]
        asset = {"url": f"http://{self.headers['Host']}/asset/{name}"}
        match self.command, *place:
            case "GET", "devices":
                rows = [messages.Device(name=name, os="14", attributes=facts) for name, facts in cloud.devices.items()]
                return messages.DeviceList(devices=[row for row in rows if row.name in query.get("name", [row.name])])
            case "POST", "models" | "datasets":
                name = f"{place[0][0]}{len(cloud.files)}"
                cloud.files[name] = b""
                return messages.CreateUpdateResponse(id=name)
            case "GET", _, _, "multipart_upload":
                return messages.FileUploadResponse(multipart_url={"urls": asset.values(), "max_part_size": 2**30})
            case "GET", _, _, "upload_url":
                return messages.FileUploadResponse(url={**asset, "file_field_name": "file"})
            case "GET", _, _, "download_data":
                return messages.FileDownloadResponse(url={**asset, "filename": f"{name}.h5"})
            case "POST", "jobs":
                name = f"j{len(cloud.jobs)}"
                cloud.jobs[name] = messages.Job.FromString(body).inference_job
                return messages.CreateUpdateResponse(id=name)
            case "GET", "jobs", _:
                return messages.Job(inference_job={"job_state": cloud.state, "failure_reason": cloud.failure})
            case "GET", "jobs", _, "result":
                return messages.JobResult(inference_job_result=self._result(cloud.jobs[name]))
            case "GET", "datasets", _:
                return messages.Dataset(dataset_id=name)
        return messages.CreateUpdateResponse(id=name)  # the upload is complete

    def _read(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _result(self, job: Any) -> dict[str, Any]:
        """Return the profile of a job, and run its file on the images that were sent."""
        cloud, sent = self.cloud, job.dataset.dataset_id
        layers = [{"layer_type_name": "Conv2D", "compute_unit": "_CGN".index(unit)} for unit in cloud.units]
        detail = {"major_version": 1, "minor_version": 2, "warm_load_time": 5000, "all_execution_times": cloud.runs_us}
        memory = {"increase": {"lower": 0, "upper": 7_000_000}}
        if sent:
            cloud.files["out"] = _run(cloud.files[job.model.model_id], cloud.files[sent], cloud.noise)
        output = "out" if sent else ""
        return {
            "detail": {**detail, "execution_memory": memory, "layer_details": layers},
            "output_dataset_id": output,
        }

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        for key, value in {"Content-Type": "application/x-protobuf", "ETag": "e", "Content-Length": len(body)}.items():
            self.send_header(key, str(value))
        self.end_headers()
        self.wfile.write(body)


def _part(kind: str, body: bytes) -> bytes:
    """Return the file in a form."""
    form: Any = BytesParser().parsebytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body)
    return bytes(next(part.get_payload(decode=True) for part in form.get_payload() if part.get_filename()))


def _run(model: bytes, dataset: bytes, noise: float) -> bytes:
    """Return the outputs of a file for the inputs of a dataset, as a dataset."""
    import h5py
    from ai_edge_litert.interpreter import Interpreter
    from qai_hub.util.dataset_entries_converters import dataset_entries_to_h5, h5_to_dataset_entries

    interpreter = Interpreter(model_content=model)
    interpreter.allocate_tensors()
    outputs, written = [], BytesIO()
    with h5py.File(BytesIO(dataset), "r") as file:
        (arrays,) = h5_to_dataset_entries(file).values()
    for array in arrays:
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], array)
        interpreter.invoke()
        output = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
        outputs.append(output + np.float32(noise) * np.arange(output.size, dtype=np.float32))
    with h5py.File(written, "w") as file:
        dataset_entries_to_h5({"output_0": outputs}, file)
    return written.getvalue()

"""A server on the loopback interface that speaks the protocol of AWS Device Farm, for its real client."""

import json
import os
import subprocess
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.makers.phones import Phone

SECRET = "secret-5f0c-of-the-test"
PRINTED = Path(__file__).parents[1] / "devices" / "adb_printed.txt"
ARN = "arn:aws:devicefarm:us-west-2:123456789012:"
DEVICES = {"Google Pixel 8": ("ANDROID", "ARM64"), "Apple iPhone 15": ("IOS", "ARM64"), "Old": ("ANDROID", "ARM")}


@dataclass
class DeviceFarm:
    """The state of a farm whose only phone is behind the real adb; a test changes it."""

    phone: Phone
    folder: Path
    printed: str = field(default_factory=PRINTED.read_text)  # what the tool prints on the phone
    refusal: tuple[str, str] = ("", "")  # type and message of the answer to every call; empty for none
    status: str = "COMPLETED"  # of each run
    result: str = "PASSED"
    upload: str = "SUCCEEDED"  # status of each upload
    results: bytes = b""  # answer in the place of the results
    files: list[bytes] = field(default_factory=list)  # what was sent
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def run(self) -> None:
        """Run the script that was sent on the host of the phone, and keep what it leaves."""
        package, script = self.files[-2:]
        with zipfile.ZipFile(BytesIO(package)) as archive:
            archive.extractall(self.folder)
        (self.folder / "log").mkdir(exist_ok=True)
        (self.folder / "printed").write_text(self.printed)
        places = {"DEVICEFARM_TEST_PACKAGE_PATH": self.folder, "DEVICEFARM_LOG_DIR": self.folder / "log"}
        names = {name: str(place) for name, place in places.items()}
        for phase in json.loads(script)["phases"].values():
            for command in phase["commands"]:
                environment = {**os.environ, **names, "DEVICEFARM_DEVICE_UDID": self.phone.serial}
                subprocess.run(["bash", "-c", command], env=environment, capture_output=True, check=False)
        if not self.results:
            packed = BytesIO()
            with zipfile.ZipFile(packed, "w") as archive:
                for path in (self.folder / "log").iterdir():
                    archive.write(path, f"Host_Machine_Files/{path.name}")
            self.results = packed.getvalue()

    def answer(self, call: str, asked: dict[str, Any]) -> dict[str, Any]:
        match call:
            case "ListDevices":
                rows = [(f"{name} {number}", name) for number in range(2) for name in DEVICES]
                facts = {name: {"platform": one, "cpu": {"architecture": cpu}} for name, (one, cpu) in DEVICES.items()}
                return {"devices": [{"arn": ARN + arn, "name": name, **facts[name]} for arn, name in rows]}
            case "ListProjects":
                return {"projects": []}
            case "CreateUpload":
                return {"upload": {"arn": f"{ARN}upload:{len(self.files)}", "url": "put"}}
            case "GetUpload":
                return {"upload": {"status": self.upload, "message": "no test inside"}}
            case "ScheduleRun":
                self.run()
            case "ListArtifacts":
                return {"artifacts": [{"type": "VIDEO", "url": "x"}, {"type": "CUSTOMER_ARTIFACT", "url": "get"}]}
        named = {"arn": f"{ARN}{asked.get('name', 'run')}:p/r-1", "status": self.status, "result": self.result}
        return {"run": named, "project": named}


@pytest.fixture
def devicefarm(phone: Phone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DeviceFarm]:
    """A farm, and the client's settings with keys for it."""
    pytest.importorskip("boto3")
    from advisor.devices._connections import clouds

    farm, mirror = DeviceFarm(phone, tmp_path / "host"), tmp_path / "mirror"
    mirror.mkdir()
    tool = f'#!/bin/sh\necho "$@" >> {tmp_path}/called\ncat {tmp_path}/host/printed\n'
    (mirror / "android_aarch64_benchmark_model").write_text(tool)
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"farm": farm})) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_address[1]}")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key-of-the-test")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        monkeypatch.setenv("ADVISOR_MIRROR", str(mirror))
        monkeypatch.setattr("advisor.integrations.clouds._cloud.POLL_S", 0.02)
        clouds.ask_devices.cache_clear()
        yield farm
        server.shutdown()
    clouds.ask_devices.cache_clear()


class _Handler(BaseHTTPRequestHandler):
    farm: DeviceFarm

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def _serve(self) -> None:
        farm, host = self.farm, self.headers["Host"]
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, answer = 200, b""
        if self.command == "PUT":  # at an address that is valid without keys, as those of object stores are
            farm.files.append(body)
        elif self.command == "GET":
            answer = farm.results
        elif farm.refusal[0]:
            status, answer = 400, json.dumps({"__type": farm.refusal[0], "message": farm.refusal[1]}).encode()
        else:
            call, asked = self.headers["X-Amz-Target"].partition(".")[2], json.loads(body)
            farm.calls.append((call, asked))
            text = json.dumps(farm.answer(call, asked))
            answer = text.replace('"url": "', f'"url": "http://{host}/').encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = do_PUT = _serve

"""AWS Device Farm (``devicefarm:NAME``) by AWS's own client ``boto3``,
which keeps the keys in the user's home.

The farm runs tests, and a test may talk to its phone with adb. So a job is a test without an app:
its package holds the ``.tflite`` file and TensorFlow Lite's ``benchmark_model``, and its script
copies both to the phone and runs them.

The client 1.43 makes these calls, all in the only region of the farm, signed with the user's keys:

- ListDevices, ListProjects, and CreateProject for the project :data:`PROJECT` unless there is one;
- CreateUpload for the package and for the script, PUT of each to an address that this names,
  GetUpload until the farm has read it;
- ScheduleRun, and GetRun until the run ends;
- ListArtifacts, and GET of a zip file with what the script wrote from an address that this names.
"""

from __future__ import annotations

import io
import json
import shlex
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any

import requests

from advisor.core import StageError, UsageError, install_extra
from advisor.devices import PhoneTool
from advisor.integrations.clouds import _cloud
from advisor.integrations.clouds._cloud import Cloud, Order, Outcome, RunFigures

TITLE = "AWS Device Farm"

# A lambda, because the class is defined below.
CLOUD = Cloud(TITLE, lambda: DeviceFarmClient())

REGION = "us-west-2"
PROJECT = "advisor"
ABI = "arm64-v8a"
FOLDER = "/data/local/tmp/advisor"
PRINTED = "benchmark_model.txt"
"""The file in which the script keeps what the tool printed."""

UUID_LETTERS = 36

LIMIT_MIN = 15
"""Minutes after which the farm ends a job: it charges for each minute of a phone."""

READ_S = 300.0
"""Seconds that the farm may take to read a package."""

CALL_S = 60.0
"""Seconds that the farm may take to answer."""

MOST_BYTES = 64_000_000
"""Largest zip file of results."""

MOST_PRINTED_BYTES = 4_000_000
"""Bytes that are read of what the tool printed."""

KEYS = "put your keys where the client keeps them: aws configure"
_ABOUT_KEYS = (
    "UnrecognizedClient",
    "InvalidSignature",
    "SignatureDoesNotMatch",
    "ExpiredToken",
    "AccessDenied",
    "InvalidClientTokenId",
    "IncompleteSignature",
    "NoCredentials",
    "PartialCredentials",
    "CredentialRetrieval",
    "ProfileNotFound",
    "TokenRetrieval",
    "UnauthorizedSSOToken",
    "SSOTokenLoad",
)


@dataclass
class DeviceFarmClient:
    """The client of the farm with the user's own settings."""

    # Address and order of each job.
    orders: dict[str, tuple[str, Order]] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    @cached_property
    def session(self) -> Any:
        """The user's keys and settings."""
        try:
            import boto3
        except ImportError as error:
            raise UsageError(
                f"{TITLE} needs its client boto3", install_extra("devicefarm")
            ) from error
        with _translate_errors(()):
            return boto3.Session()

    @cached_property
    def farm(self) -> Any:
        """The calls of the farm."""
        session = self.session
        from botocore.config import Config

        settings = Config(
            retries={"mode": "standard", "max_attempts": 6},
            connect_timeout=10,
            read_timeout=CALL_S,
        )
        with _translate_errors(()):
            return session.client("devicefarm", region_name=REGION, config=settings)

    @cached_property
    def devices(self) -> Mapping[str, list[str]]:
        """The addresses of the phones of each name: one for each version of its system."""
        addresses: dict[str, list[str]] = {}
        with self._explain():
            for page in self.farm.get_paginator("list_devices").paginate():
                for row in page["devices"]:
                    architecture = row.get("cpu", {}).get("architecture", "")
                    # The published tool for the other phones is another one, and they are few.
                    if row["platform"] == "ANDROID" and "64" in architecture:
                        addresses.setdefault(row["name"], []).append(row["arn"])
        return addresses

    def list_devices(self) -> Mapping[str, tuple[str, ...]]:
        """See :class:`advisor.integrations.clouds._cloud.CloudClient`. The farm names no chips."""
        return dict.fromkeys(self.devices, ())

    def submit(self, order: Order) -> str:
        """See :class:`advisor.integrations.clouds._cloud.CloudClient`.
        Images are refused before anything is sent.
        """
        if order.inputs:
            raise UsageError(
                f"{TITLE} times files, and answers no images", "leave --upload-images out"
            )
        # Several threads hand in jobs, and one of them makes the project.
        with self.lock:
            project = self.project
        # The files are made first, because each call below leaves something in the user's account.
        package = _pack(order)
        script = _write_script(order)
        with self._explain():
            # A test of a web page is the kind that needs no app of its own:
            # the farm would refuse a model as one.
            test = {
                "type": "APPIUM_WEB_PYTHON",
                "testPackageArn": self._send(
                    project, "advisor.zip", "APPIUM_WEB_PYTHON_TEST_PACKAGE", package
                ),
                "testSpecArn": self._send(
                    project, "advisor.yml", "APPIUM_WEB_PYTHON_TEST_SPEC", script.encode()
                ),
            }
            chosen = {"attribute": "ARN", "operator": "IN", "values": self.devices[order.device]}
            run = self.farm.schedule_run(
                projectArn=project,
                name=f"{order.unit}, {order.threads} threads",
                test=test,
                deviceSelectionConfiguration={"filters": [chosen], "maxDevices": 1},
                executionConfiguration={"jobTimeoutMinutes": LIMIT_MIN, "videoCapture": False},
            )["run"]
        # The address ends with a UUID. It begins with the number of the user's account,
        # which no report needs.
        job = str(run["arn"]).rpartition("/")[2][-UUID_LETTERS:]
        self.orders[job] = (run["arn"], order)
        return job

    @cached_property
    def project(self) -> str:
        """The address of the project of our jobs, which is made at the first one."""
        with self._explain():
            for page in self.farm.get_paginator("list_projects").paginate():
                for row in page["projects"]:
                    if row["name"] == PROJECT:
                        return str(row["arn"])
            return str(self.farm.create_project(name=PROJECT)["project"]["arn"])

    def ask_state(self, job: str) -> str:
        """See :class:`advisor.integrations.clouds._cloud.CloudClient`."""
        with self._explain():
            run = self.farm.get_run(arn=self.orders[job][0])["run"]
        state = str(run.get("status", "UNKNOWN"))
        if state != "COMPLETED":
            return state.lower().replace("_", " ")
        # A script that failed has printed why, which says more than the result.
        if run.get("result") not in ("PASSED", "WARNED", "FAILED"):
            result = str(run.get("result", "ended without a result")).lower()
            reason = run.get("message", "without a reason")
            raise StageError(f"{TITLE}: the job {job} {_plain(f'{result}: {reason}')}")
        return ""

    def fetch(self, job: str) -> Outcome:
        """See :class:`advisor.integrations.clouds._cloud.CloudClient`."""
        address, order = self.orders[job]
        with self._explain():
            pages = self.farm.get_paginator("list_artifacts").paginate(arn=address, type="FILE")
            urls = []
            for page in pages:
                for row in page["artifacts"]:
                    if row["type"] == "CUSTOMER_ARTIFACT":
                        urls.append(row["url"])
            text = ""
            for url in urls:
                text = text or _read_printed(url)
        if not text:
            raise StageError(f"{TITLE}: the job {job} failed: its phone printed nothing")
        return read_printed(text, order)

    def _send(self, project: str, name: str, kind: str, content: bytes) -> str:
        """Send a file, wait until the farm has read it, and return its address there."""
        upload = self.farm.create_upload(projectArn=project, name=name, type=kind)["upload"]
        with _without_address("the file is not sent"):
            requests.put(upload["url"], data=content, timeout=CALL_S).raise_for_status()
        ends_at = time.monotonic() + READ_S
        while True:
            state = self.farm.get_upload(arn=upload["arn"])["upload"]
            if state["status"] == "SUCCEEDED":
                return str(upload["arn"])
            if state["status"] == "FAILED":
                said = state.get("message") or state.get("metadata") or "without a reason"
                raise StageError(f"{TITLE}: {name} is refused: {_plain(said)}")
            if time.monotonic() > ends_at:
                raise StageError(f"{TITLE}: {name} is not read after {READ_S:.0f} s")
            time.sleep(min(_cloud.POLL_S, 2.0))

    @contextmanager
    def _explain(self) -> Iterator[None]:
        with _translate_errors(()):
            keys = self.session.get_credentials()
            secrets = (keys.access_key, keys.secret_key, keys.token) if keys else ()
        with _translate_errors(tuple(filter(None, secrets))):
            yield


def read_printed(text: str, order: Order) -> Outcome:
    """Return what the tool printed on the phone.

    Raises:
        StageError: it ran nothing there, or printed no timings.
    """
    timing = PhoneTool.read(text, order.file, order.threads, order.unit)
    # The tool prints a 95th percentile, and no 90th.
    runs = RunFigures(timing.median_ms, timing.first_ms, timing.runs, None)
    operators = timing.details["operators"] if order.unit == "cpu" else ()
    placed = timing.details["delegated"] if order.unit != "cpu" else None
    return Outcome(
        runs=runs,
        load_ms=timing.load_ms,
        memory_bytes=timing.memory_bytes,
        operators=[{**operator, "unit": "cpu"} for operator in operators],
        placed=placed,
    )


def _pack(order: Order) -> bytes:
    """Return the package: the model, the tool, and what the farm expects in such a test."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("requirements.txt", "")
        archive.writestr("tests/test_file.py", "def test_file():\n    pass\n")
        archive.write(PhoneTool.fetch(ABI), "benchmark_model")
        archive.write(order.file, "model.tflite")
    return packed.getvalue()


def _write_script(order: Order) -> str:
    """Return the script of the test: YAML, of which JSON is a part."""
    tool = PhoneTool.arguments(
        f"{FOLDER}/benchmark_model", f"{FOLDER}/model.tflite", order.threads, order.unit
    )
    command = f"chmod 700 {FOLDER}/benchmark_model && {shlex.join(tool)} 2>&1"
    adb = 'adb -s "$DEVICEFARM_DEVICE_UDID"'
    package = "$DEVICEFARM_TEST_PACKAGE_PATH"
    commands = [
        f"{adb} shell mkdir -p {FOLDER}",
        f'{adb} push "{package}/benchmark_model" "{package}/model.tflite" {FOLDER}/',
        f'{adb} shell {shlex.quote(command)} > "$DEVICEFARM_LOG_DIR/{PRINTED}"',
    ]
    # The farm cleans its phones, but only after a while.
    phases = {
        "test": {"commands": commands},
        "post_test": {"commands": [f"{adb} shell rm -rf {FOLDER}"]},
    }
    spec = {
        "version": 0.1,
        "android_test_host": "amazon_linux_2",
        "phases": phases,
        "artifacts": ["$DEVICEFARM_LOG_DIR"],
    }
    return json.dumps(spec, indent=1)


def _read_printed(url: str) -> str:
    """Return what the script kept in a zip file of the farm; empty if it is not there."""
    with (
        _without_address("the results cannot be fetched"),
        requests.get(url, stream=True, timeout=CALL_S) as answer,
    ):
        answer.raise_for_status()
        content = bytearray()
        for part in answer.iter_content(1 << 16):
            content += part
            if len(content) > MOST_BYTES:
                raise StageError(
                    f"{TITLE}: invalid response: the results are larger than {MOST_BYTES:,} bytes"
                )
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for member in archive.infolist():
                if member.filename.rpartition("/")[2] == PRINTED:
                    with archive.open(member) as file:
                        return file.read(MOST_PRINTED_BYTES).decode(errors="replace")
    except (
        zipfile.BadZipFile,
        NotImplementedError,
        RuntimeError,
        EOFError,
        ValueError,
        OSError,
    ) as problem:
        raise StageError(
            f"{TITLE}: invalid response: the results are no zip file: {problem}"
        ) from None
    return ""


@contextmanager
def _without_address(what: str) -> Iterator[None]:
    """Turn errors of a transfer into ours without its address, which is valid without keys."""
    try:
        yield
    except requests.RequestException as error:
        status = getattr(error.response, "status_code", None)
        reason = f"status {status}" if status else type(error).__name__
        raise StageError(f"{TITLE}: {what}: {reason}") from None


@contextmanager
def _translate_errors(secrets: tuple[str, ...]) -> Iterator[None]:
    """Turn the client's errors into ours, in one line and without keys."""
    try:
        yield
    except (UsageError, StageError):
        raise
    except Exception as error:
        # The client raises its own errors, those of botocore, and those of a changed response.
        message = _plain(str(error) or type(error).__name__)
        for secret in secrets:
            message = message.replace(secret, "(key)")
        # An error of the connection, such as a time that ran out, has a response that is None.
        response = getattr(error, "response", None) or {}
        code = response.get("Error", {}).get("Code", type(error).__name__)
        if isinstance(error, KeyError):
            raise StageError(f"{TITLE}: invalid response: it lacks {message}") from None
        # The cause is left out, because a traceback would show the client's message with the keys.
        if any(part in code for part in _ABOUT_KEYS):
            raise UsageError(f"{TITLE}: {message}", KEYS) from None
        raise StageError(f"{TITLE}: {message}") from None


def _plain(text: str) -> str:
    return " ".join(str(text).split())[:400]

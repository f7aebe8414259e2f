"""Qualcomm AI Hub (``aihub:NAME``) by its own client ``qai-hub``,
which keeps the token in the user's home.

The client 0.56 makes these calls below ``/api/v1/``, each with ``Authorization: token ...`` and
with messages of its module ``public_api_pb2``:

- GET ``devices/``;
- POST ``models/``, GET ``models/ID/multipart_upload/``, PUT of each part to an address that this
  names, POST ``models/ID/multipart_upload/``;
- POST ``datasets/``, GET ``datasets/ID/upload_url/``, POST of an HDF5 file as a form to the
  address that this names, PATCH ``datasets/ID/``;
- POST ``jobs/`` with an ``inference_job``, GET ``jobs/ID/`` and ``jobs/ID/result/``;
- GET ``datasets/ID/`` and ``datasets/ID/download_data/``, GET of the address that this names.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from advisor.core import StageError, UsageError, install_extra
from advisor.integrations.clouds._cloud import Cloud, Order, Outcome, RunFigures

TITLE = "Qualcomm AI Hub"

# A lambda, because the class is defined below.
CLOUD = Cloud(TITLE, lambda: AiHubClient())

TAKES_TFLITE = "framework:tflite"
CHIP = "chipset:"
"""Attributes of a device that runs ``.tflite`` files as they are,
and the beginning of the one with its chip.
"""

TOKEN = "put a token where the client keeps it: qai-hub configure --api_token TOKEN"  # noqa: S105 -- it is a hint
_ABOUT_TOKEN = (
    "Failed to authenticate",
    "client configuration file",
    "configuration file",
    "API token",
)
_FRAME = str.maketrans("", "", "┌┐└┘─│|")


@dataclass
class AiHubClient:
    """The client of AI Hub with the user's own settings."""

    jobs: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def hub(self) -> Any:
        """The client, which prints nothing."""
        try:
            import qai_hub
        except ImportError as error:
            raise UsageError(
                f"{TITLE} needs its client qai-hub", install_extra("aihub")
            ) from error
        # Their lines at the level "info" contain addresses that are valid without a token.
        for name in ("api_utils", "LogRetry", "backoff"):
            logging.getLogger(name).setLevel(logging.WARNING)
        client = qai_hub.Client()
        with _explained(""):
            client.set_verbose(False)
        return client

    def list_devices(self) -> Mapping[str, tuple[str, ...]]:
        """See :class:`advisor.integrations.clouds._cloud.CloudClient`."""
        devices: dict[str, tuple[str, ...]] = {}
        with self._explain():
            for device in self.hub.get_devices():
                if TAKES_TFLITE not in device.attributes:
                    continue
                # A device is listed once for each version of its system.
                chips = list(devices.get(device.name, ()))
                for name in device.attributes:
                    if name.startswith(CHIP):
                        chips.append(name.removeprefix(CHIP))
                devices[device.name] = tuple(dict.fromkeys(chips))
        return devices

    def submit(self, order: Order) -> str:
        """See :class:`advisor.integrations.clouds._cloud.CloudClient`."""
        options = f"--compute_unit {order.unit}"
        if order.unit == "cpu":
            options += f" --tflite_options number_of_threads={order.threads}"
        with self._explain():
            from qai_hub import Device

            inputs = {order.input_name: list(order.inputs)} if order.inputs else None
            job = self.hub.submit_inference_job(
                model=str(order.file),
                device=Device(order.device),
                inputs=inputs,
                options=options,
                retry=False,  # the client would print, and wait for an hour
                profile=True,
            )
        self.jobs[job.job_id] = job
        return str(job.job_id)

    def ask_state(self, job: str) -> str:
        """See :class:`advisor.integrations.clouds._cloud.CloudClient`."""
        with self._explain():
            status = self.jobs[job].get_status()
        if status.failure:
            raise StageError(
                f"{TITLE}: the job {job} failed: {_plain(status.message or 'without a reason')}"
            )
        return "" if status.success else status.code.lower().replace("_", " ")

    def fetch(self, job: str) -> Outcome:
        """See :class:`advisor.integrations.clouds._cloud.CloudClient`."""
        finished = self.jobs[job]
        with self._explain():
            profile = finished.download_profile()
            outputs = finished.download_output_data() if finished.inputs is not None else {}
        try:
            return read_profile(profile, outputs or {})
        except (KeyError, TypeError, ValueError) as problem:
            raise StageError(
                f"{TITLE}: invalid response: the profile of the job {job} lacks {problem}"
            ) from problem

    @contextmanager
    def _explain(self) -> Iterator[None]:
        with _explained(self.hub.config.api_token):
            yield


def read_profile(profile: Mapping[str, Any], outputs: Mapping[str, Sequence[Any]]) -> Outcome:
    """Return what the client's profile of a job says; its times are in microseconds.

    Raises:
        KeyError, TypeError, ValueError: the document is another one.
    """
    summary = profile["execution_summary"]
    runs = summary.get("all_inference_times") or [summary["estimated_inference_time"]]
    increase = summary.get("inference_memory_increase_range")
    memory = increase[1] if increase else summary.get("estimated_inference_peak_memory")
    operators = []
    for layer in profile["execution_detail"]:
        operator = {
            "kind": layer["type"],
            "name": layer["name"],
            "unit": layer["compute_unit"].lower(),
            "mean_ms": layer["execution_time"] / 1e3 if "execution_time" in layer else None,
        }
        operators.append(operator)
    return Outcome(
        runs=RunFigures.of([run_us / 1e3 for run_us in runs]),
        load_ms=(summary.get("warm_load_time") or summary.get("first_load_time") or 0) / 1e3,
        memory_bytes=int(memory) if memory else None,
        operators=operators,
        outputs=list(zip(*outputs.values(), strict=True)),
    )


@contextmanager
def _explained(token: str) -> Iterator[None]:
    """Turn the client's errors into ours, in one line and without the token."""
    try:
        yield
    except (UsageError, StageError):
        raise
    except Exception as error:
        # The client raises its own errors, and those of requests, protobuf, h5py and botocore.
        message = _plain(str(error) or type(error).__name__)
        if token:
            message = message.replace(token, "(token)")
        # Raised without the cause: a traceback would show the client's message with the token.
        if any(part in message for part in _ABOUT_TOKEN):
            raise UsageError(f"{TITLE}: {message}", TOKEN) from None
        raise StageError(f"{TITLE}: {message}") from None


def _plain(text: str) -> str:
    """Return a message of the client, which it writes into a frame of several lines,
    as one line.
    """
    return " ".join(text.translate(_FRAME).split())[:400]

"""Describe devices, predict latency and memory on them, and connect to real ones.

::

    import advisor
    for profile in advisor.devices.list_devices():
        print(profile.name, profile.soc)

``list_devices``, ``show``, ``add``, ``add_phone``, ``remove``, ``calibrate`` and ``to_frame`` are
public functions; the other names are for other rooms. Read ``_profiles/values.py`` first (a device
as a value), then ``_prediction.py`` with ``_latency/``, and ``_connections/protocol.py``.
"""

from typing import TYPE_CHECKING

from advisor._faces import open_face

if TYPE_CHECKING:
    from advisor.devices._calibration.calibrating import Calibrated
    from advisor.devices._connections.agent import (
        read_document,
        timings_of_agent,
    )
    from advisor.devices._connections.benchmark_model import PhoneTool
    from advisor.devices._connections.exports import compare_export
    from advisor.devices._connections.host import HostConnection
    from advisor.devices._connections.protocol import (
        Connection,
        MeasurementJob,
        NotOnUnit,
        Timing,
        lock_device,
    )
    from advisor.devices._connections.runtime_files import (
        RuntimeFile,
        exporter_for,
        keep_export,
        needs_export,
    )
    from advisor.devices._connections.settings import ConnectionSettings
    from advisor.devices._connections.ssh import SshConnection
    from advisor.devices._doubts import describe_doubts
    from advisor.devices._latency.features import (
        ModelFeatures,
        load_features,
        read_features,
    )
    from advisor.devices._latency.prediction import Prediction
    from advisor.devices._latency.table import target_vector
    from advisor.devices._memory import predict_memory_on
    from advisor.devices._phone import AddedPhone, UnitTiming
    from advisor.devices._prediction import Predictor
    from advisor.devices._profiles import listing
    from advisor.devices._profiles.cores import arm_cores
    from advisor.devices._profiles.file_kind import FileKind
    from advisor.devices._profiles.loading import Profiles, prefer_tflite
    from advisor.devices._profiles.measurement import Measurement
    from advisor.devices._profiles.measurements import CALIBRATED, PRECISIONS, SOURCE
    from advisor.devices._profiles.phone_names import SeveralPhones
    from advisor.devices._profiles.phones import device_names, find_phone, phone_remarks
    from advisor.devices._profiles.reading import find_shipped_fleets, find_shipped_profiles
    from advisor.devices._profiles.runtimes import (
        LITERT,
        LocalRuntime,
        PackagedRuntime,
        canonical,
        find_version,
        local_runtimes,
        on_this_machine,
        require_runtime,
        runtime_of,
        title_of,
    )
    from advisor.devices._profiles.socs import Soc, clusters_of
    from advisor.devices._profiles.storing import NewDevice, load_known_devices
    from advisor.devices._profiles.this_machine import host_profile
    from advisor.devices._profiles.values import (
        HOST,
        NAME_PATTERN,
        WEB_RUNTIME,
        Cluster,
        DeviceProfile,
        DeviceTarget,
        runtime_remark,
    )
    from advisor.devices._public import (
        add,
        add_phone,
        calibrate,
        list_devices,
        remove,
        show,
        to_frame,
    )
    from advisor.devices._runtime_packages import parse_runtime
else:
    __getattr__, __dir__ = open_face(__name__)

__all__ = [
    "CALIBRATED",
    "HOST",
    "LITERT",
    "NAME_PATTERN",
    "PRECISIONS",
    "SOURCE",
    "WEB_RUNTIME",
    "AddedPhone",
    "Calibrated",
    "Cluster",
    "Connection",
    "ConnectionSettings",
    "DeviceProfile",
    "DeviceTarget",
    "FileKind",
    "HostConnection",
    "LocalRuntime",
    "Measurement",
    "MeasurementJob",
    "ModelFeatures",
    "NewDevice",
    "NotOnUnit",
    "PackagedRuntime",
    "PhoneTool",
    "Prediction",
    "Predictor",
    "Profiles",
    "RuntimeFile",
    "SeveralPhones",
    "Soc",
    "SshConnection",
    "Timing",
    "UnitTiming",
    "add",
    "add_phone",
    "arm_cores",
    "calibrate",
    "canonical",
    "clusters_of",
    "compare_export",
    "describe_doubts",
    "device_names",
    "exporter_for",
    "find_phone",
    "find_shipped_fleets",
    "find_shipped_profiles",
    "find_version",
    "host_profile",
    "keep_export",
    "list_devices",
    "listing",
    "load_features",
    "load_known_devices",
    "local_runtimes",
    "lock_device",
    "needs_export",
    "on_this_machine",
    "parse_runtime",
    "phone_remarks",
    "predict_memory_on",
    "prefer_tflite",
    "read_document",
    "read_features",
    "remove",
    "require_runtime",
    "runtime_of",
    "runtime_remark",
    "show",
    "target_vector",
    "timings_of_agent",
    "title_of",
    "to_frame",
]

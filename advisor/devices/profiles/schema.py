"""Validate ``device_profiles/*.yaml`` against its schema."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from advisor.core.errors import Problems, UsageError, nearest
from advisor.core.units import size_bytes
from advisor.devices.connections.adb import check_serial
from advisor.devices.connections.settings import ConnectionSettings
from advisor.devices.connections.ssh import check_destination, check_interpreter
from advisor.devices.profiles.cores import core_named
from advisor.devices.profiles.measurements import PRECISIONS, check_version
from advisor.devices.profiles.validation import FileKind
from advisor.devices.profiles.values import KINDS, NAME_PATTERN, Cluster, DeviceLimits, DeviceProfile, DeviceTarget
from advisor.store.yamlfile import YamlDocument

ACCELERATORS = ("cpu", "gpu", "npu", "tpu")
_LINE = r"^[^\x00-\x1f\x7f]*$"


def _size(value: object) -> int:
    """Return a size in bytes; refuse a number without a unit."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r} has no unit: write for example 512KiB")
    try:
        return size_bytes(value, "size")
    except UsageError as error:
        raise ValueError(error.message) from error


def _listed(valid: tuple[str, ...]) -> BeforeValidator:
    def check(value: object) -> object:
        if value not in valid:
            raise ValueError(f"'{value}' is not one of {', '.join(valid)}{nearest(str(value), valid)}")
        return value

    return BeforeValidator(check, json_schema_input_type=Literal[valid])


Size = Annotated[int, Field(gt=0), BeforeValidator(_size, json_schema_input_type=str)]
Name = Annotated[str, Field(pattern=NAME_PATTERN)]
Text = Annotated[str, Field(max_length=300, pattern=_LINE)]


Version = Annotated[str, Field(max_length=60), AfterValidator(check_version)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _core(value: object) -> object:
    """Refuse a core that is not known."""
    try:
        if isinstance(value, str):
            core_named(value)
    except UsageError as error:
        raise ValueError(f"{error.message}; {error.hint}") from error
    return value


class ClusterSchema(_Strict):
    """A group of equal cores."""

    core: Annotated[Text, BeforeValidator(_core)]
    count: Annotated[int, Field(ge=1, le=1024)]
    max_mhz: Annotated[int, Field(ge=1, le=10_000)] | None = None


class LimitsSchema(_Strict):
    """Hard limits, with units.

    Attributes:
        arena: memory for activations (the RAM of a microcontroller), such as 512KiB.
        flash: storage for the model, such as 2MB.
        package: size of the application that an app store or a team allows, such as 100MB.
    """

    arena: Size | None = None
    flash: Size | None = None
    package: Size | None = None


class TargetSchema(_Strict):
    """One way to run a model."""

    name: Name
    runtime: Name
    version: Version = ""
    accelerator: Annotated[str, _listed(ACCELERATORS)]
    threads: Annotated[int, Field(ge=1, le=1024)] = 1
    precisions: Annotated[list[Annotated[str, _listed(PRECISIONS)]], Field(min_length=1)]
    operators: list[Text] = []


class ConnectionSchema(_Strict):
    """The connection to the device; docs/security.md says what each key may contain.

    There is no key for a password, because ssh uses its own keys. There is none for a configuration file, identity or
    proxy of ssh either: profiles are shared, and such a file can run commands on the user's machine.
    """

    ssh: Text = ""
    adb: Text = ""
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    python: Text = "python3"
    benchmark_model: Text = ""
    cores: Annotated[str, Field(pattern=r"^[0-9a-fA-F]{0,8}$")] = ""


class ProfileSchema(_Strict):
    """One device.

    Attributes:
        memory: RAM, such as 4GB.
        storage: storage, such as 32GB.
    """

    name: Name
    title: Text
    kind: Annotated[str, _listed(KINDS)]
    soc: Text
    isa: Text = ""
    npu: Text = ""
    cores: list[ClusterSchema] = []
    memory: Size | None = None
    storage: Size | None = None
    limits: LimitsSchema = LimitsSchema()
    targets: Annotated[list[TargetSchema], Field(min_length=1)]
    default_target: Name
    connection: ConnectionSchema | None = None
    sources: list[Text] = []


_PROFILE = FileKind(
    "profile",
    ProfileSchema,
    {"targets": TargetSchema, "cores": ClusterSchema, "limits": LimitsSchema, "connection": ConnectionSchema},
    "see docs/devices.md for an example",
)


def profile_from(document: YamlDocument) -> DeviceProfile:
    """Validate a document and return its profile, without measurements.

    Raises:
        UsageError: the document does not match the schema; the error names file and line.
    """
    data = _PROFILE.validated(document)
    problems = Problems()
    for error in (*_target_errors(data, document), *_connection_errors(data, document)):
        problems.add(error)
    problems.raise_any()
    return _profile(data, document)


def _connection_errors(data: ProfileSchema, document: YamlDocument) -> Iterator[UsageError]:
    connection = data.connection
    if connection is None:
        return
    if bool(connection.ssh) == bool(connection.adb):
        yield UsageError(
            f"{document.at(('connection',))}: a connection needs either ssh or adb", "write one of the two"
        )
    if connection.benchmark_model and not Path(connection.benchmark_model).expanduser().is_absolute():
        yield UsageError(
            f"{document.at(('connection', 'benchmark_model'))}: connection.benchmark_model: "
            f"'{connection.benchmark_model}' lies beside the profile",
            "the phone runs this program, so name a place of your own: ~/tools/benchmark_model",
        )
    checks = {"ssh": check_destination, "python": check_interpreter, "adb": check_serial}
    for key, check in checks.items():
        value = getattr(connection, key)
        try:
            if value:
                check(value)
        except UsageError as error:
            yield UsageError(f"{document.at(('connection', key))}: connection.{key}: {error.message}", error.hint)


def _target_errors(data: ProfileSchema, document: YamlDocument) -> Iterator[UsageError]:
    names = [target.name for target in data.targets]
    for index, name in enumerate(names):
        if name in names[:index]:
            yield UsageError(
                f"{document.at(('targets', index, 'name'))}: the target '{name}' is defined twice",
                "remove or rename one of them",
            )
    if data.default_target not in names:
        yield UsageError(
            f"{document.at(('default_target',))}: there is no target '{data.default_target}'"
            f"{nearest(data.default_target, names)}",
            f"targets: {', '.join(names)}",
        )


def _profile(data: ProfileSchema, document: YamlDocument) -> DeviceProfile:
    return DeviceProfile(
        **data.model_dump(include={"name", "title", "kind", "soc", "isa", "npu", "default_target"}),
        cores=tuple(Cluster(**cluster.model_dump()) for cluster in data.cores),
        memory_bytes=data.memory,
        storage_bytes=data.storage,
        limits=DeviceLimits(data.limits.arena, data.limits.flash, data.limits.package),
        targets=tuple(
            DeviceTarget(
                t.name, t.runtime, t.accelerator, t.threads, t.version, tuple(t.precisions), tuple(t.operators)
            )
            for t in data.targets
        ),
        connection=_connection(data.connection) if data.connection else None,
        sources=tuple(data.sources),
        origin=document.path,
    )


def _connection(data: ConnectionSchema) -> ConnectionSettings:
    binary = Path(data.benchmark_model).expanduser() if data.benchmark_model else None
    return ConnectionSettings(**{**data.model_dump(), "benchmark_model": binary})

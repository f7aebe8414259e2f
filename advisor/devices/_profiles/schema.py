"""The schema of ``device_profiles/*.yaml``, and the profile that a valid file describes.

The keys are a format that teams write by hand. A new key needs a default; the keys of a connection
follow from ``_connections/ways.py``.
"""

import os
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    create_model,
)

from advisor.core import Problems, UsageError, nearest, units
from advisor.devices._connections.settings import ConnectionSettings
from advisor.devices._connections.ssh import check_interpreter
from advisor.devices._connections.ways import WAYS
from advisor.devices._profiles.cores import core_named
from advisor.devices._profiles.file_kind import FileKind
from advisor.devices._profiles.measurements import PRECISIONS, check_version
from advisor.devices._profiles.socs import cpu_targets, find_soc, instruction_set, title_with_maker
from advisor.devices._profiles.values import (
    KERNELS,
    KINDS,
    MICRO_RUNTIME,
    NAME_PATTERN,
    Cluster,
    DeviceLimits,
    DeviceProfile,
    DeviceTarget,
)
from advisor.store import YamlDocument, shipped_folder

_LOWEST_MHZ = 5  # No core here is slower; a clock of 3 is one in GHz
_HIGHEST_MHZ = 8_000  # No processor is sold with more; a clock of 10 GHz is a typing error
ACCELERATORS = ("cpu", "gpu", "npu", "tpu")
# The designs of microcontrollers, which run TensorFlow Lite Micro.
_MICROCONTROLLERS = ("Cortex-M", "Xtensa")
_LINE = r"^[^\x00-\x1f\x7f]*$"


def _parse_size(value: object) -> int:
    """Return a size in bytes; refuse a number without a unit."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r} has no unit: write for example 512KiB")
    try:
        return units.size_bytes(value, "size")
    except UsageError as error:
        raise ValueError(error.message) from error


def _require_listed(valid: tuple[str, ...]) -> BeforeValidator:
    def check(value: object) -> object:
        if value not in valid:
            raise ValueError(
                f"'{value}' is not one of {', '.join(valid)}{nearest(str(value), valid)}"
            )
        return value

    return BeforeValidator(check, json_schema_input_type=Literal[valid])


Size = Annotated[int, Field(gt=0), BeforeValidator(_parse_size, json_schema_input_type=str)]
Name = Annotated[str, Field(pattern=NAME_PATTERN)]
Text = Annotated[str, Field(max_length=300, pattern=_LINE)]
Version = Annotated[str, Field(max_length=60), AfterValidator(check_version)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _require_core(value: object) -> object:
    """Refuse a core that is not known."""
    try:
        if isinstance(value, str):
            core_named(value)
    except UsageError as error:
        raise ValueError(f"{error.message}; {error.hint}") from error
    return value


def _require_clock(value: object) -> object:
    """Refuse what is no clock in MHz: people write GHz, and mistype digits."""
    if not isinstance(value, int) or not _LOWEST_MHZ <= value <= _HIGHEST_MHZ:
        raise ValueError(
            f"not a clock in MHz from {_LOWEST_MHZ} to {_HIGHEST_MHZ}: write 2400 for 2.4 GHz, or"
            " leave the key out"
        )
    return value


Megahertz = Annotated[int, Field(ge=_LOWEST_MHZ, le=_HIGHEST_MHZ)]
# The schema for editors has the limits, too.
Clock = Annotated[int, BeforeValidator(_require_clock, json_schema_input_type=Megahertz)]


class ClusterSchema(_Strict):
    """A group of equal cores."""

    core: Annotated[Text, BeforeValidator(_require_core)]
    count: Annotated[int, Field(ge=1, le=1024)]
    max_mhz: Clock | None = None


class LimitsSchema(_Strict):
    """Hard limits, with units."""

    #: memory for activations (the RAM of a microcontroller), such as 512KiB
    arena: Size | None = None
    flash: Size | None = None  #: storage for the model, such as 2MB
    #: size of the application that an app store or a team allows, such as 100MB
    package: Size | None = None


class TargetSchema(_Strict):
    """One way to run a model."""

    name: Name
    runtime: Name
    version: Version = ""
    accelerator: Annotated[str, _require_listed(ACCELERATORS)]
    threads: Annotated[int, Field(ge=1, le=1024)] = 1
    precisions: Annotated[list[Annotated[str, _require_listed(PRECISIONS)]], Field(min_length=1)]
    operators: list[Text] = []
    kernels: Annotated[str, _require_listed(KERNELS)] = ""


def _describe_addresses() -> Any:
    """Return a schema with a key for each way to a device: a new way needs no line here."""
    keys: Any = {}
    for key, way in WAYS.items():
        keys[key] = (Annotated[Text, Field(description=f"{way.address}.")], "")
    return create_model("_Addresses", __base__=_Strict, **keys)


class ConnectionSchema(_describe_addresses()):  # type: ignore[misc]
    """The connection to the device: an address, and what runs there.

    There is no key for a password, because ssh uses its own keys. There is none for a
    configuration file, identity or proxy of ssh either: profiles are shared, and such a file can
    run commands on the user's machine.
    """

    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    python: Text = "python3"
    benchmark_model: Text = ""
    cores: Annotated[str, Field(pattern=r"^[0-9a-fA-F]{0,8}$")] = ""


class ProfileSchema(_Strict):
    """One device. The name and the cores, or the name and a known SoC, are enough."""

    name: Name
    title: Text = ""  #: its name as people read it; by default its name
    #: by default what the connection or the cores tell, else a phone
    kind: Annotated[str, _require_listed(KINDS)] = ""
    soc: Text = ""  #: system on chip; by default the name of the device
    isa: Text = ""
    npu: Text = ""
    cores: list[ClusterSchema] = []
    memory: Size | None = None  #: RAM, such as 4GB
    storage: Size | None = None  #: storage, such as 32GB
    limits: LimitsSchema = LimitsSchema()
    #: the ways to run a model; by default LiteRT on the CPU with 1, 2 and 4 threads,
    #: if the cores are known
    targets: Annotated[list[TargetSchema], Field(min_length=1)] | None = None
    #: what the device's name alone means; by default the last of the targets
    default_target: Name | None = None
    connection: ConnectionSchema | None = None
    sources: list[Text] = []


@cache
def _describe_profile_file() -> FileKind[ProfileSchema]:
    """Return how a file of a profile is validated."""
    return FileKind(
        "profile",
        ProfileSchema,
        {
            "targets": TargetSchema,
            "cores": ClusterSchema,
            "limits": LimitsSchema,
            "connection": ConnectionSchema,
        },
        f"see the files of {shipped_folder('device_profiles')} for examples",
    )


def profile_from(document: YamlDocument) -> DeviceProfile:
    """Validate a document and return its profile, without measurements;
    the UsageError names file and line.
    """
    data = _describe_profile_file().validate_file(document)
    problems = Problems()
    cores = tuple(Cluster(**cluster.model_dump()) for cluster in data.cores)
    # A known SoC fills in what the file leaves out.
    # A file that states targets or cores is taken as it is.
    soc = find_soc(data.soc) if data.targets is None and not cores else None
    cores = soc.cores if soc else cores
    kind = data.kind or _infer_kind(data, cores)
    targets = _targets_of(data, kind, cores)
    for error in (*_target_errors(data, targets, document), *_connection_errors(data, document)):
        problems.add(error)
    problems.raise_any()
    connection = None
    if data.connection:
        binary = _path_of_program(data.connection)
        stated = data.connection.model_dump()
        ((way, address),) = [(key, stated.pop(key)) for key in WAYS if stated[key]]
        options = {key: value for key, value in stated.items() if key not in WAYS}
        connection = ConnectionSettings(way, address, **{**options, "benchmark_model": binary})
    soc_title = title_with_maker(soc.maker, data.soc) if soc else data.soc or data.name
    return DeviceProfile(
        name=data.name,
        title=data.title or data.name,
        kind=kind,
        is_kind_assumed=not data.kind,
        soc=soc_title,
        isa=data.isa or (instruction_set(cores) if data.targets is None else ""),
        npu=data.npu,
        default_target=data.default_target or targets[-1].name,
        cores=cores,
        memory_bytes=data.memory,
        storage_bytes=data.storage,
        limits=DeviceLimits(data.limits.arena, data.limits.flash, data.limits.package),
        targets=targets,
        connection=connection,
        sources=tuple(data.sources),
        origin=document.path,
    )


def _infer_kind(data: ProfileSchema, cores: Sequence[Cluster]) -> str:
    """Return the kind of a device whose file states none."""
    if cores and all(core_named(core.core).name.startswith(_MICROCONTROLLERS) for core in cores):
        return "microcontroller"
    if cores and instruction_set(cores) == "x86-64":
        return "computer"
    if data.connection and data.connection.model_dump()["ssh"]:
        return "board"
    return "phone"


def _targets_of(
    data: ProfileSchema, kind: str, cores: Sequence[Cluster]
) -> tuple[DeviceTarget, ...]:
    """Return the targets of a profile: those that it states, or those of its cores;
    none without either.
    """
    if data.targets is None and kind == "microcontroller":
        return (DeviceTarget("tflm", MICRO_RUNTIME, "cpu", precisions=("int8",)),)
    if data.targets is None:
        return cpu_targets(cores) if cores else ()
    targets = []
    for stated in data.targets:
        entries = stated.model_dump()
        entries |= {"precisions": tuple(stated.precisions), "operators": tuple(stated.operators)}
        targets.append(DeviceTarget(**entries))
    return tuple(targets)


def _path_of_program(connection: ConnectionSchema) -> Path | None:
    """Return the path here of the program that a phone runs; None if the profile names none."""
    if not connection.benchmark_model:
        return None
    return Path(os.path.expanduser(connection.benchmark_model))  # noqa: PTH111 -- an unknown user is no error


def _connection_errors(data: ProfileSchema, document: YamlDocument) -> Iterator[UsageError]:
    connection = data.connection
    if connection is None:
        return
    if len([key for key in WAYS if getattr(connection, key)]) != 1:
        yield UsageError(
            f"{document.at(('connection',))}: a connection needs either {' or '.join(WAYS)}",
            "write one of them",
        )
    binary = _path_of_program(connection)
    # A profile from somebody else could bring its own program, which would then run on the phone.
    if binary is not None and not binary.is_absolute():
        yield UsageError(
            f"{document.at(('connection', 'benchmark_model'))}: connection.benchmark_model: "
            f"'{connection.benchmark_model}' lies beside the profile",
            "the phone runs this program, so name a place of your own: ~/tools/benchmark_model",
        )
    checks = {**{key: way.check for key, way in WAYS.items()}, "python": check_interpreter}
    for key, check in checks.items():
        value = getattr(connection, key)
        try:
            if value:
                check(value)
        except UsageError as error:
            yield UsageError(
                f"{document.at(('connection', key))}: connection.{key}: {error.message}",
                error.hint,
            )


def _target_errors(
    data: ProfileSchema, targets: Sequence[DeviceTarget], document: YamlDocument
) -> Iterator[UsageError]:
    if not targets:
        yield UsageError(
            f"{document.at()}: the key 'targets' is missing, and neither cores nor a known soc"
            " give them",
            "add the cores, such as cores: [{core: Cortex-A76, count: 4, max_mhz: 2400}]",
        )
        return
    names = [target.name for target in targets]
    for index, name in enumerate(names):
        if name in names[:index]:
            yield UsageError(
                f"{document.at(('targets', index, 'name'))}: the target '{name}' is defined twice",
                "remove or rename one of them",
            )
    if data.default_target is not None and data.default_target not in names:
        yield UsageError(
            f"{document.at(('default_target',))}: there is no target '{data.default_target}'"
            f"{nearest(data.default_target, names)}",
            f"targets: {', '.join(names)}",
        )

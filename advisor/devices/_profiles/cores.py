"""The known designs of CPU cores with their arithmetic per cycle, from ``cores.yaml``.

Profiles name cores in words; :func:`find_core` takes these names. Predictions place a CPU by what
its cores compute, so a changed figure changes predictions and the fingerprint of their table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from advisor.core import UsageError
from advisor.store import YamlDocument, shipped_folder

CORES_FILE = "cores.yaml"

_DOT = 4.0
_I8MM = 8.0
_NARROW = 2.0
"""8-bit multiply-accumulates per float32 lane:
dot product, matrix multiplication, and widening multiplication.
"""

_DESIGN = re.compile(r"\(([^()]+)\)\s*$")
_MOST_NEAREST = 3  # Names that an error about an unknown one lists
_BY_ARM = "41:"  # The implementer Arm in :attr:`Core.parts`

Figure = Literal["macs", "fp16", "dot", "i8mm", "in_order", "int8"]


@dataclass(frozen=True)
class Core:
    """A core and its arithmetic per cycle."""

    name: str  # its name, such as ``Cortex-A76``
    macs: float  # float32 multiply-accumulates per cycle
    mhz: float  # usual highest clock, used where a profile states none
    fp16: bool = False  # computes in 16-bit float
    dot: bool = False  # has an 8-bit dot product
    i8mm: bool = False  # has an 8-bit matrix multiplication
    in_order: bool = False  # issues instructions in program order
    int8: float | None = None  # 8-bit multiply-accumulates per cycle if the flags do not give them
    source: str = ""  # where the figures are from
    assumed: tuple[str, ...] = ()  # names of the figures that no source confirms
    # Implementer and part number in ``/proc/cpuinfo``, such as ``41:d0b``.
    parts: tuple[str, ...] = ()

    def macs_per_cycle(self, arithmetic: str) -> float:
        """Return the multiply-accumulates per cycle in ``float32``,
        ``float16`` or ``int8`` (the fastest it has).
        """
        if arithmetic == "int8":
            if self.int8 is not None:
                return self.int8
            if self.i8mm:
                return self.macs * _I8MM
            return self.macs * (_DOT if self.dot else _NARROW)
        return self.macs * (2 if arithmetic == "float16" and self.fp16 else 1)


class CoreSchema(BaseModel):
    """One entry of ``cores.yaml``."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    macs: float = Field(gt=0, le=1024)
    mhz: float = Field(ge=1, le=10_000)
    fp16: bool = False
    dot: bool = False
    i8mm: bool = False
    in_order: bool = False
    int8: float | None = Field(default=None, gt=0, le=8192)
    names: tuple[str, ...] = Field(default=(), strict=False)
    source: str = Field(min_length=1)
    assumed: tuple[Figure, ...] = Field(default=(), strict=False)
    parts: tuple[Annotated[str, Field(pattern=r"^[0-9a-f]{2}:[0-9a-f]{3}$")], ...] = Field(
        default=(), strict=False
    )


@lru_cache(maxsize=4)
def read_cores(path: Path | None = None) -> dict[str, Core]:
    """Return the known cores by their names without case, spaces and hyphens;
    a core has one or more names.

    ``path`` is the file to read, by default the shipped one.
    UsageError if it is not valid, or two cores share a name.
    """
    document = YamlDocument.read(path or shipped_folder("device_profiles") / CORES_FILE)
    if not isinstance(document.values, Mapping):
        raise UsageError(
            f"'{document.path}' has no cores", "give a mapping of names to the figures of a core"
        )
    cores: dict[str, Core] = {}
    for name, values in document.values.items():
        try:
            data = CoreSchema.model_validate(values)
        except ValidationError as error:
            raise UsageError(
                f"{document.at((name,))}: {error.errors()[0]['msg']} ({name})",
                f"keys of a core: {', '.join(CoreSchema.model_fields)}",
            ) from error
        core = Core(name, **data.model_dump(exclude={"names"}))
        for core_name in (name, *data.names):
            if _plain_core(core_name) in cores:
                raise UsageError(
                    f"{document.at((name,))}: the core '{core_name}' is listed twice",
                    "remove one of them",
                )
            cores[_plain_core(core_name)] = core
    return cores


def find_core(name: str) -> Core | None:
    """Return the core of a name, None if it is unknown:
    ``Cortex-A72``, ``cortex a72``, or ``Kryo 485 (A76)``.

    Brackets contain the design behind a vendor's name, where ``A76`` is short for ``Cortex-A76``.
    """
    known = read_cores()
    wanted = _find_design(name)
    return known.get(_plain_core(wanted)) or known.get(_plain_core(f"Cortex-{wanted}"))


def arm_cores() -> dict[str, Core]:
    """Return Arm's own cores by their part numbers in ``/proc/cpuinfo``, such as ``0xd0b``."""
    cores = {}
    for part, core in _cores_by_part().items():
        if part.startswith(_BY_ARM):
            cores[f"0x{part.removeprefix(_BY_ARM)}"] = core
    return cores


def find_core_of_part(implementer: str, part: str) -> Core | None:
    """Return the core with an implementer and a part number as ``/proc/cpuinfo`` has them;
    None if it is unknown.
    """
    return _cores_by_part().get(f"{implementer.removeprefix('0x')}:{part.removeprefix('0x')}")


@cache
def _cores_by_part() -> Mapping[str, Core]:
    cores = {}
    for core in read_cores().values():
        for part in core.parts:
            cores[part] = core
    return cores


def core_named(name: str) -> Core:
    """Return the core of a name, as :func:`find_core`;
    the UsageError for an unknown one names the nearest ones.
    """
    core = find_core(name)
    if core:
        return core
    known = read_cores()
    matches = get_close_matches(
        _plain_core(_find_design(name)), known, n=2 * _MOST_NEAREST, cutoff=0.5
    )
    near = list(dict.fromkeys(known[match].name for match in matches))[:_MOST_NEAREST]
    raise UsageError(
        f"unknown core '{name}'" + (f" (nearest: {', '.join(near)})" if near else ""),
        "write a known core, or the known design in brackets: 'Maker X1 (Cortex-A76)'; or leave"
        " the cores out",
    )


def core_remarks(names: Iterable[str]) -> tuple[str, ...]:
    """Return a sentence for each core that is unknown,
    or some of whose figures no source confirms.
    """
    remarks = []
    for name in dict.fromkeys(names):
        core = find_core(name)
        if core is None:
            remarks.append(
                f"Core '{name}' is not known, so a prediction takes the mean of its kind"
            )
        elif core.assumed:
            remarks.append(
                f"{core.name}: {', '.join(core.assumed)} not looked up: an assumption from the"
                " family"
            )
    return tuple(remarks)


def _find_design(name: str) -> str:
    design = _DESIGN.search(name)
    return design[1] if design else name


def _plain_core(name: str) -> str:
    return re.sub(r"[\s_-]+", "", name.casefold())

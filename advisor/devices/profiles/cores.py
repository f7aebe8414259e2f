"""Read which processor cores are known (``device_profiles/cores.yaml``), and find one by its name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from advisor.core.errors import UsageError
from advisor.store.files import shipped_folder
from advisor.store.yamlfile import read_yaml

CORES_FILE = "cores.yaml"

_DOT, _I8MM, _NARROW = 4.0, 8.0, 2.0
"""8-bit multiply-accumulates per float32 lane: dot product, matrix multiplication, and widening multiplication."""

Figure = Literal["macs", "fp16", "dot", "i8mm", "in_order", "int8"]

_DESIGN = re.compile(r"\(([^()]+)\)\s*$")
_MOST_NEAREST = 3


@dataclass(frozen=True)
class Core:
    """A core and its arithmetic per cycle.

    Attributes:
        name: its name, such as ``Cortex-A76``.
        macs: float32 multiply-accumulates per cycle.
        mhz: usual highest clock, used where a profile states none.
        fp16: computes in 16-bit float.
        dot: has an 8-bit dot product.
        i8mm: has an 8-bit matrix multiplication.
        in_order: issues instructions in program order.
        int8: 8-bit multiply-accumulates per cycle if the flags do not give them.
        source: where the figures are from.
        assumed: names of the figures that no source confirms.
    """

    name: str
    macs: float
    mhz: float
    fp16: bool = False
    dot: bool = False
    i8mm: bool = False
    in_order: bool = False
    int8: float | None = None
    source: str = ""
    assumed: tuple[str, ...] = ()

    def macs_per_cycle(self, arithmetic: str) -> float:
        """Return the multiply-accumulates per cycle in ``float32``, ``float16`` or ``int8`` (the fastest it has)."""
        if arithmetic == "int8":
            factor = _I8MM if self.i8mm else _DOT if self.dot else _NARROW
            return self.int8 if self.int8 is not None else self.macs * factor
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


@lru_cache(maxsize=4)
def read_cores(path: Path | None = None) -> dict[str, Core]:
    """Return the known cores by their names without case, spaces and hyphens; a core has one or more names.

    Args:
        path: file to read. Default: the shipped one.

    Raises:
        UsageError: the file is not valid, or two cores share a name.
    """
    document = read_yaml(path or shipped_folder("device_profiles") / CORES_FILE)
    found: dict[str, Core] = {}
    for name, values in document.values.items():
        try:
            data = CoreSchema.model_validate(values)
        except ValidationError as error:
            raise UsageError(
                f"{document.at((name,))}: {error.errors()[0]['msg']} ({name})",
                "docs/devices.md lists the keys of a core",
            ) from error
        core = Core(name, **data.model_dump(exclude={"names"}))
        for each in (name, *data.names):
            if _key(each) in found:
                raise UsageError(f"{document.at((name,))}: the core '{each}' is listed twice", "remove one of them")
            found[_key(each)] = core
    return found


def find_core(name: str) -> Core | None:
    """Return the core of a name, None if it is unknown: ``Cortex-A72``, ``cortex a72``, or ``Kryo 485 (A76)``.

    Brackets contain the design behind a vendor's name, where ``A76`` is short for ``Cortex-A76``.
    """
    known = read_cores()
    wanted = _design(name)
    return known.get(_key(wanted)) or known.get(_key(f"Cortex-{wanted}"))


def core_named(name: str) -> Core:
    """Return the core of a name, as :func:`find_core`.

    Raises:
        UsageError: no known core has this name. The error names the nearest ones.
    """
    found = find_core(name)
    if found:
        return found
    near = _nearest(_design(name), read_cores())
    raise UsageError(
        f"unknown core '{name}'" + (f" (nearest: {', '.join(near)})" if near else ""),
        "write a known core, or the known design in brackets: 'Maker X1 (Cortex-A76)'; or leave the cores out",
    )


def core_remarks(names: Iterable[str]) -> tuple[str, ...]:
    """Return a sentence for each core that is unknown, or some of whose figures no source confirms."""
    return tuple(filter(None, map(_remark, dict.fromkeys(names))))


def _remark(name: str) -> str:
    core = find_core(name)
    if core is None:
        return f"Core '{name}' is not known, so a prediction takes the mean of its kind"
    if core.assumed:
        return f"{core.name}: {', '.join(core.assumed)} not looked up: an assumption from the family"
    return ""


def _design(name: str) -> str:
    design = _DESIGN.search(name)
    return design[1] if design else name


def _key(name: str) -> str:
    return re.sub(r"[\s_-]+", "", name.casefold())


def _nearest(name: str, known: dict[str, Core]) -> list[str]:
    """Return the names of the most similar cores, the nearest first."""
    matches: Iterable[str] = get_close_matches(_key(name), known, n=2 * _MOST_NEAREST, cutoff=0.5)
    return list(dict.fromkeys(known[match].name for match in matches))[:_MOST_NEAREST]

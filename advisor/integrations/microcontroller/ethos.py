"""Estimate what an Arm Ethos-U makes of a ``.tflite`` file, with Arm's compiler ``ethos-u-vela``.

The entry point ``advisor.compilers`` names this module; ``advisor profile --accelerator``
calls :func:`unit_named` and :func:`estimate`. Names of units and modes stand in users'
commands: they stay.
"""

import csv
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType

from advisor.core import Provenance, Quantity, StageError, UsageError, install_extra, nearest
from advisor.integrations.microcontroller import EXTRA
from advisor.isolation import run_program
from advisor.measurement import EthosEstimate, Unit
from advisor.tflite import read

TIMEOUT_S = 300.0
NAMES = ("ethos-u55", "ethos-u65", "ethos-u85")
NPU_OPERATOR = "CUSTOM:ethos-u"
"""The operator of the compiled file that stands for all that the unit runs."""

CONFIGURATIONS = (
    "ethos-u55-32",
    "ethos-u55-64",
    "ethos-u55-128",
    "ethos-u55-256",
    "ethos-u65-256",
    "ethos-u65-512",
    "ethos-u85-128",
    "ethos-u85-256",
    "ethos-u85-512",
    "ethos-u85-1024",
    "ethos-u85-2048",
)
"""Units by multiply-accumulates a cycle (``vela --help``)."""

DEFAULTS: Mapping[str, str] = MappingProxyType(
    {"ethos-u55": "ethos-u55-128", "ethos-u65": "ethos-u65-256", "ethos-u85": "ethos-u85-256"}
)

MODES: Mapping[str, str] = MappingProxyType(
    {
        "sram-only": "Sram_Only",
        "shared-sram": "Shared_Sram",
        "dedicated-sram": "Dedicated_Sram_384KB",
    }
)
"""Place of weights and activations: all in SRAM; weights in flash;
both in DRAM, with 384 kB of SRAM as a cache.
"""

_SYSTEMS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "ethos-u55": ("Ethos_U55_High_End_Embedded", "shared-sram"),
        "ethos-u65": ("Ethos_U65_High_End", "dedicated-sram"),
        "ethos-u85": ("Ethos_U85_SYS_DRAM_Mid", "dedicated-sram"),
    }
)
"""Clock and memories (``Arm/vela.ini`` of the compiler), and the memory mode by default."""


def unit_named(name: str) -> Unit:
    """Return the unit of ``ethos-u55``, ``ethos-u55-256`` or
    ``ethos-u55-256:sram-only``; else UsageError.
    """
    asked, _, mode = name.partition(":")
    configuration = DEFAULTS.get(asked, asked)
    if configuration not in CONFIGURATIONS:
        known = (*NAMES, *CONFIGURATIONS)
        raise UsageError(
            f"unknown accelerator '{asked}'{nearest(asked, known)}", f"Ethos-U: {', '.join(known)}"
        )
    if mode and mode not in MODES:
        raise UsageError(
            f"{asked}: unknown memory mode '{mode}'{nearest(mode, MODES)}",
            f"modes: {', '.join(MODES)}",
        )
    family = configuration[: len("ethos-u55")]
    if mode == "dedicated-sram" and family == "ethos-u55":
        raise UsageError(
            "an Ethos-U55 has no mode dedicated-sram: it does not write to DRAM", "use shared-sram"
        )
    system, usual = _SYSTEMS[family]
    return Unit(configuration, mode or usual, system)


def estimate(path: Path, unit: Unit, timeout_s: float = TIMEOUT_S) -> EthosEstimate:
    """Compile a file in a child process and return the compiler's estimates.

    Raises UsageError: the compiler is not installed, or the file is damaged. StageError: the
    compiler refuses the file or runs out of time.
    """
    if find_spec("ethosu") is None:
        raise UsageError("Arm's compiler ethos-u-vela is not installed", install_extra(EXTRA))
    model = read(path)
    with tempfile.TemporaryDirectory() as folder:
        # The names of the compiler's files follow that of the model.
        source = Path(folder) / "model.tflite"
        source.write_bytes(path.read_bytes())
        finished = run_program(_make_command(source, unit), timeout_s=timeout_s)
        summaries = sorted(Path(folder).glob("model_summary_*.csv"))
        if finished.status or not summaries:
            raise StageError(f"{path.name}: ethos-u-vela cannot compile it: {finished.complaint}")
        with summaries[0].open(newline="", encoding="utf-8") as file:
            (row,) = csv.DictReader(file)
        compiled = read(Path(folder) / "model_vela.tflite")
    on_cpu = Counter(
        operator.name for operator in compiled.operators if operator.name != NPU_OPERATOR
    )
    reasons = list[str]()
    for line in finished.stdout.splitlines():
        if line.startswith("Reason:"):
            # Without the details in brackets, so that equal reasons are one.
            reasons.append(line.removeprefix("Reason:").strip().partition(" (")[0])
    return _read_estimates(unit, len(model.operators), on_cpu, tuple(dict.fromkeys(reasons)), row)


def _make_command(source: Path, unit: Unit) -> Sequence[str]:
    options = [
        "--accelerator-config",
        unit.name,
        "--system-config",
        unit.system,
        "--memory-mode",
        MODES[unit.mode],
    ]
    return [
        sys.executable,
        "-P",
        "-m",
        "ethosu.vela",
        str(source),
        *options,
        "--output-dir",
        str(source.parent),
    ]


def _read_estimates(
    unit: Unit,
    operators: int,
    on_cpu: Mapping[str, int],
    reasons: tuple[str, ...],
    row: Mapping[str, str],
) -> EthosEstimate:
    compiler = f"ethos-u-vela {metadata.version('ethos-u-vela')}"
    source = f"{compiler}, {unit.name}, {unit.system}, {MODES[unit.mode]}"

    def make_estimate(value: float, unit_name: str = "bytes") -> Quantity:
        return Quantity(value, unit_name, Provenance.ESTIMATED, source=source)

    flash = float(row["off_chip_flash_memory_used"]) + float(row["on_chip_flash_memory_used"])
    cycles = float(row["cycles_total"])
    # If the CPU runs all operators, the compiler states 0 ms, which is no latency of the file.
    latency = make_estimate(1e3 * float(row["inference_time"]), "ms") if cycles else None
    return EthosEstimate(
        unit=unit,
        compiler=compiler,
        clock_mhz=float(row["core_clock"]) / 1e6,
        operators=operators,
        on_cpu=dict(on_cpu),
        reasons=reasons,
        macs=int(float(row["nn_macs"])),
        cycles=make_estimate(cycles, "cycles"),
        latency=latency,
        # The compiler writes KiB.
        sram=make_estimate(1024 * float(row["sram_memory_used"])),
        dram=make_estimate(1024 * float(row["dram_memory_used"])),
        flash=make_estimate(1024 * flash),
    )

"""Find the phones that adb sees, and read what a phone says of itself.

``devices add --usb`` makes a profile of an :class:`AttachedPhone`, and every measurement over adb
asks for the serial first: errors say what to do with a phone that cannot be used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from advisor.core import StageError, UsageError
from advisor.isolation import run_program

QUICK_S = 60.0
"""Seconds for a command that a phone answers at once."""

INSTALL = "install the Android platform tools"

ANY_PHONE = "usb"
"""Stands for the serial of the only attached phone."""

ABIS = ("arm64-v8a", "armeabi-v7a")
"""Instruction sets that TensorFlow Lite's tools are built for: Arm with 64 and with 32 bits."""

TWICE = "attached twice"
"""The state of a serial that adb lists more than once; cheap phones of one model may share
theirs.
"""

_STATES = {
    "no permissions": (
        "may not be used by this user: 'no permissions'",
        (
            "add a udev rule for it, or install the package android-sdk-platform-tools-common, and"
            " plug it in again"
        ),
    ),
    "unauthorized": ("does not allow debugging", "unlock it, and allow debugging on its screen"),
    "authorizing": (
        "is being asked for permission",
        "unlock it, and allow debugging on its screen",
    ),
    "offline": ("does not answer: 'offline'", "plug it in again, or type: adb reconnect offline"),
    "recovery": ("runs its recovery system", "start it normally: adb reboot"),
    "sideload": ("waits for an update: 'sideload'", "start it normally: adb reboot"),
    "bootloader": ("runs its boot loader", "start it normally: fastboot reboot"),
    "rescue": ("runs its rescue system", "start it normally: adb reboot"),
    "connecting": ("is being connected", "try again in some seconds"),
    "detached": ("was handed to other programs: 'detached'", "take it back: adb attach"),
    "host": ("is not in the state of a phone: 'host'", "unplug it, and plug it in again"),
    TWICE: ("is attached twice, or two phones have this serial", "unplug all but one"),
}
"""The error about a device and its hint, by the state that ``adb devices`` prints."""

_NOTHING_ATTACHED = (
    "plug it in with a cable that carries data; on the phone, tap Settings > About phone > Build"
    " number seven times, then allow USB debugging in Settings > System > Developer options"
)
# What may follow the state of a device: an explanation, or its model.
_REMARK = re.compile(r"\s*[(;\[]|\s+\w+:")

_MARK = "==="
_QUESTIONS = (
    "getprop",
    "cat /proc/meminfo",
    "cat /proc/cpuinfo",
    (
        "for file in /sys/devices/system/cpu/cpu[0-9]*/cpufreq/cpuinfo_max_freq; do echo $file"
        " $(cat $file); done"
    ),
    "df -k /data/local/tmp",
)
"""Questions to a phone, asked in one command; one that it cannot answer leaves its part empty."""

_SOC_PROPERTIES = ("ro.soc.model", "ro.vendor.soc.model.external_name", "ro.board.platform")
"""Properties with names of the system on chip, the most precise first."""

_PROPERTY = re.compile(r"^\[([^\]]+)\]: \[([^\]]*)\]", re.MULTILINE)
_FREE_KB = re.compile(r"^MemAvailable:\s+(\d{1,12}) kB", re.MULTILINE)
_TOTAL_KB = re.compile(r"^MemTotal:\s+(\d{1,12}) kB", re.MULTILINE)
_PROCESSOR = re.compile(r"^(processor|CPU implementer|CPU part)\s*:\s*(\w{1,20})", re.MULTILINE)
_CLOCK = re.compile(r"cpu(\d{1,3})/cpufreq/cpuinfo_max_freq (\d{1,9})")
_STORAGE_KB = re.compile(r"^\S+\s+\d+\s+\d+\s+(\d{1,15})\s", re.MULTILINE)


class SeveralAttached(UsageError):
    """Several phones are attached, and none is named:
    the user's word is needed, and nobody is away.
    """


@dataclass(frozen=True)
class AttachedPhone:
    """An attached phone as it describes itself; a fact that it does not tell is empty or None."""

    serial: str  #: its serial
    maker: str  #: its maker, such as ``Google``
    model: str  #: what its maker calls it: ``Build.MODEL``, such as ``Pixel 8`` or ``SM-S921B``
    device: str  #: ``Build.DEVICE``, such as ``shiba``
    soc: tuple[str, ...]  #: names of its system on chip, the most precise first
    android: str  #: version of Android
    abis: tuple[str, ...]  #: instruction sets that it runs, the preferred one first
    #: implementer and part number of each processor, with its highest clock in MHz
    processors: tuple[tuple[str, str, int | None], ...]
    memory_bytes: int | None  #: RAM
    free_memory_bytes: int | None  #: RAM that programs can have now
    free_storage_bytes: int | None  #: storage that is left where the tool and the models are put

    @property
    def abi(self) -> str:
        """The first of its instruction sets that TensorFlow Lite's tools are built for;
        UsageError without one.
        """
        for abi in self.abis:
            if abi in ABIS:
                return abi
        names = ", ".join(self.abis) or "an unknown instruction set"
        raise UsageError(
            f"the device {self.serial} runs {names}, for which TensorFlow Lite's benchmark_model"
            " is not published",
            "build it for this processor, and name it with --benchmark-model FILE",
        )


def list_states() -> Mapping[str, str]:
    """Return the state of each device that adb sees, by its serial; StageError if adb fails."""
    finished = run_program(["adb", "devices"], timeout_s=QUICK_S, hint=INSTALL)
    if finished.status:
        raise StageError(f"adb devices failed: {finished.complaint}")
    return states_of(finished.stdout)


def states_of(listing: str) -> dict[str, str]:
    """Return the state of each device that ``adb devices`` lists, by its serial number.

    A state may have several words, such as ``no permissions``;
    what stands behind them in brackets is left out.
    """
    states = {}
    for line in listing.splitlines():
        serial, _, rest = line.partition("\t")
        if rest and not line.startswith(("List of", "*")):
            name = serial.strip()
            states[name] = TWICE if name in states else _REMARK.split(rest.strip())[0]
    return states


def find_serial(serial: str) -> str:
    """Return the serial of an attached phone that can be used;
    :data:`ANY_PHONE` stands for the only one.

    Raises:
        UsageError: the phone is not attached, is in another state than a running one, or several
            are attached and none is named.
    """
    states = list_states()
    if serial == ANY_PHONE and serial not in states:
        serial = _find_only(states)
    state = states.get(serial)
    if state is None:
        raise UsageError(
            f"no device {serial} is attached", f"attached: {', '.join(states) or 'none'}"
        )
    if state != "device":
        message, hint = _STATES.get(
            state, ("is in the state '{state}'", "unplug it, and plug it in again")
        )
        raise UsageError(f"the device {serial} {message.format(state=state)}", hint)
    return serial


def _find_only(states: Mapping[str, str]) -> str:
    if not states:
        raise UsageError("no phone is attached", _NOTHING_ATTACHED)
    running = [serial for serial, state in states.items() if state == "device"]
    if len(running) > 1:
        raise SeveralAttached(
            f"several phones are attached: {', '.join(running)}", f"name one: --adb {running[0]}"
        )
    # Without a running phone, the error of the first one says what to do.
    return running[0] if running else next(iter(states))


def read_phone(serial: str) -> AttachedPhone:
    """Ask an attached phone what it is.

    Raises:
        UsageError: the phone cannot be used, as :func:`find_serial` says.
        StageError: it does not answer, or it answers as no phone does.
    """
    serial = find_serial(serial)
    quiet = [f"{question} 2>/dev/null" for question in _QUESTIONS]
    question = f"; echo {_MARK}; ".join(quiet)
    finished = run_program(
        ["adb", "-s", serial, "shell", question], timeout_s=QUICK_S, hint=INSTALL
    )
    answers = finished.stdout.replace("\r", "").split(f"{_MARK}\n")
    if len(answers) != len(_QUESTIONS):
        raise StageError(
            f"adb {serial} does not answer as a phone does: {finished.complaint}",
            "unlock it, and plug it in again",
        )
    return parse_answers(serial, answers)


def parse_answers(serial: str, answers: Sequence[str]) -> AttachedPhone:
    """Return the facts in the answers of a phone to :data:`_QUESTIONS`."""
    properties, memory, processors, clocks, storage = answers
    known = dict(_PROPERTY.findall(properties))
    abis = known.get("ro.product.cpu.abilist") or known.get("ro.product.cpu.abi", "")
    names = [known.get(key, "") for key in _SOC_PROPERTIES]
    return AttachedPhone(
        serial=serial,
        maker=known.get("ro.product.manufacturer", ""),
        model=known.get("ro.product.model", ""),
        device=known.get("ro.product.device", ""),
        soc=tuple(filter(None, names)),
        android=known.get("ro.build.version.release", ""),
        abis=tuple(filter(None, abis.split(","))),
        processors=_parse_processors(processors, clocks),
        memory_bytes=_find_bytes(_TOTAL_KB, memory),
        free_memory_bytes=_find_bytes(_FREE_KB, memory),
        free_storage_bytes=_find_bytes(_STORAGE_KB, storage),
    )


def _find_bytes(pattern: re.Pattern[str], text: str) -> int | None:
    match = pattern.search(text)
    return int(match[1]) * 1024 if match else None


def _parse_processors(text: str, clocks: str) -> tuple[tuple[str, str, int | None], ...]:
    """Return implementer, part and clock of each processor;
    a phone lists a sleeping one among the clocks alone.
    """
    mhz = {int(number): int(khz) // 1000 for number, khz in _CLOCK.findall(clocks)}
    processors = []
    number: int | None = None
    implementer = ""
    for key, value in _PROCESSOR.findall(text):
        if key == "processor":
            number = int(value) if value.isdigit() else None
        elif key == "CPU implementer":
            implementer = value.lower()
        else:
            clock = None if number is None else mhz.get(number)
            processors.append((implementer, value.lower(), clock))
    return tuple(processors)

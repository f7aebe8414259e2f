"""Find TensorFlow Lite's ``benchmark_model`` for a phone: the program that times models there.

It is fetched once and stays in the cache of downloads. An archive, a page and a program for
another kind of processor are refused before they are copied to a phone.
"""

from __future__ import annotations

from pathlib import Path

from advisor.core import UsageError
from advisor.devices._connections.attached import read_phone
from advisor.store import FetchOptions, Program

HOME = "https://storage.googleapis.com/tensorflow-nightly-public/prod/tensorflow/release/lite/tools/nightly/latest/"
"""Address at which TensorFlow publishes the tool: the "native benchmark binary" of LiteRT's guide
to measurement (ai.google.dev/edge/litert/models/measurement).
"""

TOOLS = {
    "arm64-v8a": "android_aarch64_benchmark_model",
    "armeabi-v7a": "android_arm_benchmark_model",
}
"""Names of the tool there, by the instruction set of a phone."""

_ELF = b"\x7fELF"
_MACHINES = {40: "armeabi-v7a", 183: "arm64-v8a", 3: "x86", 62: "x86_64"}
"""Instruction sets by the number in the header of an ELF file (``e_machine``):
the ELF specification's table.
"""


def fetch_tool(abi: str, options: FetchOptions) -> Program:
    """Return the published tool for an instruction set of :data:`TOOLS`, fetched once.

    UsageError if there is none to fetch.
    """
    program = Program.fetch(HOME + TOOLS[abi], options)
    try:
        check_tool(program.path, abi)
    except UsageError:
        # A server gave something else, such as a page to log in:
        # it must not be taken for the tool the next time.
        if program.fetched:
            program.path.unlink()
        raise
    return program


def find_tool(serial: str) -> Path:
    """Return the published tool for an attached phone,
    with the mirror and the cache of the environment.
    """
    return fetch_tool(read_phone(serial).abi, FetchOptions()).path


def check_tool(path: Path, abi: str = "") -> None:
    """Refuse what no phone can run as the tool:
    no file, a page of a server, or a program for another processor.
    """
    hint = "download TensorFlow Lite's benchmark_model for the phone's processor"
    if not path.is_file():
        raise UsageError(
            f"--benchmark-model: '{path}' is not a file",
            f"{hint}, or leave the option out to fetch it",
        )
    with path.open("rb") as file:
        head = file.read(20)
    if head[:2] == b"PK":
        raise UsageError(
            f"--benchmark-model: '{path}' is an app (APK), not a program for the shell", hint
        )
    if head[:1] == b"<":
        raise UsageError(f"--benchmark-model: '{path}' is a web page, not a program", hint)
    if head[:4] != _ELF:
        return  # a script that starts the tool
    machine = int.from_bytes(head[18:20], "little")
    built_for = _MACHINES.get(machine, f"the processor number {machine} of the ELF format")
    fits = built_for == abi if abi else built_for in TOOLS
    if not fits:
        wanted = abi or " or ".join(TOOLS)
        raise UsageError(
            f"--benchmark-model: '{path}' is a program for {built_for}, the phone runs {wanted}",
            hint,
        )

"""Functions that children run in the tests of the isolation."""

import ctypes
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from advisor.core import UnsupportedRecipe
from advisor.isolation import _rights as confinement


def add(first: int, second: int) -> int:
    return first + second


def burn(cpu_s: float) -> float:
    """Work until this process has taken so many CPU seconds more; return all that it has taken."""
    until = time.process_time() + cpu_s
    while time.process_time() < until:
        pass
    return time.process_time()


def imported(module: str) -> bool:
    return module in sys.modules


def process() -> int:
    return os.getpid()


class ResourceExhaustedError(Exception):
    """An error with the name of TensorFlow's."""


def trained(crashes: bool = False) -> str:
    """Return where this child trains; on a GPU, fail or crash."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") == "-1":
        return "CPU"
    if crashes:
        segfault()
    raise ResourceExhaustedError("OOM when allocating")


def refuse() -> None:
    raise UnsupportedRecipe("not for this model", "try another")


def fail() -> None:
    raise ValueError("a plain error\nwith two lines")


def meet(folder: Path, count: int) -> None:
    """Wait until so many processes are in this function."""
    (folder / str(os.getpid())).touch()
    while len(list(folder.iterdir())) < count:
        time.sleep(0.02)


def segfault() -> None:
    ctypes.string_at(0)


def crash_until(attempts: int, folder: Path) -> None:
    """Work and crash, unless so many calls have left a file in the folder, this one included."""
    folder.mkdir(parents=True, exist_ok=True)
    burn(0.2)
    (folder / str(os.getpid())).touch()
    if len(list(folder.iterdir())) < attempts:
        segfault()


def kill_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hang() -> None:
    time.sleep(600)


def eat(size: int) -> None:
    held = bytearray(size)
    for place in range(0, size, 4096):
        held[place] = 1
    time.sleep(600)


def start(count: int, list_file: Path, crash: bool = False) -> None:
    """Start programs in sessions of their own, write the id of each before the next one, and hang or crash."""
    for _ in range(count):
        program = subprocess.Popen(["sleep", "600"], start_new_session=True)
        with list_file.open("a") as file:
            file.write(f"{program.pid}\n")
    if crash:
        segfault()
    hang()


def start_that_eats(size: int) -> None:
    subprocess.Popen([sys.executable, "-c", f"import time; held = bytes(b'x' * {size}); time.sleep(600)"])
    hang()


def connect(port: int) -> None:
    socket.create_connection(("127.0.0.1", port), timeout=10).close()


def write(path: Path) -> None:
    path.write_text("x")


def run_program() -> None:
    subprocess.run(["true"], check=True)


def confines_files() -> bool:
    """Return whether this system lets a process give up rights to files; this one keeps none."""
    return confinement.give_up_files([])


def talk() -> None:
    os.write(1, b"native words\n")


def loaded_with_keras(names: frozenset[str]) -> set[str]:
    """Return which of these modules are loaded once Keras is."""
    importlib.import_module("keras.layers")
    return names & sys.modules.keys()


def can_be_imported(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def keras_settings() -> tuple[str, str, str]:
    """Return what Keras is set to."""
    import keras

    return keras.config.image_data_format(), keras.config.floatx(), keras.config.backend()

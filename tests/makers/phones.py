"""Devices that a test can reach: a real SSH server, and phones behind the real adb, on loopback."""

import getpass
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.devices.debug_daemon import DebugDaemon
from tests.processes import PATIENCE_S, end_with_parent, free_port, is_open, until
from tests.requirements import skip_or_fail
from tests.tables import read_table


@dataclass(frozen=True)
class SshServer:
    """A running server."""

    config: Path  # configuration for the client, with the host ``device``
    folder: Path  # keys, known hosts and the log
    port: int  # its port

    @property
    def client(self) -> str:
        """The real client with that configuration."""
        return client_of(self.config)


def client_of(config: Path) -> str:
    """Return a client that reads ``config`` as if it were the user's own file."""
    client = config.with_name(f"{config.name}-bin") / "ssh"
    if not client.exists():
        client.parent.mkdir()
        client.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {config} "$@"\n')
        client.chmod(0o755)
    return str(client)


def put_first(client: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make ``client`` the ``ssh`` that programs find."""
    monkeypatch.setenv("PATH", f"{Path(client).parent}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture(scope="session")
def ssh_server(starts_processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    """A real sshd on loopback with keys of its own."""
    daemon = shutil.which("sshd") or shutil.which("/usr/sbin/sshd")
    if daemon is None or shutil.which("ssh") is None:
        skip_or_fail("no OpenSSH server and client are installed")
    if os.geteuid() == 0:  # the server wants its empty folder, which the boot would have made
        try:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        except OSError as error:
            skip_or_fail(f"sshd's folder cannot be made: {error}")
    folder, port = tmp_path_factory.mktemp("sshd"), free_port()
    for name in ("host", "user"):
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(argv, check=True, capture_output=True)
    key = " ".join((folder / "host.pub").read_text().split()[:2])
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {key}\n")
    config = folder / "ssh_config"
    config.write_text(
        f"Host device\n  HostName 127.0.0.1\n  Port {port}\n  User {getpass.getuser()}\n  IdentityFile {folder}/user\n"
        f"  IdentitiesOnly yes\n  UserKnownHostsFile {folder}/known_hosts\n  GlobalKnownHostsFile none\n"
    )
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\n"
        f"StrictModes no\nUsePAM no\nPasswordAuthentication no\nPidFile none\n"
        "SetEnv SHLVL=2\n"  # else bash reads the user's start-up files for each command
    )
    with (folder / "log").open("wb") as log:
        argv = [daemon, "-D", "-e", "-f", str(folder / "sshd_config")]
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=end_with_parent)
        try:
            wait_for(port, process, folder / "log")
            yield SshServer(config, folder, port)
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


@pytest.fixture
def own_ssh(ssh_server: SshServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's configuration becomes the user's own, as no profile names one; its host is ``device``."""
    put_first(ssh_server.client, monkeypatch)


def wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    def answers() -> bool:
        if process.poll() is not None:
            skip_or_fail(f"sshd does not start here: {log.read_text()[-300:]}")
        return is_open(port)

    until(answers)


@dataclass(frozen=True)
class Phone:
    """A device that the real adb sees."""

    serial: str  # how adb calls it
    daemon: DebugDaemon  # what answers
    root: Path  # the folder that stands for its file system


def adb(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["adb", *arguments], capture_output=True, timeout=PATIENCE_S)


@pytest.fixture(scope="session")
def adb_server(starts_processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A server of the real adb on a port of its own, with a home of its own."""
    if shutil.which("adb") is None:
        skip_or_fail("adb is not installed")
    with pytest.MonkeyPatch.context() as patch:
        port = free_port()
        patch.setenv("ANDROID_ADB_SERVER_PORT", str(port))
        patch.delenv("ANDROID_SERIAL", raising=False)
        # The server alone needs a home: later tests of this process keep theirs, with the caches in it.
        home = tmp_path_factory.mktemp("adb-home")
        with (home / "log").open("wb") as log:
            # A server that adb starts by itself outlives a run that is killed.
            server = subprocess.Popen(
                ["adb", "nodaemon", "server"], env={**os.environ, "HOME": str(home)}, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, preexec_fn=end_with_parent,
            )  # fmt: skip
            try:
                until(lambda: is_open(port))
                yield
            finally:
                server.terminate()
                server.wait(PATIENCE_S)


@pytest.fixture
def phone(adb_server: None, tmp_path: Path) -> Iterator[Phone]:
    """A phone whose shell is this machine's, in a folder."""
    with attached(tmp_path / "phone") as found:
        yield found


@pytest.fixture
def second_phone(adb_server: None, tmp_path: Path) -> Iterator[Phone]:
    """Another phone on the same client."""
    with attached(tmp_path / "second-phone") as found:
        yield found


@contextmanager
def attached(root: Path) -> Iterator[Phone]:
    root.mkdir()
    daemon = DebugDaemon(root)
    port = daemon.start()
    serial = f"127.0.0.1:{port}"
    try:
        adb("connect", serial).check_returncode()
        until(lambda: adb("-s", serial, "get-state").stdout.strip() == b"device")
        yield Phone(serial, daemon, root)
    finally:
        adb("disconnect", serial)
        daemon.stop()


PIXEL_8 = read_table(__file__, "phones.yaml")["Pixel 8"]
"""Properties of a phone as its ``getprop`` prints them."""

PROCESSORS = (*[("0xd46", 1704)] * 4, *[("0xd4d", 2367)] * 4, ("0xd4e", 2914))
"""Part number and clock (MHz) of its processors."""


def write_facts(root: Path, properties: dict[str, str], processors: tuple[tuple[str, int], ...] = PROCESSORS) -> None:
    """Let a phone answer to ``getprop`` and have the files of its memory and processors, and a folder for tools."""
    (root / "data" / "local" / "tmp").mkdir(parents=True)
    programs, memory = root / "system" / "bin", root / "proc"
    programs.mkdir(parents=True)
    memory.mkdir()
    (root / "properties").write_text("".join(f"[{name}]: [{value}]\n" for name, value in properties.items()))
    (programs / "getprop").write_text(f"#!/bin/sh\ncat {root}/properties\n")
    (programs / "getprop").chmod(0o755)
    (memory / "meminfo").write_text("MemTotal:  7773048 kB\nMemFree:  12 kB\nMemAvailable:  3000000 kB\n")
    rows = [
        f"processor\t: {number}\nCPU implementer\t: 0x41\nCPU part\t: {part}\n"
        for number, (part, _) in enumerate(processors)
    ]
    (memory / "cpuinfo").write_text("\n".join(rows))
    for number, (_, mhz) in enumerate(processors):
        clocks = root / f"sys/devices/system/cpu/cpu{number}/cpufreq"
        clocks.mkdir(parents=True)
        (clocks / "cpuinfo_max_freq").write_text(f"{mhz}000\n")

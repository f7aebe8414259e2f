"""A small Android debug daemon over TCP: enough of the protocol for the real ``adb`` to shell and to push.

Messages are six little-endian 32-bit words (command, two arguments, length and checksum of the data, command inverted),
then the data. A stream is opened by OPEN with the service's name, every WRTE is answered by OKAY before the next may be
sent, CLSE ends it. The ``shell_v2`` service frames output as (kind, length, bytes): 1 output, 2 error, 3 exit status;
``sync:`` takes files as SEND, DATA..., DONE.
"""

import os
import queue
import re
import socket
import struct
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

_HEADER = struct.Struct("<6I")
_VERSION = 0x01000000
_MAX_DATA = 256 * 1024
_BANNER = b"device::ro.product.name=test;ro.product.model=TestPhone;ro.product.device=test;features=shell_v2,cmd"
_FOLDERS = re.compile(r"/(?:data|proc|sys)/")
_STDOUT, _STDERR, _EXIT = 1, 2, 3


def _code(name: bytes) -> int:
    return int.from_bytes(name, "little")


class DebugDaemon:
    """Serves connections until stopped."""

    def __init__(self, root: Path) -> None:
        self.root = root  # stands for the phone's ``/``: commands and pushed files see ``/data`` in it
        self.commands: list[str] = []  # every shell command that was received
        self.vanish_on = ""  # a text at whose sight in a command the phone drops off
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []

    def start(self) -> int:
        """Serve in the background; return the port."""
        threading.Thread(target=self._accept, daemon=True).start()
        return int(self._listener.getsockname()[1])

    def stop(self) -> None:
        for each in (self._listener, *self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def local(self, path: str) -> Path:
        """Return where a path of the phone lies here."""
        return self.root / path.lstrip("/")

    def run(self, command: str) -> subprocess.CompletedProcess[bytes]:
        """Run a command as the phone's shell would: its folders and programs are those in :attr:`root`."""
        self.commands.append(command)
        text = _FOLDERS.sub(rf"{self.root}\g<0>", command)
        path = f"{self.root}/system/bin{os.pathsep}{os.environ['PATH']}"
        return subprocess.run(
            ["sh", "-c", text], cwd=self.root, stdin=subprocess.DEVNULL, capture_output=True,
            env={**os.environ, "PATH": path},
        )  # fmt: skip

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._sockets.append(connection)
                threading.Thread(target=_Transport(self, connection).serve, daemon=True).start()


class _Transport:
    """One connection of an adb server."""

    def __init__(self, daemon: DebugDaemon, connection: socket.socket) -> None:
        self.daemon = daemon
        self._connection = connection
        self._lock = threading.Lock()
        self._streams: dict[int, _Stream] = {}

    def send(self, command: bytes, first: int, second: int, data: bytes = b"") -> None:
        code = _code(command)
        header = _HEADER.pack(code, first, second, len(data), sum(data) & 0xFFFFFFFF, code ^ 0xFFFFFFFF)
        with self._lock:
            self._connection.sendall(header + data)

    def serve(self) -> None:
        with suppress(OSError, EOFError):
            while True:
                code, first, second, length, _, _ = _HEADER.unpack(self._exactly(_HEADER.size))
                self._handle(code.to_bytes(4, "little"), first, second, self._exactly(length))

    def vanish(self) -> None:
        self._connection.shutdown(socket.SHUT_RDWR)

    def _handle(self, command: bytes, first: int, second: int, data: bytes) -> None:
        if command == b"CNXN":
            self.send(b"CNXN", _VERSION, _MAX_DATA, _BANNER)
        elif command == b"OPEN":
            stream = _Stream(self, len(self._streams) + 1, first)
            self._streams[stream.own] = stream
            service = data.rstrip(b"\0").decode()
            threading.Thread(target=stream.serve, args=(service,), daemon=True).start()
        elif (known := self._streams.get(second)) is None:
            return
        elif command == b"WRTE":
            known.received.put(data)
            self.send(b"OKAY", second, first)
        elif command == b"OKAY":
            known.acknowledged.release()
        elif command == b"CLSE":
            known.received.put(None)
            known.acknowledged.release()

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self._connection.recv(count - len(data))
            if not more:
                raise EOFError
            data += more
        return data


class _Stream:
    """One open service."""

    def __init__(self, transport: _Transport, own: int, other: int) -> None:
        self.own = own
        self.received: queue.Queue[bytes | None] = queue.Queue()
        self.acknowledged = threading.Semaphore(0)
        self._transport = transport
        self._other = other
        self._buffer = b""

    def serve(self, service: str) -> None:
        self._transport.send(b"OKAY", self.own, self._other)
        with suppress(OSError, EOFError):
            name, _, argument = service.partition(":")
            if name.startswith("shell"):
                self._shell(argument)
            elif name == "sync":
                self._sync()
            self._transport.send(b"CLSE", self.own, self._other)

    def _write(self, data: bytes) -> None:
        for start in range(0, len(data), _MAX_DATA):
            self._transport.send(b"WRTE", self.own, self._other, data[start : start + _MAX_DATA])
            self.acknowledged.acquire()

    def _shell(self, command: str) -> None:
        daemon = self._transport.daemon
        if daemon.vanish_on and daemon.vanish_on in command:
            self._transport.vanish()
            return
        done = daemon.run(command)
        for kind, data in ((_STDOUT, done.stdout), (_STDERR, done.stderr)):
            for start in range(0, len(data), 60_000):
                part = data[start : start + 60_000]
                self._write(struct.pack("<BI", kind, len(part)) + part)
        self._write(struct.pack("<BIB", _EXIT, 1, done.returncode & 0xFF))

    def _sync(self) -> None:
        while True:
            request, length = self._request()
            if request == b"QUIT":
                return
            name = self._read(length).decode()
            if request == b"STAT":
                self._write(self._stat(name))
            elif request == b"SEND":
                self._receive(*name.rsplit(",", 1))

    def _stat(self, name: str) -> bytes:
        path = self._transport.daemon.local(name)
        if not path.exists():
            return b"STAT" + struct.pack("<III", 0, 0, 0)
        found = path.stat()
        return b"STAT" + struct.pack("<III", found.st_mode, found.st_size, int(found.st_mtime))

    def _receive(self, name: str, mode: str) -> None:
        path = self._transport.daemon.local(name)
        data = b""
        while True:
            request, length = self._request()
            if request != b"DATA":
                break
            data += self._read(length)
        if not path.parent.is_dir():
            message = b"no such folder"
            self._write(b"FAIL" + struct.pack("<I", len(message)) + message)
            return
        path.write_bytes(data)
        path.chmod(int(mode) & 0o777)
        self._write(b"OKAY" + struct.pack("<I", 0))

    def _request(self) -> tuple[bytes, int]:
        header = self._read(8)
        return header[:4], int.from_bytes(header[4:], "little")

    def _read(self, count: int) -> bytes:
        while len(self._buffer) < count:
            data = self.received.get()
            if data is None:
                raise EOFError
            self._buffer += data
        taken, self._buffer = self._buffer[:count], self._buffer[count:]
        return taken

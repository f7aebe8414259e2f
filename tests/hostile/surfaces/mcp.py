"""Messages to ``advisor mcp``: broken ones, and tools with arguments that no assistant means."""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import Any

from tests.hostile.damages import BROKEN, WRONG as WRONG_VALUES
from tests.hostile.surfaces.ground import ACCEPTED, DIED, HANG, SOON_S, Case, Ground

PATHS = ("/etc", "../x", "/proc/self/environ", "~", "runs/../../x", "link/x", "/dev/zero", "\0", "a" * 5000)
TAKES = {
    "report": ("run", {}), "compare": ("before", {"after": "x"}), "export": ("run", {"to": "x"}),
    "benchmark": ("model", {}), "plan": ("data", {"budget": "9ms"}), "search": ("data", {"budget": "9ms"}),
}  # fmt: skip
"""Tools, their argument that is a path, and others that they need."""
TEXTS = {
    "report": ("budget", {"run": "x"}), "benchmark": ("threads", {"model": "x"}), "plan": ("budget", {}),
    "search": ("time_limit", {"budget": "9ms"}),
}  # fmt: skip
METHODS = (
    "ping", "tools/list", "prompts/list", "prompts/get", "resources/list", "resources/read", "resources/templates/list",
    "completion/complete", "logging/setLevel", "tools/call", "initialize", "nothing", "", "\x1b[31m",
)  # fmt: skip


def cases(ground: Ground) -> Iterator[Case]:
    """Yield the messages to one server."""
    server = _Server(ground)
    for number, broken in enumerate(BROKEN):
        yield f"text {number}", partial(server.sent, broken.replace("\n", " "))
        yield f"text {number} in a message", partial(server.sent, f'{{"jsonrpc": "2.0", "method": {broken}}}')
    for method in METHODS:
        for number, value in enumerate((*WRONG_VALUES, {"name": "x", "arguments": {}}, {"uri": "file:///etc/passwd"})):
            yield f"{method}, parameters {number}", partial(server.asked, method, value)
    for value in WRONG_VALUES:
        yield f"identifier {value!r:.20}", partial(server.sent, json.dumps({"jsonrpc": "2.0", "id": value}))
    for tool, (name, others) in TAKES.items():
        for number, path in enumerate(PATHS):
            yield f"{tool}, {name}, {number}", partial(server.refused, tool, {**others, name: path})
    for tool, (name, others) in TEXTS.items():
        for number, value in enumerate((*WRONG_VALUES, *BROKEN[4::4])):
            yield f"{tool}, {name}, value {number}", partial(server.refused, tool, {**others, name: value})


class _Server:
    """A server that starts with its first message."""

    def __init__(self, ground: Ground) -> None:
        self._ground, self._number, self._read = ground, 0, b""

    @cached_property
    def _process(self) -> "subprocess.Popen[bytes]":
        folder = self._ground.fresh()
        (folder / "link").symlink_to("/etc")
        environment = {**os.environ, "ADVISOR_CACHE_DIR": str(self._ground.folder / "cache")}
        errors = self._ground.held.enter_context((self._ground.folder / "errors").open("wb"))
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "advisor", "mcp", "--folder", str(folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=environment,
        )  # fmt: skip
        self._ground.held.callback(process.kill)
        client = {"name": "x", "version": "1"}
        start = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
        self._write(process, json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": start}))
        self._write(process, json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        return process

    def sent(self, text: str) -> Sequence[str]:
        """Send a line; the server must live on."""
        return self._answered(text, None)[0]

    def asked(self, method: str, parameters: Any) -> Sequence[str]:
        """Ask for something; there must be an answer if the message is one of the protocol."""
        self._number += 1
        number = self._number if parameters is None or isinstance(parameters, dict) else None
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": parameters}
        return self._answered(json.dumps(message), number)[0]

    def refused(self, tool: str, arguments: Any) -> Sequence[str]:
        """Call a tool that must refuse."""
        self._number += 1
        call = {"name": tool, "arguments": arguments}
        text = json.dumps({"jsonrpc": "2.0", "id": self._number, "method": "tools/call", "params": call})
        bad, answer = self._answered(text, self._number)
        taken = "result" in answer and not answer["result"].get("isError")
        return (*bad, *((ACCEPTED,) if taken else ()))

    def _answered(self, text: str, number: int | None) -> tuple[Sequence[str], dict[str, Any]]:
        """Send a line and a ping, and wait for both answers."""
        process, errors = self._process, self._ground.folder / "errors"
        said = errors.stat().st_size
        ping, waiting, answer = f"ping {time.monotonic()}", {number} - {None}, dict[str, Any]()
        waiting.add(ping)  # type: ignore[arg-type]
        try:
            self._write(process, text)
            self._write(process, json.dumps({"jsonrpc": "2.0", "id": ping, "method": "ping"}))
            for line in self._lines(process):
                document = json.loads(line)
                if document.get("id") == number is not None:
                    answer = document
                waiting.discard(document.get("id"))
                if not waiting:
                    break
        except (BrokenPipeError, TimeoutError):
            died = process.poll() is not None
            process.kill()
            del self.__dict__["_process"]
            self._read = b""
            return ((DIED if died else HANG),), answer
        new = errors.read_bytes()[said:]
        return (("traceback",) if b"Traceback" in new else ()), answer

    def _lines(self, process: "subprocess.Popen[bytes]") -> Iterator[bytes]:
        assert process.stdout is not None, "it is a pipe"
        end = time.monotonic() + SOON_S
        while True:
            *lines, self._read = self._read.split(b"\n")
            yield from lines
            ready, _, _ = select.select([process.stdout], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise TimeoutError
            part = os.read(process.stdout.fileno(), 1 << 20)
            if not part:
                raise BrokenPipeError
            self._read += part

    def _write(self, process: "subprocess.Popen[bytes]", text: str) -> None:
        assert process.stdin is not None, "it is a pipe"
        process.stdin.write(text.encode("utf-8", "surrogateescape") + b"\n")
        process.stdin.flush()

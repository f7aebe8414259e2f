"""The tools that ``advisor mcp`` serves, and the folders that they may touch.

A tool is a command of this program in a child process with ``--json``: what it prints is the
answer, what it says on standard error is progress. A path that an assistant names must be in one
of the folders given at the start. Assistants read names, arguments and docstrings of the tools:
these are texts for users.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Never

import anyio
from anyio.abc import Process
from anyio.streams.text import TextReceiveStream
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from pydantic import Field

from advisor.core import ExitCode, UsageError, nearest, show_seconds, units
from advisor.datasets import list_files
from advisor.version import __version__

INSTRUCTIONS = (
    "advisor answers which image model to ship on a phone or small device. plan shows what a"
    " search would do and its price, search trains and measures (minutes), report decides again"
    " from a finished run with other limits, export writes the files to ship. Latency is in ms,"
    " size and memory in bytes, accuracy in %."
)
ANSWERED = (ExitCode.OK, ExitCode.UNSATISFIED, ExitCode.CHANGED)
"""Exit codes of commands that printed an answer."""

USUAL_S = 600
"""Seconds of a search without a time limit, if the server allows as many."""

LONGEST = 2000
"""Characters of an error message."""

Budget = Annotated[str, Field(description="latency limit that 9 of 10 runs meet, such as 50ms")]
Data = Annotated[
    str,
    Field(
        description="folder of labelled images with one sub-folder for each class, or a manifest"
    ),
]
Names = Annotated[
    str,
    Field(
        description="names, families or globs of models, joined by commas; empty for the best 12"
    ),
]
Device = Annotated[
    str, Field(description="host, device profiles or names of phones, joined by commas")
]
Size = Annotated[str, Field(description="limit of the file size, such as 5MB")]
Preference = Annotated[str, Field(description="balanced, accuracy, latency or size")]
Limit = Annotated[
    str, Field(description="such as 5min; empty for 10min, or for less if the server allows less")
]
Conditions = Annotated[
    tuple[str, ...], Field(description="conditions on columns; a row must pass all of them")
]
RunName = Annotated[str, Field(description="run folder, such as runs/latest")]


@dataclass(frozen=True)
class AssistantFolders:
    """The folders that an assistant may read and write."""

    roots: tuple[Path, ...]  #: absolute paths without links; relative paths count from the first

    @classmethod
    def of(cls, paths: Sequence[str]) -> AssistantFolders:
        """Return the folders with these paths.

        Raises:
            UsageError: one is not a folder.
        """
        for folder in paths:
            if not Path(folder).is_dir():
                raise UsageError(
                    f"--folder: '{folder}' is not a folder", "give a folder that exists"
                )
        return cls(tuple(Path(folder).resolve() for folder in paths))

    def path(self, name: str, text: str) -> str:
        """Return the absolute path that the argument ``name`` gives.

        Raises:
            ToolError: it is in none of the folders.
        """
        try:
            # Resolved first: a link, or a path with "..", may lead out of the folders.
            path = (self.roots[0] / text).resolve()
        # A link to itself or a NUL character in a path raises one of these.
        except (OSError, RuntimeError, ValueError) as error:
            raise ToolError(f"{name}: {text!r} cannot be a path: {error}") from error
        if not any(map(path.is_relative_to, self.roots)):
            allowed = ", ".join(map(str, self.roots))
            raise ToolError(
                f"{name}: '{text}' is outside the folders of this server, which are: {allowed}"
            )
        return str(path)


@dataclass(frozen=True)
class Tools:
    """The tools of the server."""

    folders: AssistantFolders  #: what an assistant may read and write
    most_s: float  #: largest time limit of a search in seconds

    async def plan(
        self,
        budget: Budget,
        data: Data = "",
        candidates: Names = "",
        device: Device = "host",
        size_budget: Size = "",
    ) -> dict[str, Any]:
        """Show what a search would do and its price in seconds.
        Nothing is trained, measured or downloaded.

        data is a folder of labelled images with one sub-folder for each class;
        without it, published accuracies count.
        """
        question = self._question(budget, data, candidates, device, size_budget)
        return await self._run(["plan", *question])

    async def search(
        self,
        ctx: Context[Any, Any],
        budget: Budget,
        data: Data = "",
        candidates: Names = "",
        device: Device = "host",
        size_budget: Size = "",
        prefer: Preference = "balanced",
        time_limit: Limit = "",
    ) -> dict[str, Any]:
        """Find the model to ship: retrain, compress and measure candidates,
        and recommend one with its reasons.

        It takes minutes, at most time_limit.
        The answer names its run folder for report, compare and export.
        """
        time_limit = time_limit or f"{min(USUAL_S, self.most_s):.0f}s"
        try:
            limit_s = units.parse_seconds(time_limit, "time_limit")
        except UsageError as error:
            raise ToolError(f"{error.message} ({error.hint})") from error
        if limit_s > self.most_s:
            longest = show_seconds(self.most_s)
            raise ToolError(
                f"time_limit: {time_limit} is more than this server allows, which is {longest}"
            )
        question = self._question(budget, data, candidates, device, size_budget)
        # Checked as well: runs/ may be a link that leads out of the folders.
        runs = self.folders.path("out", "runs")
        options = ["--prefer", prefer, "--time-limit", time_limit, "--out", runs]
        answer = await self._run(["search", *question, *options], ctx, limit_s)
        return {**answer, "folder": str(Path(runs) / str(answer["run"]))}

    async def report(
        self,
        run: RunName,
        budget: str = "",
        size_budget: Size = "",
        min_accuracy: str = "",
        prefer: Preference = "",
    ) -> dict[str, Any]:
        """Decide again from the measurements of a finished run,
        with other limits or another preference.
        """
        limits = {
            "budget": budget,
            "size-budget": size_budget,
            "min-accuracy": min_accuracy,
            "prefer": prefer,
        }
        return await self._run(["report", self.folders.path("run", run), *_list_options(limits)])

    async def compare(self, before: RunName, after: RunName) -> dict[str, Any]:
        """Show what changed between two runs,
        and whether the recommendation changed beyond the noise.
        """
        return await self._run(
            ["compare", self.folders.path("before", before), self.folders.path("after", after)]
        )

    async def export(self, run: RunName, to: str, pick: str = "") -> dict[str, Any]:
        """Write the bundle to ship: model, labels, model card, test vectors, code for the app,
        a page to try it.
        """
        paths = [self.folders.path("run", run), "--to", self.folders.path("to", to)]
        return await self._run(["export", *paths, *_list_options({"pick": pick})])

    async def benchmark(self, model: str, threads: str = "1", device: str = "") -> dict[str, Any]:
        """Time a .tflite file on this machine, or on a device:
        measured if it is connected, otherwise predicted.
        """
        options = _list_options({"threads": threads, "device": device})
        return await self._run(["benchmark", self.folders.path("model", model), *options])

    async def devices(self, conditions: Conditions = ()) -> dict[str, Any]:
        """List the known devices with their targets; such a condition is kind=phone."""
        return await self._run(["devices", "list", *_list_filters(conditions)])

    async def catalog(self, conditions: Conditions = ()) -> dict[str, Any]:
        """List the models that can be tried, with published accuracy,
        parameters and multiply-accumulates.

        Such a condition is family=mobilenet* or macs<300M.
        """
        return await self._run(["catalog", "list", *_list_filters(conditions)])

    def _question(
        self,
        budget: str,
        data: str,
        candidates: str,
        device: str,
        size_budget: str,
    ) -> list[str]:
        """Return the options of a question; a candidate with a slash or the end .tflite
        is a path.
        """
        allowed = []
        for name in filter(None, map(str.strip, candidates.split(","))):
            is_path = "/" in name or name.endswith(".tflite")
            allowed.append(self.folders.path("candidates", name) if is_path else name)
        options = {
            "budget": budget,
            "candidates": ",".join(allowed),
            "device": device,
            "size-budget": size_budget,
        }
        return _list_options({**options, "data": self._allow_images(data) if data else ""})

    def _allow_images(self, data: str) -> str:
        """Return the path of images.

        Raises:
            ToolError: a manifest or a link leads to a file outside the folders.
        """
        path = self.folders.path("data", data)
        # The command says what is wrong with it.
        with suppress(UsageError, OSError):
            for entry in list_files(Path(path)).entries:
                self.folders.path("data", str(entry.path))
        return path

    async def _run(
        self,
        arguments: Sequence[str],
        ctx: Context[Any, Any] | None = None,
        total_s: float | None = None,
    ) -> dict[str, Any]:
        """Run a command of this program and return its document.

        Raises:
            ToolError: the command refuses; with its message and hint.
        """
        # With -P, no module comes from the folder, where others may have put one.
        command = [sys.executable, "-P", "-m", "advisor", *arguments, "--json"]
        said: list[str] = []
        environment = {**os.environ, "NO_COLOR": "1"}
        try:
            opened = await anyio.open_process(command, cwd=self.folders.roots[0], env=environment)
        # A path that is too long or has a NUL character raises one of these.
        except (OSError, ValueError) as error:
            raise ToolError(f"an argument cannot be passed on: {error}") from error
        async with opened as process:
            try:
                async with anyio.create_task_group() as group:
                    group.start_soon(_follow, process, said, ctx, total_s)
                    printed = await _read_all(process.stdout)
            except anyio.get_cancelled_exc_class():
                # A signal that can be handled, so that a search saves its state.
                process.terminate()
                raise
        if process.returncode not in ANSWERED or not printed.strip():
            # The error is at the end; the lines before it are progress.
            raise ToolError(("\n".join(said) or f"exit code {process.returncode}")[-LONGEST:])
        document: dict[str, Any] = json.loads(printed)
        return document


async def _read_all(stream: Any) -> str:
    if stream:
        return b"".join([part async for part in stream]).decode("utf-8", "replace")
    return ""


async def _follow(
    process: Process, said: list[str], ctx: Context[Any, Any] | None, total_s: float | None
) -> None:
    """Keep what a command says on standard error, and send each line as
    a progress notification.
    """
    started = time.monotonic()
    rest = ""
    assert process.stderr is not None, "it is a pipe"
    async for text in TextReceiveStream(process.stderr, errors="replace"):
        *lines, rest = (rest + text).split("\n")
        for line in filter(None, lines):
            said.append(line)
            if ctx is not None:
                await ctx.report_progress(time.monotonic() - started, total_s, line)


def _list_options(values: Mapping[str, str]) -> list[str]:
    """Return the options of a command line; one without a value is left out.

    Name and value are one word, so a value cannot become an option.
    """
    return [f"--{name}={value}" for name, value in values.items() if value]


def _list_filters(conditions: Sequence[str]) -> list[str]:
    return [f"--filter={condition}" for condition in conditions]


class _Server(MCPServer[None]):
    """A server that refuses arguments that a tool does not have.

    Without that, a limit with a typing error would be no limit.
    """

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[None, Any] | None = None
    ) -> Any:
        taken = {}
        for tool in await self.list_tools():
            taken[tool.name] = list(tool.input_schema["properties"])
        if name not in taken:
            raise ToolError(
                f"unknown tool '{name}'{nearest(name, taken)}; the tools are {', '.join(taken)}"
            )
        for argument in arguments.keys() - taken[name]:
            raise ToolError(
                f"{name}: unknown argument '{argument}'{nearest(argument, taken[name])}; it takes"
                f" {', '.join(taken[name])}"
            )
        return await super().call_tool(name, arguments, context)

    async def get_prompt(
        self,
        name: str,
        arguments: dict[str, Any] | None = None,
        context: Context[None, Any] | None = None,
    ) -> Never:
        """Refuse: there are no prompts, and the class above logs a traceback."""
        raise MCPError(INVALID_PARAMS, f"unknown prompt '{name}'; this server has tools only")


def make_server(tools: Tools) -> MCPServer[None]:
    """Return the server with all tools."""
    server = _Server(
        "advisor", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING"
    )
    # The server reads name, arguments and docstring of each.
    functions: tuple[Callable[..., Any], ...] = (
        tools.plan,
        tools.search,
        tools.report,
        tools.compare,
        tools.export,
        tools.benchmark,
        tools.devices,
        tools.catalog,
    )
    for function in functions:
        server.tool()(function)
    return server

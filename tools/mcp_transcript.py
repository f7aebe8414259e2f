"""Print a conversation with ``advisor mcp``, which docs/assistants.md shows.

``python -m tools.mcp_transcript FOLDER``: FOLDER is what the assistant may use. It has labelled
images in ``photos/``, and a real search runs on them.
"""

import json
import os
import sys
from pathlib import Path
from textwrap import fill
from typing import Any

import anyio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.shared.dispatcher import ProgressFnT

QUESTION = {"budget": "50ms", "data": "photos", "candidates": "mobilenet_v1_0.25_224"}
CALLS: tuple[tuple[str, dict[str, Any], tuple[str, ...]], ...] = (
    ("plan", QUESTION, ("pictures", "configurations", "price_s", "download_bytes")),
    ("search", {**QUESTION, "time_limit": "3min"}, ("run", "feasible", "reason", "folder")),
    ("report", {"run": "runs/latest", "budget": "0.1ms"}, ("feasible", "reason")),
    ("export", {"run": "runs/latest", "to": "bundle"}, ("key", "path")),
    ("report", {"run": "../other/runs/latest"}, ()),
    ("plan", {"budgte": "50ms"}, ()),
)
"""Each tool with its arguments, and the entries of its answer that are printed."""

WIDTH = 110

SHOWN = 3
"""Progress notifications that are printed of a call."""


async def converse(folder: Path) -> None:
    """Call the tools one after another on a server for ``folder``,
    and print what goes there and comes back.
    """
    command = ["-m", "advisor", "mcp", "--folder", str(folder)]
    parameters = StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ))
    async with Client(parameters) as client:
        for tool, arguments, entries in CALLS:
            print(f"> {tool} {json.dumps(arguments)}")
            said: list[str] = []

            result: Any = await client.call_tool(tool, arguments, progress_callback=_keeper(said))
            answer = result.structured_content or {"error": result.content[0].text}
            more = [f"... {len(said) - SHOWN} more"] if len(said) > SHOWN else []
            # An answer without its entries is an error, which a reader must see.
            shown = entries if set(entries) <= answer.keys() else ()
            answers = [f"< {name}: {answer[name]}" for name in shown or ("error",)]
            for line in (*(f"  progress: {text}" for text in (*said[:SHOWN], *more)), *answers):
                print(fill(line.replace(str(folder), "models"), WIDTH, subsequent_indent="    "))
            print()


def _keeper(said: list[str]) -> ProgressFnT:
    async def keep(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001
        said.append(str(message))

    return keep


if __name__ == "__main__":
    anyio.run(converse, Path(sys.argv[1]).resolve())

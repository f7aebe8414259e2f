"""``advisor mcp`` with the protocol's own client, over standard input and output."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from advisor import catalog
from advisor.core import ExitCode, UsageError, WeightsError
from advisor.integrations.mcp._command import answerable
from advisor.store import cache_root
from tests.builders import must_fail
from tests.processes import PATIENCE_S
from tests.requirements import skip_or_fail
from tests.run_folders import write_run
from tests.tables import with_cases

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("starts_processes")]
CARD = "mobilenet_v1_0.25_224"


def test_tools_are_listed_and_answer_with_documents_and_import_nothing_of_the_folder(tmp_path: Path) -> None:
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters

    command = ["-m", "advisor", "mcp", "--folder", str(tmp_path), "--most-time", "5min"]
    environment = {**os.environ, "ADVISOR_CACHE_DIR": str(tmp_path / "cache")}
    run = write_run(tmp_path / "runs").path
    (tmp_path / "typer.py").write_text("raise SystemExit('imported')")

    async def asked() -> Any:
        with anyio.fail_after(120):
            async with Client(StdioServerParameters(command=sys.executable, args=command, env=environment)) as client:
                question = {"run": f"runs/{run.name}", "budget": "1ms", "prefer": "accuracy"}
                return await client.list_tools(), await client.call_tool("report", question)

    tools, answer = anyio.run(asked)
    listed = {tool.name: tool for tool in tools.tools}
    assert set(listed) == {"plan", "search", "report", "compare", "export", "benchmark", "devices", "catalog"}
    assert "such as 50ms" in listed["search"].input_schema["properties"]["budget"]["description"]
    assert "Find the model to ship" in (listed["search"].description or "")
    reported = answer.structured_content
    assert (reported["feasible"], reported["prefer"]) == (False, "accuracy")
    assert reported["pick"]["configuration"]["card"]


def called(folder: Path, tool: str, arguments: dict[str, Any]) -> Any:
    """Return the result of a tool of a server in this process."""
    from mcp.client.client import Client

    from advisor.integrations.mcp._tools import AssistantFolders, Tools, make_server

    async def work() -> Any:
        async with Client(make_server(Tools(AssistantFolders.of([str(folder)]), most_s=300))) as client:
            return await client.call_tool(tool, arguments)

    return anyio.run(work)


@with_cases
def test_what_is_refused_says_why(tmp_path: Path, tool: str, arguments: Any, words: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    result = called(tmp_path, tool, arguments)
    assert result.is_error
    assert words in result.content[0].text


@pytest.mark.parametrize("named", ["manifest.csv", "photos"])
def test_images_outside_the_folders_are_refused(tmp_path: Path, named: str) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "a.png").touch()
    own = tmp_path / "own"
    (own / "photos" / "cat").mkdir(parents=True)
    (own / "photos" / "cat" / "b.png").touch()
    (own / "photos" / "dog").symlink_to("../../secret")
    (own / "manifest.csv").write_text("path,label\nphotos/cat/b.png,cat\n../secret/a.png,dog\n")
    result = called(own, "plan", {"budget": "50ms", "data": named, "candidates": CARD})
    assert result.is_error
    assert "secret/a.png' is outside the folders" in result.content[0].text or "dog/a.png' is outside" in (
        result.content[0].text
    )


def test_a_link_out_of_the_folder_is_outside(tmp_path: Path) -> None:
    from mcp.server.mcpserver.exceptions import ToolError

    from advisor.integrations.mcp._tools import AssistantFolders

    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "link").symlink_to(tmp_path)
    folders = AssistantFolders.of([str(tmp_path / "open")])
    assert folders.path("data", "photos") == str(tmp_path / "open" / "photos")
    must_fail(ToolError, "data: 'link/secret' is outside", folders.path, "data", "link/secret")
    must_fail(UsageError, "--folder: 'nowhere' is not a folder", AssistantFolders.of, ["nowhere"])


@with_cases
def test_each_request_becomes_one_that_is_answered(rest: str, method: str) -> None:
    sent = answerable(f'{{"jsonrpc": "2.0", "id": 7, {rest}'.encode())
    assert json.loads(sent) == {"jsonrpc": "2.0", "id": 7, "method": method}


def test_half_a_character_is_answered_and_a_signal_ends_it_although_its_input_is_open(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "advisor", "mcp", "--folder", str(tmp_path)]
    begin = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "me", "version": "1"}}
    messages = (
        {"id": 1, "method": "initialize", "params": begin},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "report", "arguments": {"run": "\ud800"}}},
    )
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        for message in messages:
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        process.stdin.flush()
        answers = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == ExitCode.INTERRUPTED
    assert [answer["id"] for answer in answers] == [1, 2]
    assert answers[1]["result"]["isError"]


@pytest.mark.slow
def test_a_search_sends_progress_and_answers(
    tmp_path: Path, photos: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():  # mcp keeps the standard error of its import, which must be a file
        from tools import mcp_transcript

    (tmp_path / "cache").mkdir(exist_ok=True)
    (tmp_path / "cache" / "weights").symlink_to(cache_root() / "weights")
    try:
        catalog.fetch(CARD)
    except WeightsError as error:
        skip_or_fail(f"the weights of {CARD} cannot be fetched: {error.message}")
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path / "cache"))
    # A folder of its own: beside the shared photographs, other tests write runs and bundles.
    folder = Path(shutil.copytree(photos, tmp_path / "home" / "photos")).parent
    anyio.run(mcp_transcript.converse, folder)
    told = capsys.readouterr().out
    assert "  progress: [" in told
    assert "< feasible: True\n" in told
    assert told.count("< error:") == sum(not entries for _, _, entries in mcp_transcript.CALLS)
    assert (folder / "runs" / "latest" / "report.html").is_file()
    assert (folder / "bundle" / "model.tflite").is_file()

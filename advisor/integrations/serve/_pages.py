"""The pages and their addresses, all below the token."""

import contextlib
import json
import math
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlencode

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from advisor import api, devices
from advisor.core import (
    HOST,
    TASKS,
    AdvisorError,
    ExitCode,
    StageError,
    UsageError,
    last_line,
    message_of,
    show_bytes,
)
from advisor.exporting import Answerer
from advisor.integrations.serve._access import REPORT, REPORT_POLICY, Access
from advisor.isolation import ChildProcess, TimedOut, run_program
from advisor.reporting import (
    REPORT as REPORT_FILE,
    SHOWN,
    RunRow,
    Runs,
    RunState,
    changes,
    describe_figures,
    environment,
    figures,
    make_typed_path,
    map_sorts,
)

ANSWERED = (ExitCode.OK, ExitCode.UNSATISFIED, ExitCode.CHANGED)
"""Exit codes of commands that printed an answer."""

LIMIT_S = 3600.0
"""Seconds after which a command is stopped."""

LINES = 200
"""Lines of progress that are kept."""

FORM_BYTES = 10_000
ROWS = 100
"""Runs that a page of the list shows."""
LABELLED = 12
"""Objects that a photograph shows with their class; more are shown with their score, their colour says the class."""


def _command(arguments: Sequence[str]) -> list[str]:
    # With -P, no module comes from the current folder, where others may have put one.
    return [sys.executable, "-P", "-m", "advisor", *arguments, "--json"]


def _environment() -> dict[str, str]:
    # A page shows the lines as text, where escape sequences of a terminal would be visible.
    return {**os.environ, "NO_COLOR": "1", "ADVISOR_PROGRESS": "lines"}


@dataclass
class ReevaluationJob:
    """A re-evaluation."""

    device: str  #: the device that it is for; empty for this machine
    lines: list[str] = field(default_factory=list)  #: what the command said on standard error
    ended: bool = False  #: it has ended
    #: the document that it printed; empty while it runs, and if it failed.
    answer: Mapping[str, Any] = field(default_factory=dict)


class Reevaluations:
    """The last re-evaluation of each run. One runs at a time, because they measure."""

    def __init__(self) -> None:
        self._jobs: dict[str, ReevaluationJob] = {}
        self._process: ChildProcess | None = None
        self._lock = threading.Lock()

    def of(self, run: str) -> ReevaluationJob | None:
        """Return the last re-evaluation of a run by its name."""
        return self._jobs.get(run)

    def start(self, run: Path, device: str) -> None:
        """Start a re-evaluation of a run, for a device if one is named. Raises UsageError: another one is running."""
        with self._lock:
            busy = next((name for name, job in self._jobs.items() if not job.ended), "")
            if busy:
                raise UsageError(f"'{busy}' is being re-evaluated", "wait until this has ended")
            # Joined by "=", so that a name from a form cannot become another option.
            options = [f"--device={device}"] if device else []
            try:
                command = _command(["reevaluate", str(run), *options])
                self._process = ChildProcess(command, environment=_environment())
            # A NUL character in a path raises it.
            except ValueError as error:
                raise UsageError(
                    f"{device!a} is not the name of a device ({error})", "choose one of the list"
                ) from None
            job = ReevaluationJob(device)
            self._jobs[run.name] = job
        threading.Thread(target=self._follow, args=(self._process, job), daemon=True).start()

    def close(self) -> None:
        """End the command that runs."""
        if self._process is not None and self._process.status is None:
            self._process.send(signal.SIGTERM)

    def _follow(self, process: ChildProcess, job: ReevaluationJob) -> None:
        timer = threading.Timer(LIMIT_S, process.send, (signal.SIGTERM,))
        timer.start()
        printed: list[bytes] = []
        stdout = process.popen.stdout
        stderr = process.popen.stderr
        assert stdout is not None, "it is a pipe"
        assert stderr is not None, "it is a pipe"
        # Both pipes are read at once: a command that fills one of them would wait without end.
        reader = threading.Thread(target=lambda: printed.append(stdout.read()))
        reader.start()
        for line in stderr:
            job.lines[:] = [*job.lines, line.decode(errors="replace").rstrip()][-LINES:]
        reader.join()
        timer.cancel()
        status = process.popen.wait()
        if status in ANSWERED:
            with contextlib.suppress(ValueError):
                job.answer = json.loads(b"".join(printed))
        elif status < 0:
            job.lines.append("stopped")
        # Last: a page that sees the end also shows the answer.
        job.ended = True


def zip_bundle(run: Path, folder: Path) -> Path:
    """Export the pick of a run to ``folder``, and return the bundle as a zip file; StageError if it is refused."""
    command = _command(["export", str(run), "--to", str(folder / "bundle")])
    try:
        # In another process, because files of a run can crash or hang the runtime (decision 0008).
        done = run_program(command, timeout_s=LIMIT_S, environment=_environment())
    except TimedOut:
        raise StageError("the export took too long", "try it on the command line: advisor export") from None
    if done.status != ExitCode.OK:
        errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        said = last_line(done.stderr) or "the export failed"
        raise StageError(errors[-1].removeprefix("error: ") if errors else said)
    return Path(shutil.make_archive(str(folder / run.name), "zip", folder / "bundle"))


class Pages:
    """The pages of one server."""

    def __init__(self, runs: Runs, access: Access) -> None:
        self._runs = runs
        self._access = access
        self._reevaluations = Reevaluations()
        self._answerer: Answerer | None = None

    def app(self) -> ASGIApp:
        """Return the application; without the token nothing is answered."""
        run = "/runs/{run}"
        post = ["POST"]
        pages = [
            Route("/", self.list_runs),
            Mount(
                "/assets",
                StaticFiles(packages=[("advisor.integrations.serve", "assets"), ("advisor.reporting", "assets")]),
            ),
            Route("/compare", self.compare),
            Route(f"{run}/", self.show_run),
            Route(f"{run}/bundle.zip", self.bundle),
            Route(f"{run}/reevaluate", self.reevaluate, methods=post),
            Route(f"{run}/photograph", self.photograph, methods=post),
        ]
        return self._access.guard(
            Starlette(
                # The report first: the pattern of the token also matches its address.
                routes=[Route(f"/{REPORT}/{{key}}/{{run}}", self.report), Mount("/{token}", routes=pages)],
                lifespan=self._lifespan,
                exception_handlers={404: self._missing, AdvisorError: self._refuse, OSError: self._refuse},
            )
        )

    @asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        with Answerer() as self._answerer:
            yield
            self._reevaluations.close()

    @cached_property
    def _devices(self) -> tuple[str, ...]:
        """Names of the devices to re-evaluate for; reading all profiles takes a second."""
        return tuple(profile.name for profile in devices.list_devices() if profile.name != HOST)

    def _names(self) -> list[str]:
        """Return the names of the runs that an address can have: those that are UTF-8."""
        return [name for name in self._runs.names() if name.encode(errors="replace").decode() == name]

    def list_runs(self, request: Request) -> Response:
        """The list of runs, sorted and filtered as the address says."""
        asked = request.query_params
        words = asked.get("words", "")
        state = asked.get("state", "")
        sort = asked.get("sort", "") if asked.get("sort", "") in map_sorts() else "name"
        _, key, falling = map_sorts()[sort]
        falling ^= "turned" in asked
        rows = list(self._runs.rows())
        linked = self._names()
        rows_of_state = [row for row in rows if state in ("", row.state)]
        shown = [row for row in rows_of_state if _has(row, words.casefold().split())]
        filters = {name: value for name, value in (("words", words), ("state", state)) if value}
        pages = max(1, math.ceil(len(shown) / ROWS))
        first = 0
        if asked.get("page", "").isdecimal():
            # Nine digits at most: an address may hold a number of any length.
            first = min(max(int(asked["page"][:9]), 1), pages) - 1
        order = {**filters, "sort": sort}
        if "turned" in asked:
            order["turned"] = "1"
        near = (("Previous", first), ("Next", first + 2))
        return self._show(
            "runs",
            rows=sorted(shown, key=key, reverse=falling)[first * ROWS : (first + 1) * ROWS],
            found=len(shown),
            page=first + 1,
            pages=pages,
            near=[(title, urlencode({**order, "page": page})) for title, page in near if 0 < page <= pages],
            all=len(rows),
            linked=linked,
            folder=make_typed_path(self._runs.folder),
            states=list(RunState),
            words=words,
            state=state,
            sort=sort,
            falling=falling,
            columns=[
                (name, map_sorts()[name][0], _sort_query(name, sort, "turned" in asked, filters))
                for name in map_sorts()
            ],
        )

    def show_run(self, request: Request) -> Response:
        """One run."""
        row = self._runs.row(request.path_params["run"])
        job = self._reevaluations.of(row.name)
        return self._show(
            "run",
            row=row,
            job=job,
            folder=make_typed_path(self._runs.folder),
            report=f"{self._access.report(row.name)}/{quote(row.name)}",
            names=self._names(),
            devices=self._devices if row.state is RunState.FINISHED else (),
            most=Answerer.MOST_BYTES,
            answers=row.task in TASKS,
            live=row.state is RunState.RUNNING or (job is not None and not job.ended),
        )

    def report(self, request: Request) -> Response:
        """The report of a run, as it is in its folder."""
        row = self._runs.row(request.path_params["run"])
        if not row.report or row.state is RunState.DAMAGED:
            raise UsageError(f"'{row.name}' has no report that can be shown", f"advisor report {row.name} writes it")
        headers = {"content-security-policy": REPORT_POLICY}
        return HTMLResponse((self._runs.path(row.name) / REPORT_FILE).read_bytes(), headers=headers)

    def compare(self, request: Request) -> Response:
        """Return the page with the changes between two runs."""
        before = request.query_params.get("before", "")
        after = request.query_params.get("after", "")
        comparison = api.compare(self._runs.path(before), self._runs.path(after)) if before and after else None
        return self._show(
            "comparison",
            before=before,
            after=after,
            names=self._names(),
            found=comparison,
            topics=list(changes(comparison)) if comparison else [],
            most=SHOWN,
        )

    def bundle(self, request: Request) -> Response:
        """The bundle of the pick as a zip file."""
        run = self._runs.path(request.path_params["run"])
        folder = tempfile.TemporaryDirectory(prefix="advisor-bundle-")
        try:
            archive = zip_bundle(run, Path(folder.name))
        except BaseException:
            folder.cleanup()
            raise
        # The folder must stay until the file is sent.
        return FileResponse(archive, filename=f"{run.name}-bundle.zip", background=BackgroundTask(folder.cleanup))

    async def reevaluate(self, request: Request) -> Response:
        """Start a re-evaluation, and show the run with its progress."""
        form = parse_qs((await self._access.read_body(request, FORM_BYTES)).decode("utf-8", "replace"))
        row = self._runs.row(request.path_params["run"])
        if row.state is not RunState.FINISHED:
            raise UsageError(f"'{row.name}' is {row.state}", "only finished runs are re-evaluated")
        self._reevaluations.start(self._runs.path(row.name), form.get("device", [""])[0])
        # 303, so that loading the page again does not start another re-evaluation.
        return RedirectResponse("./", 303)

    async def photograph(self, request: Request) -> Response:
        """Return the answers of the files of the pick's network to the photograph that is sent."""
        assert self._answerer is not None, "the server has started"
        try:
            photograph = await self._access.read_body(request, Answerer.MOST_BYTES)
            run = self._runs.path(request.path_params["run"])
            answers = await run_in_threadpool(self._answerer.answer, run, photograph)
        except AdvisorError as error:
            return self._show("photograph", 400, error=error)
        return self._show("photograph", answers=answers, error=None, labelled=LABELLED)

    async def _refuse(self, _request: Request, error: Exception) -> Response:
        hint = getattr(error, "hint", "does the folder still exist?")
        return self._show("error", 400, message=message_of(error), hint=hint)

    async def _missing(self, _request: Request, _error: Exception) -> Response:
        return self._show("error", 404, message="There is no such page.", hint="")

    def _show(self, template: str, status: int = 200, **values: object) -> HTMLResponse:
        values |= {"root": self._access.root, "figures": figures, "origins": describe_figures}
        values |= {"title": lambda evaluation: evaluation.name, "show_bytes": show_bytes}
        page = environment("advisor.integrations.serve").get_template(f"{template}.html.j2")
        # A name of a file can hold bytes that are no text, which UTF-8 cannot encode.
        return HTMLResponse(page.render(**values).encode("utf-8", "backslashreplace"), status)


def _has(row: RunRow, words: list[str]) -> bool:
    """Return whether each word is somewhere in the row."""
    limits = [f"{name} {value}" for name, value in row.limits]
    text = " ".join((row.name, row.state, row.task, row.model, *limits)).casefold()
    return all(word in text for word in words)


def _sort_query(name: str, sort: str, turned: bool, filters: Mapping[str, str]) -> str:
    """Return the query of a heading: it sorts by its column, and turns the order if that is so already."""
    query = {**filters, "sort": name}
    if name == sort and not turned:
        query["turned"] = "1"
    return urlencode(query)

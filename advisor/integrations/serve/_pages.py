"""The pages of ``advisor serve`` and their addresses, all below the token.

:class:`Pages` reads runs by :class:`advisor.reporting.Runs` and renders the templates of this
folder; the keywords of :meth:`Pages._show` are the names that a template uses. Pages link to each
other by relative addresses. Everything from a run is escaped by the templates.
"""

import math
import shlex
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
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
    UsageError,
    message_of,
    show_bytes,
)
from advisor.integrations.serve._access import REPORT, REPORT_POLICY, Access
from advisor.integrations.serve._jobs import Reevaluations, zip_bundle
from advisor.integrations.serve._phone import PhonePages
from advisor.reporting import Answerer, RunRow, Runs, environment, list_topics, make_typed_path

FORM_BYTES = 10_000
"""Largest form that a page sends."""

ROWS = 100
"""Runs that a page of the list shows."""

LABELLED = 12
"""Objects that a photograph shows with their class. More are shown with their score alone, and
their colour says the class.
"""


class Pages:
    """The pages of one server."""

    def __init__(self, runs: Runs, access: Access) -> None:
        self._runs = runs
        self._access = access
        self._reevaluations = Reevaluations()
        self._phone_pages = PhonePages()
        self._answerer: Answerer | None = None

    def app(self) -> ASGIApp:
        """Return the application; without the token nothing is answered."""
        run = "/runs/{run}"
        post = ["POST"]
        folders: list[str | tuple[str, str]] = [
            ("advisor.integrations.serve", "assets"),
            ("advisor.reporting", "assets"),
        ]
        assets = StaticFiles(packages=folders)
        pages = [
            Route("/", self.list_runs),
            Mount("/assets", assets),
            Route("/compare", self.compare),
            Route(f"{run}/", self.show_run),
            Route(f"{run}/bundle.zip", self.bundle),
            Route(f"{run}/reevaluate", self.reevaluate, methods=post),
            Route(f"{run}/photograph", self.photograph, methods=post),
            Route(f"{run}/phone", self.open_for_phones, methods=post),
            Route(f"{run}/phone/end", self.close_for_phones, methods=post),
        ]
        return self._access.guard(
            Starlette(
                # The report first: the pattern of the token also matches its address.
                routes=[
                    Route(f"/{REPORT}/{{key}}/{{run}}", self.report),
                    Mount("/{token}", routes=pages),
                ],
                lifespan=self._lifespan,
                exception_handlers={
                    404: self._missing,
                    AdvisorError: self._refuse,
                    OSError: self._refuse,
                },
            )
        )

    @asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        with Answerer() as self._answerer:
            yield
            self._reevaluations.close()
            await run_in_threadpool(self._phone_pages.end)

    @cached_property
    def _devices(self) -> tuple[str, ...]:
        """Names of the devices to re-evaluate for; reading all profiles takes a second."""
        return tuple(profile.name for profile in devices.list_devices() if profile.name != HOST)

    def _names(self) -> list[str]:
        """Return the names of the runs that an address can have: those that are UTF-8."""
        names = []
        for name in self._runs.names():
            if name.encode(errors="replace").decode() == name:
                names.append(name)
        return names

    def list_runs(self, request: Request) -> Response:
        """Return the list of runs, sorted and filtered as the address says."""
        asked = request.query_params
        words = asked.get("words", "")
        state = asked.get("state", "")
        turned = "turned" in asked
        columns = self._runs.columns
        sort = asked.get("sort", "") if asked.get("sort", "") in columns else "name"
        falling = columns[sort].falls ^ turned
        rows = list(self._runs.rows())
        rows_of_state = [row for row in rows if state in ("", row.state)]
        shown = [row for row in rows_of_state if _has_words(row, words.casefold().split())]
        shown.sort(key=columns[sort].key, reverse=falling)
        filters = {}
        for name, value in (("words", words), ("state", state)):
            if value:
                filters[name] = value
        order = {**filters, "sort": sort}
        if turned:
            order["turned"] = "1"
        pages = max(1, math.ceil(len(shown) / ROWS))
        page = _read_page(asked.get("page", ""), pages)
        headings = []
        for name, column in columns.items():
            headings.append((name, column.title, _sort_query(name, sort, turned, filters)))
        return self._show(
            "runs",
            rows=shown[(page - 1) * ROWS : page * ROWS],
            found=len(shown),
            page=page,
            pages=pages,
            near=_list_neighbours(page, pages, order),
            all=len(rows),
            linked=self._names(),
            folder=make_typed_path(self._runs.folder),
            typed=self._type_path(),
            states=Runs.STATES,
            words=words,
            state=state,
            sort=sort,
            falling=falling,
            columns=headings,
        )

    def _type_path(self, run: str = "") -> str:
        """Return the folder of the runs, or one of them, as a word of a shell."""
        return shlex.quote(make_typed_path(self._runs.folder / run))

    def show_run(self, request: Request) -> Response:
        """Return the page of one run."""
        row = self._runs.row(request.path_params["run"])
        job = self._reevaluations.of(row.name)
        phone = self._phone_pages.of(row.name)
        works = (job is not None and not job.ended) or (phone is not None and not phone.ended)
        measurable = self._devices if row.is_finished else ()
        return self._show(
            "run",
            row=row,
            job=job,
            phone=phone,
            typed=self._type_path(row.name),
            report=f"{self._access.report(row.name)}/{quote(row.name)}",
            names=self._names(),
            devices=measurable,
            most=Answerer.MOST_BYTES,
            answers=row.task in TASKS,
            live=row.is_running or works,
        )

    def report(self, request: Request) -> Response:
        """Return the report of a run, as it is in its folder."""
        name = request.path_params["run"]
        page = self._runs.read_report(name)
        if page is None:
            raise UsageError(
                f"'{name}' has no report that can be shown",
                f"advisor report {self._type_path(name)} writes it",
            )
        headers = {"content-security-policy": REPORT_POLICY}
        return HTMLResponse(page, headers=headers)

    def compare(self, request: Request) -> Response:
        """Return the page with the changes between two runs."""
        before = request.query_params.get("before", "")
        after = request.query_params.get("after", "")
        comparison = None
        if before and after:
            comparison = api.compare(self._runs.path(before), self._runs.path(after))
        return self._show(
            "comparison",
            before=before,
            after=after,
            names=self._names(),
            comparison=comparison,
            topics=list(list_topics(comparison)) if comparison else [],
        )

    def bundle(self, request: Request) -> Response:
        """Return the bundle of the pick as a zip file."""
        run = self._runs.path(request.path_params["run"])
        folder = tempfile.TemporaryDirectory(prefix="advisor-bundle-")
        try:
            archive = zip_bundle(run, Path(folder.name))
        except BaseException:
            folder.cleanup()
            raise
        # The folder must stay until the file is sent.
        return FileResponse(
            archive, filename=f"{run.name}-bundle.zip", background=BackgroundTask(folder.cleanup)
        )

    async def reevaluate(self, request: Request) -> Response:
        """Start a re-evaluation, and show the run with its progress."""
        form = await self._read_form(request)
        row = self._runs.row(request.path_params["run"])
        if not row.is_finished:
            raise UsageError(f"'{row.name}' is {row.state}", "only finished runs are re-evaluated")
        self._reevaluations.start(self._runs.path(row.name), form.get("device", [""])[0])
        # 303, so that loading the page again does not start another re-evaluation.
        return RedirectResponse("./", 303)

    async def _read_form(self, request: Request) -> dict[str, list[str]]:
        body = await self._access.read_body(request, FORM_BYTES)
        return parse_qs(body.decode("utf-8", "replace"))

    async def open_for_phones(self, request: Request) -> Response:
        """Open the page of a run to phones of the network, and show the run with the QR code."""
        form = await self._read_form(request)
        run = self._runs.path(request.path_params["run"])
        self._phone_pages.start(run, form.get("address", [""])[0].strip())
        return RedirectResponse("./", 303)

    async def close_for_phones(self, request: Request) -> Response:
        """End the page for phones, and show the run."""
        run = self._runs.path(request.path_params["run"])
        if self._phone_pages.of(run.name) is not None:
            await run_in_threadpool(self._phone_pages.end)
        return RedirectResponse("../", 303)

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
        values |= {"root": self._access.root}
        values |= {"title": lambda evaluation: evaluation.name, "show_bytes": show_bytes}
        page = environment("advisor.integrations.serve").get_template(f"{template}.html.j2")
        # A name of a file can hold bytes that are no text, which UTF-8 cannot encode.
        return HTMLResponse(page.render(**values).encode("utf-8", "backslashreplace"), status)


def _read_page(text: str, pages: int) -> int:
    """Return the number of a page of the list, from 1; another text is the first one."""
    if not text.isdecimal():
        return 1
    # Nine digits at most: an address may hold a number of any length.
    return min(max(int(text[:9]), 1), pages)


def _list_neighbours(page: int, pages: int, order: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return title and query of the pages before and after one, as far as there are some."""
    neighbours = []
    for title, number in (("Previous", page - 1), ("Next", page + 1)):
        if 0 < number <= pages:
            neighbours.append((title, urlencode({**order, "page": number})))
    return neighbours


def _has_words(row: RunRow, words: list[str]) -> bool:
    """Return whether each word is somewhere in the row."""
    limits = [f"{name} {value}" for name, value in row.limits]
    text = " ".join((row.name, row.state, row.task, row.model, *limits)).casefold()
    return all(word in text for word in words)


def _sort_query(name: str, sort: str, turned: bool, filters: Mapping[str, str]) -> str:
    """Return the query of a heading: it sorts by its column, or turns that order."""
    query = {**filters, "sort": name}
    if name == sort and not turned:
        query["turned"] = "1"
    return urlencode(query)

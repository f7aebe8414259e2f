"""The addresses of the page of ``advisor try``, all below the token of its server.

:class:`PageRoutes` answers requests of browsers with what ``_trial.py``, ``_timings.py``
and ``_photographs.py`` give. The addresses and the keys of answers are those that
``tryout.js`` asks for.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route

from advisor.core import AdvisorError, message_of
from advisor.integrations.browser.tryout._photographs import (
    Keeper,
    describe_weakness,
    list_weak_classes,
)
from advisor.integrations.browser.tryout._timings import MOST_BYTES, Recorder
from advisor.integrations.browser.tryout._trial import SMALL_SIDE, RunPage, Sample
from advisor.reporting import Answerer

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from advisor.cli import LocalServer

ISOLATED = {"cross-origin-embedder-policy": "require-corp"}
"""With the policy of the opener that every answer has, a page may have threads."""

WORKER_POLICY = (
    "default-src 'none'; script-src 'self' blob: 'wasm-unsafe-eval'; connect-src 'self';"
    " worker-src 'self'"
)
"""Only scripts of the page can make an address that begins with ``blob:``;
WebGPU's runtime is loaded by two.
"""


@dataclass
class PageRoutes:
    """The pages of one server."""

    trial: RunPage  #: the run
    server: LocalServer  #: who may ask
    recorder: Recorder  #: takes the timings of pages
    keeper: Keeper | None = None  #: keeps photographs; None if none are kept

    def app(self) -> ASGIApp:
        """Return the application; without the token nothing is answered."""
        routes = [
            Route("/", self.show_page),
            Route("/samples", self.list_samples),
            Route("/timings", self.record_timings, methods=["POST"]),
            Route("/samples/{number:int}.jpg", self.show_sample),
            # Last, because its pattern matches every address.
            Route("/{name:path}", self.show_asset),
        ]
        if self.keeper is not None:
            # Not at the end: the route of the assets there would take this address.
            routes.insert(1, Route("/photographs", self.keep_photograph, methods=["POST"]))
        handlers = {404: _refuse_unknown, AdvisorError: _refuse}
        return self.server.guard(
            Starlette(routes=[Mount("/{token}", routes=routes)], exception_handlers=handlers)
        )

    @cached_property
    def _samples(self) -> list[tuple[Sample, bytes]]:
        return self.trial.shown_samples()

    def show_page(self, _request: Request) -> Response:
        """Return the page."""
        weak = ""
        first = ""
        if self.keeper is not None:
            weak = describe_weakness(self.trial, self.keeper)
            weak_classes = list_weak_classes(self.trial)
            first = weak_classes[0].label if weak_classes else ""
        page = self.trial.page(weak, first)
        # The page has its own policy inside, which names its scripts by their hashes.
        headers = {**ISOLATED, "content-security-policy": "frame-ancestors 'none'"}
        return Response(page, media_type="text/html", headers=headers)

    def show_asset(self, request: Request) -> Response:
        """Return a file that the page loads."""
        asset = self.trial.asset(request.path_params["name"])
        if asset is None:
            return PlainTextResponse("There is no such file.\n", 404)
        # Timings load the runtime once more, from the cache of the browser.
        headers = {
            **ISOLATED,
            "content-security-policy": WORKER_POLICY,
            "cache-control": "private, max-age=3600",
        }
        if asset.packed:
            headers["content-encoding"] = "gzip"
        return Response(asset.content, media_type=asset.kind, headers=headers)

    async def list_samples(self, _request: Request) -> Response:
        """Return the images of the gallery."""
        # Images are decoded in child processes, and the event loop must answer others meanwhile.
        samples = await run_in_threadpool(lambda: self._samples)
        rows = []
        for number, (sample, content) in enumerate(samples):
            rows.append(
                {
                    "image": _shrink(content),
                    "said": sample.said,
                    "file": f"samples/{number}.jpg",
                }
            )
        return JSONResponse({"samples": rows})

    async def record_timings(self, request: Request) -> Response:
        """Write the timings of a page as a run."""
        body = await self.server.read_body(request, MOST_BYTES)
        return JSONResponse(await run_in_threadpool(self.recorder.record, body))

    async def keep_photograph(self, request: Request) -> Response:
        """Keep a photograph with the class that the person says."""
        assert self.keeper is not None, "there is no such address without it"
        content = await self.server.read_body(request, Answerer.MOST_BYTES)
        label = request.query_params.get("class", "")
        device = request.query_params.get("device", "")
        said = await run_in_threadpool(self.keeper.keep, content, label, device)
        return JSONResponse({"said": said, "weak": describe_weakness(self.trial, self.keeper)})

    def show_sample(self, request: Request) -> Response:
        """Return one of these images."""
        number = request.path_params["number"]
        if number >= len(self._samples):
            return PlainTextResponse("There is no such image.\n", 404)
        return Response(self._samples[number][1], media_type="image/jpeg")


def _shrink(content: bytes) -> str:
    """Return a JPEG of ours smaller, as an address that holds it."""
    from PIL import Image

    small = BytesIO()
    with Image.open(BytesIO(content)) as image:
        image.thumbnail((SMALL_SIDE, SMALL_SIDE))
        image.save(small, "JPEG", quality=70)
    return f"data:image/jpeg;base64,{base64.b64encode(small.getvalue()).decode()}"


def _refuse_unknown(_request: Request, _error: Exception) -> Response:
    return PlainTextResponse("There is no such page.\n", 404)


def _refuse(_request: Request, error: Exception) -> Response:
    hint = getattr(error, "hint", "")
    message = message_of(error)
    return JSONResponse({"error": f"{message}: {hint}" if hint else message}, 400)

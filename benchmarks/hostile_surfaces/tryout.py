"""Requests to ``advisor try``: addresses, timings that lie, and photographs with something else in their file."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any
from urllib.parse import quote

from advisor.integrations.browser.tryout._photographs import Keeper
from benchmarks.hostile_surfaces.ground import Case, Ground
from benchmarks.hostile_surfaces.serve import TEXTS
from tests.integrations.browser.tried import pages_of, read_posted, write_tried_run
from tests.integrations.serve.client import Client
from tests.integrations.serve.shown import photograph

PATHS = ("{0}", "?{0}={0}", "files/{0}", "files/{0}.tflite", "measured/{0}.tflite", "samples/{0}", "samples/{0}.jpg")
VALUES = ("NaN", "-Infinity", "1e400", "-1", "0", "true", "null", '""', "[]", "{}", "[[[[]]]]", "9" * 5000, '"\\ud800"')
TAILS = (b"", b"<script>alert(1)</script>", b"PK\x03\x04", b"%PDF-1.7", b"<?php ?>", b"\0" * 100_000, b"\x7fELF")


def cases(ground: Ground) -> Iterator[Case]:
    """Yield addresses with each text, timings with each value in each place, and files of several kinds at once."""
    run = write_tried_run(ground.folder / "tried")
    pages = pages_of(run, None)
    pages.keeper = Keeper.of(ground.folder / "photographs", pages.trial, lambda _line: None)
    client = Client(pages.app(), pages.server)
    runs = len(list(run.path.parent.iterdir()))

    def ask(path: str, body: bytes | None, most: int) -> None:
        answer = client.get(f"{client.access.root}/{path}") if body is None else client.change(f"/{path}", body)
        assert answer.status_code < most, answer.text
        assert len(list(run.path.parent.iterdir())) == runs, "a lie became a run"

    for number, text in enumerate(TEXTS):
        value = quote(text.encode("utf-8", "surrogatepass"))
        for path in PATHS:
            yield f"{path}, {number}", partial(ground.call, ask, path.format(value), None, 500)
    for place in ("form", "threads", "runtime_ms", "load_ms", "first_ms", "heap_bytes", "blocks"):
        for value in VALUES:
            posted: Any = read_posted()
            posted["series"][1] |= {"form": 0, place: "PLACE"}  # a file twice, which no value repairs
            body = json.dumps(posted).replace('"PLACE"', value).encode()
            yield f"timings, {place}, {value[:20]}", partial(ground.call, ask, "timings", body, 500)
    for head in (photograph(), photograph()[:60], b"\xff\xd8\xff", b"GIF89a", b""):
        for number, tail in enumerate(TAILS):
            where = "photographs?class=green&device=%00"
            yield f"photograph, {head[:4]!r}, {number}", partial(ground.call, ask, where, head + tail, 500)

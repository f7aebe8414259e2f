"""Requests to ``advisor try``: addresses, timings that lie, and photographs with something else in their file."""

import json
from collections.abc import Iterator, Mapping
from functools import partial, reduce
from itertools import product
from typing import Any
from urllib.parse import quote

from advisor.integrations.browser.tryout._photographs import Keeper
from benchmarks.hostile_surfaces.ground import Case, Ground
from benchmarks.hostile_surfaces.serve import TEXTS
from tests.integrations.browser.tried import TOKEN, pages_of, read_posted, write_tried_run
from tests.integrations.serve.client import Client
from tests.integrations.serve.shown import photograph

PATHS = ("{0}", "?{0}={0}", "files/{0}", "files/{0}.tflite", "measured/{0}.tflite", "samples/{0}", "samples/{0}.jpg")
VALUES = ("NaN", "-Infinity", "1e400", "-1", "0", "true", "null", '""', "[]", "{}", "[[[[]]]]", "9" * 5000, '"\\ud800"')
HOSTS = ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "0.0.0.0", "[::]", "2130706433", "a b")
PORTS = ("", ":8000", ":80", ":8000@evil.example")
LIES = ("NaN", "Infinity", "-1", "1e400", '"1"', "null", "{}", "-1e-9")
OWN = {"origin": "{own}"}
TAILS = (b"", b"<script>alert(1)</script>", b"PK\x03\x04", b"%PDF-1.7", b"<?php ?>", b"\0" * 100_000, b"\x7fELF")


Request = tuple[str, str, Mapping[str, str], int, bytes]
"""Method, path, headers, status of the answer, and content; ``{root}`` and ``{own}`` stand for those of the server."""


def list_requests() -> Iterator[Request]:
    """Yield requests made from good ones: guessed tokens, other hosts, and timings that are cut or lie."""
    letters = (TOKEN[:place] + "u" + TOKEN[place + 1 :] for place in range(len(TOKEN)))
    for token in (*letters, *(TOKEN[:length] for length in range(0, len(TOKEN), 4)), TOKEN.upper(), f"{TOKEN}t"):
        yield "GET", f"/{token}/", {}, 403, b""
    for host, port in product(HOSTS, PORTS):
        yield "GET", "{root}/", {"host": f"{host}{port}"}, 403, b""
    good = json.dumps(read_posted())
    # A phone that goes away half-way sends a part.
    for place in range(0, len(good), len(good) // 40):
        yield "POST", "{root}/timings", OWN, 400, good[:place].encode()
    fields = ("form", "threads", "runtime_ms", "load_ms", "first_ms")
    places: list[list[Any]] = [["device", "cores"], *(["series", one, name] for one in (0, 1) for name in fields)]
    places += [["series", 0, "blocks", block, "elapsed_ms"] for block in range(8)]
    places += [["series", 1, "blocks", 0, "times", one] for one in range(3)]
    for (*path, name), value in product(places, LIES):
        posted: Any = read_posted()
        reduce(lambda part, key: part[key], path, posted)[name] = "PLACE"
        yield "POST", "{root}/timings", OWN, 400, json.dumps(posted).replace('"PLACE"', value).encode()


def send(client: Client, method: str, path: str, headers: Mapping[str, str], content: bytes = b"") -> Any:
    """Return the answer to a request of :func:`list_requests`."""
    stated = {name: value.replace("{own}", client.own) for name, value in headers.items()}
    return client.request(method, path.replace("{root}", client.access.root), headers=stated, content=content)


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

    def refuse(request: Request) -> None:
        method, path, headers, status, content = request
        assert send(client, method, path, headers, content).status_code == status, path
        assert len(list(run.path.parent.iterdir())) == runs, "a lie became a run"

    for number, request in enumerate(list_requests()):
        yield f"request {number}: {request[1][:20]}", partial(ground.call, refuse, request)
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

"""Object stores that list without end, lie about what they have, or send something else: no copy is wrong."""

import itertools
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from advisor.store import copy_from_store
from benchmarks.hostile_surfaces.archives import jpeg
from benchmarks.hostile_surfaces.damages import BROKEN
from benchmarks.hostile_surfaces.ground import Case, Ground
from tests.makers.stores import KEYS

PAGE = """<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>photos</Name>
<IsTruncated>{more}</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>{rows}</ListBucketResult>"""
ROW = """<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>"{etag}"</ETag>
<Size>{size}</Size></Contents>"""
IMAGES = {f"animals/{('cat', 'dog')[number % 2]}/{number}.jpg": jpeg(number) for number in range(4)}
KEYS_OF_ROWS = (
    *("animals/../../x.jpg", "animals//x.jpg", "animals/", "animals/a\u202eb.jpg", "animals/" + "a" * 900, "x"),
    *("animals/cat", "animals/.x", "animals/cat/0.jpg", "/animals/x.jpg", "animals/x\u0085.jpg"),
)
SIZES = ("-1", "0", "x", "", "1e400", "99999999999999", "7")
TOKENS = {"same": "t", "in turns": "t{1}", "new": "t{0}", "empty": ""}
CODES = (301, 400, 403, 404, 429, 500, 503)

Answer = tuple[int, Mapping[str, str], bytes]


def cases(ground: Ground) -> Iterator[Case]:
    """Yield answers to the listing and to the requests for objects, from a server of this machine."""
    store = Store()
    ground.held.callback(store.close)
    cache = str(ground.folder / "store")
    ground.set_variables({**KEYS, "AWS_ENDPOINT_URL": store.url, "AWS_MAX_ATTEMPTS": "1", "ADVISOR_CACHE_DIR": cache})
    rows = listed(IMAGES)
    for name, token in TOKENS.items():
        yield f"token {name}", partial(_fetch, ground, store, {"more": "true", "token": token})
    for number, key in enumerate(KEYS_OF_ROWS):
        more = ROW.format(key=key, etag="e", size=3)
        yield f"key {number}", partial(_fetch, ground, store, {"rows": rows + more})
    for number, size in enumerate(SIZES):
        text = rows.replace(f"<Size>{len(next(iter(IMAGES.values())))}</Size>", f"<Size>{size}</Size>", 1)
        yield f"size {number}", partial(_fetch, ground, store, {"rows": text})
    for number, text in enumerate(BROKEN):
        yield f"listing {number}", partial(_fetch, ground, store, {"page": text})
        etag = text[:100].encode("ascii", "ignore").decode()
        yield f"version {number}", partial(_fetch, ground, store, {"etag": etag})
    for code in CODES:
        yield f"listing {code}", partial(_fetch, ground, store, {"list_code": str(code)})
        yield f"object {code}", partial(_fetch, ground, store, {"code": str(code)})
    for name in ("shorter", "longer", "other", "nothing"):
        yield f"bytes {name}", partial(_fetch, ground, store, {"bytes": name})


def listed(images: Mapping[str, bytes]) -> str:
    return "".join(ROW.format(key=key, etag=f"e{len(data)}", size=len(data)) for key, data in images.items())


class Store:
    """A server that answers as a case says."""

    def __init__(self) -> None:
        self.wrong: Mapping[str, str] = {}
        self._count = itertools.count()
        answer = self._answer

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                code, headers, body = answer(self.path, self.headers.get("Range", ""))
                self.send_response(code)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_HEAD = do_GET  # noqa: N815

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, path: str, part: str) -> Answer:
        key = path.partition("?")[0].removeprefix("/photos/")
        if key not in IMAGES:
            return self._page()
        data = IMAGES[key]
        first, _, last = part.removeprefix("bytes=").partition("-")
        whole = f"bytes {first or 0}-{last or len(data) - 1}/{len(data)}"
        data = data[int(first or 0) : int(last) + 1 if last else len(data)]
        changes = {"shorter": data[:-1], "longer": data + b"x", "other": data[::-1], "nothing": b""}
        data = changes.get(self.wrong.get("bytes", ""), data)
        etag = self.wrong.get("etag", f'"e{len(IMAGES[key])}"').replace("\r", "").replace("\n", "")
        return int(self.wrong.get("code", 206)), {"ETag": etag, "Content-Range": whole}, data

    def _page(self) -> Answer:
        number = next(self._count)
        values = {"more": "false", "token": "", "key": "", "rows": listed(IMAGES), "pattern": PAGE, **self.wrong}
        for name in ("token", "key"):
            values[name] = values[name].format(number, number % 3)
        page = self.wrong.get("page") or values["pattern"].format(**values)
        headers = {"Content-Type": "application/json" if page.startswith("{") else "application/xml"}
        return int(self.wrong.get("list_code", 200)), headers, page.encode("utf-8", "replace")


def _fetch(ground: Ground, store: Store, wrong: Mapping[str, str]) -> object:
    store.wrong = wrong
    shutil.rmtree(ground.folder / "store", ignore_errors=True)
    return ground.call_here(_copy, ground.folder / "store")


def _copy(cache: Path) -> None:
    """Fetch the objects: what is copied is what the store had."""
    say: Callable[[str], None] = lambda _text: None  # noqa: E731
    copy = copy_from_store(Path("s3://photos/animals"), say)
    for file in copy.rglob("*.jpg"):
        key = f"animals/{file.relative_to(copy).as_posix()}"
        # Nothing can tell other bytes of the same length; an empty image is refused when it is read.
        assert key not in IMAGES or file.read_bytes() in (IMAGES[key], IMAGES[key][::-1], b""), key
        assert file.resolve().is_relative_to(cache.resolve())

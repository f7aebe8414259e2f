"""Servers of weights: each answer of the table of tests, and a good answer with bytes changed."""

import random
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from advisor.catalog.weights.fetching import fetch
from advisor.downloads import delivery, transport
from advisor.downloads.files import FetchOptions
from advisor.downloads.transport import Client, Deadline
from tests.hostile.damages import BROKEN
from tests.hostile.surfaces.ground import Case, Ground
from tests.hostile.test_servers import SERVERS, raw
from tests.makers.servers import Answer, serving
from tests.makers.weights import CONTENT, card, home

MOST, PATIENCE_S = 250, 1.0  # Changed answers; seconds for one that is too slow
GOOD = raw(
    f"Content-Length: {len(CONTENT)}", "Content-Type: application/octet-stream", 'ETag: "a"', "Accept-Ranges: bytes",
    body=CONTENT,
)  # fmt: skip


def cases(ground: Ground) -> Iterator[Case]:
    """Yield the servers; what is fetched is the file, or nothing."""
    shelf = ground.held.enter_context(serving())
    answers = {name: answer for name, (answer, _) in SERVERS.items()}
    answers |= {f"changed {number}": Answer(raw=_changed(number)) for number in range(MOST)}
    for number, (name, answer) in enumerate(answers.items()):
        yield name, partial(ground.call, _fetched, shelf.put(f"/{number}", answer))


def _changed(number: int) -> bytes:
    draw, content = random.Random(number), GOOD
    end = len(content) - len(CONTENT) if number % 5 else len(content)  # a fifth of the changes may be in the body
    for _ in range(draw.randint(1, 4)):
        start = draw.randrange(end)
        new = draw.choice((b"", b"\r\n", draw.randbytes(3), draw.choice(BROKEN)[:9].encode("utf-8", "replace")))
        content = content[:start] + new + content[start + draw.randrange(4) :]
    return content


def _fetched(url: str) -> None:
    delivery.FIRST_PAUSE_S = 0.004
    Client.deadline = lambda _: Deadline(PATIENCE_S, transport.MOST_S, transport.STEP_BYTES)  # type: ignore[assignment,method-assign]
    with tempfile.TemporaryDirectory() as folder:
        assert fetch(card(home(url)), FetchOptions(cache=Path(folder))).path.read_bytes() == CONTENT

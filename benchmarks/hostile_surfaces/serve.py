"""Requests to ``advisor serve``: addresses, forms and uploads, and damaged run folders behind it."""

import shutil
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import quote

from advisor.integrations.serve._access import Access
from advisor.integrations.serve._pages import Pages
from advisor.reporting import Runs
from benchmarks.hostile_surfaces.attempts import damages
from benchmarks.hostile_surfaces.damages import BROKEN, Damage
from benchmarks.hostile_surfaces.ground import Case, Ground
from tests.integrations.serve.client import Client
from tests.run_folders import images, write_run

TEXTS = (*(text[:2000] for text in BROKEN), "\ud800", "%00", "%", "%zz", "..", "<script>", "\r\nX: y", "a" * 9000)
PATHS = ("?words={0}", "?sort={0}", "?{0}={0}", "runs/{0}/", "compare?before={0}&after={0}", "assets/{0}", "{0}")
PAGES = ("", "runs/RUN/", "compare?before=RUN&after=RUN")
DAMAGED = 3  # Every so many damages of run folders are tried


def cases(ground: Ground) -> Iterator[Case]:
    """Yield requests with each text, and pages of each damaged run."""
    run = write_run(ground.folder / "served", dataset=images({"cat": 10, "dog": 10})).path
    run = run.rename(run.with_name("RUN"))
    for number, text in enumerate(TEXTS):
        value = quote(text.encode("utf-8", "surrogatepass"))
        for path in PATHS:
            yield f"{path}, {number}", partial(ground.call, _asked, run.parent, [path.format(value)])
        for path in ("reevaluate", "photograph") if value else ():  # without a device, all are evaluated
            body = f"device={value}".encode() if number % 2 else text.encode("utf-8", "replace")
            yield f"{path}, {number}", partial(ground.call, _asked, run.parent, [f"runs/RUN/{path}"], body)
    for number, (file, label, damage) in enumerate(damages(run)):
        if number % DAMAGED == 0:
            yield f"run folder, {file}, {label}", partial(_damaged, ground, run, file, damage)


def _damaged(ground: Ground, run: Path, file: str, damage: Damage) -> Sequence[str]:
    place = ground.fresh()
    shutil.copytree(run, place / "RUN")
    damage(place / "RUN" / file)
    return ground.call(_asked, place, PAGES)


def _asked(runs: Path, paths: Sequence[str], body: bytes | None = None) -> None:
    """Ask for pages, or post to them: what the server does not take is no error of it."""
    access = Access(8000)
    with Client(Pages(Runs(runs), access).app(), access) as client:
        for path in paths:
            answer = client.get(f"{access.root}/{path}") if body is None else client.change(f"/{path}", body)
            assert answer.status_code < 500, answer.text
            assert answer.status_code != 200 or "content-security-policy" in answer.headers

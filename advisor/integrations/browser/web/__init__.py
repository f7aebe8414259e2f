"""The page of a bundle: it tries a model on images, offline, in any browser.

The entry point ``advisor.bundle_parts`` names this module; the export calls :func:`check` and
:func:`files` (``BundlePart``). ``advisor try`` serves the same
page with scripts of its own. A page that is opened as a file, by a double-click, can load scripts
but fetch nothing, so the model and the runtime in WebAssembly are scripts with base64 text.
"""

import base64
import gzip
import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from advisor.core import Evaluation, UsageError, plural
from advisor.reporting import (
    ExportedModel,
    Page,
    ShippedModel,
    Shipping,
    content_policy,
    json_for_script,
    render_html,
    render_template,
    trust_content,
)

CONTENT = "a page that {does}: open web/index.html in a browser"
WITH_UNKNOWN_CLASS = True

FOLDER = "web"
PAGE = "index.html"
MODEL = "model.js"
OFFLINE = "offline.js"
RUNTIMES = {
    "runtime.js": "litert_wasm_internal",
    "runtime_compat.js": "litert_wasm_compat_internal",
}
"""Files of the runtime with relaxed SIMD, and without it for browsers that lack it."""

PACKING = 6
"""Level of gzip of the runtime: 0.4 % larger than at level 9, in two thirds of the time."""


def check(shipping: Shipping) -> None:
    """Check that there is a page for a task; see
    ``BundlePart``.
    """
    if not shipping.page.script:
        raise UsageError(f"--web: there is no page that {shipping.does}", "leave it out")


def files(exported: ExportedModel) -> Mapping[str, bytes]:
    """Return the files of the page; see ``BundlePart``."""
    return web_page(exported.model, exported.evaluation, exported.shipping.page)


def web_page(model: ShippedModel, evaluation: Evaluation, task: Page) -> dict[str, bytes]:
    """Return the files of the page by their paths in the bundle.

    Raises:
        UsageError: the runtime cannot be fetched.
    """
    from advisor.integrations.browser import LITERT, fetch_package

    runtime = fetch_package(LITERT)
    files = {name: _runtime_script(runtime, stem) for name, stem in RUNTIMES.items()}
    files[MODEL] = f'var MODEL = "{_encode(model.content)}";\n'.encode()
    page = render_page(facts_of(model, task), task, len(model.labels), remark_of(evaluation))
    files[PAGE] = page.encode()
    # The version follows from the contents:
    # a page that changed is not taken from a copy that the browser keeps.
    version = hashlib.sha256(b"".join(files[name] for name in sorted(files))).hexdigest()[:16]
    offline = render_template(
        "offline.js.j2", __name__, version=f"advisor-{version}", files=["./", *sorted(files)]
    )
    files[OFFLINE] = offline.encode()
    files["LICENSE-LiteRT.txt"] = _read_asset("LICENSE-LiteRT.txt").encode()
    return {f"{FOLDER}/{name}": content for name, content in files.items()}


def facts_of(model: ShippedModel, task: Page) -> dict[str, Any]:
    """Return what the script of a page needs to know of a file."""
    return {
        "labels": model.labels,
        "size": model.size,
        "mean": model.mean,
        "std": model.std,
        "threshold": model.threshold,
        "least_of": model.by_place(model.thresholds.by_class),
        "may_show": model.by_place(model.thresholds.recall),
        **task.facts,
    }


def render_page(
    facts: Mapping[str, Any],
    task: Page,
    classes: int,
    remark: str,
    extra: Sequence[str] = (),
) -> str:
    """Return the page.

    ``extra`` are further scripts, of a page that a server of this machine sends; it may post to
    that server.
    """
    shared_file = resources.files("advisor.integrations.browser") / "litert.js"
    shared = shared_file.read_text(encoding="utf-8")
    meaning = (resources.files(task.package) / task.script).read_text(encoding="utf-8")
    scripts = [shared, _read_asset("pixels.js"), meaning, *extra, _read_asset("page.js")]
    return render_html(
        "web.html.j2",
        __name__,
        policy=_make_policy(scripts) + ("; connect-src 'self'" if extra else ""),
        style=trust_content(_read_asset("page.css")),
        scripts=list(map(trust_content, scripts)),
        facts=trust_content(json_for_script(facts)),
        title=task.title,
        counted=f"{plural(classes, *task.counted)}." if task.counted else "",
        bars=task.bars,
        remark=remark,
        served=bool(extra),
    )


def remark_of(evaluation: Evaluation) -> str:
    """Return the line at the end of a page: the file and its runtime."""
    from advisor.integrations.browser import LITERT

    configuration = evaluation.configuration
    return (
        f"{configuration.card}, {configuration.compression}. Runs with {LITERT.package}"
        f" {LITERT.version}."
    )


def _make_policy(scripts: Sequence[str]) -> str:
    """Return a content security policy: these scripts and files beside the page, nothing else."""
    sources = ("'self'", "file:", "'wasm-unsafe-eval'")
    return content_policy(scripts, sources, ("media-src blob:", "worker-src 'self'"))


@cache  # packing the two runtimes takes a second
def _runtime_script(folder: Path, stem: str) -> bytes:
    # Without the time of packing, the same run gives the same bundle.
    packed = gzip.compress((folder / f"{stem}.wasm").read_bytes(), PACKING, mtime=0)
    glue = (folder / f"{stem}.js").read_text(encoding="utf-8")
    return f'var RUNTIME = "{_encode(packed)}";\n{glue}'.encode()


def _encode(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


def _read_asset(name: str) -> str:
    return (resources.files(__name__) / name).read_text(encoding="utf-8")

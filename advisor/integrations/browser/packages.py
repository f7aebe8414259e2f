"""Runtimes for browsers, from the npm registry that the user's npm is configured for; each file's hash is checked."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from advisor.core.errors import UsageError
from advisor.downloads.files import MemberFile, WeightSource

if TYPE_CHECKING:
    from advisor.downloads.files import FetchOptions

LITERT = WeightSource(
    "npm",
    format="",
    port="",
    file=MemberFile(
        "package/wasm/litert_wasm_internal.wasm", "7280cf4471774867e385e6c3cd53e2b45e2975b80fea338fff4ef359b0865614"
    ),
    companions=(
        MemberFile("package/dist/index.js", "e7daccc3a31eef890848a737ccb863ded5f046a6b40c3fdc0556495adeb5d9b3"),
        MemberFile(
            "package/wasm/litert_wasm_internal.js", "68efb69f770e3f76aff36a377de629ca496c131b86ac0f0f4b592a1543a898eb"
        ),
        MemberFile(
            "package/wasm/litert_wasm_compat_internal.wasm",
            "5255c8ad06eabdbd2522cdebf6b22fc10faf74625c23a49b9e072570cd1fa41c",
        ),
        MemberFile(
            "package/wasm/litert_wasm_compat_internal.js",
            "4d8f894b7883654fd6e8439730aa41e79ceaab7d19184fc4f1f0b0f1a2a2c8a5",
        ),
        MemberFile(
            "package/wasm/litert_wasm_threaded_internal.wasm",
            "b5e54eca10f043497edf9a02186332707cae260c550d7ea22b2cae55669596cf",
        ),
        MemberFile(
            "package/wasm/litert_wasm_threaded_internal.js",
            "92fe7a720c6deedaa1194c011c79a005ea4f6fc98f533b661cf7900760ab4849",
        ),
    ),
    package="@litertjs/core",
    version="2.5.3",
    archive="litertjs-core-2.5.3.tgz",
    archive_sha256="a97660833e9e7e1063c95e12016718881240b14f7438728a2f62785e912d30fd",
    licence="Apache-2.0",
)
"""LiteRT in WebAssembly: with relaxed SIMD, without it ("compat"), and with threads."""

ONNXRUNTIME = WeightSource(
    "npm",
    format="",
    port="",
    file=MemberFile(
        "package/dist/ort-wasm-simd-threaded.wasm", "3398c10d07d229bd91b364548e130e0e51a8e5704b88c7c083ebbeb78842dee2"
    ),
    companions=(
        MemberFile(
            "package/dist/ort-wasm-simd-threaded.mjs",
            "e13f7f94fc51b4ca72b12faeb1ee95f4ace6dfbc8939bc718aabdc0a27c4299b",
        ),
        MemberFile("package/dist/ort.wasm.min.js", "faece07e84faa9001f5104bbe4e5c70861d06cb2376a0dea1fa0ad33a67adc81"),
    ),
    package="onnxruntime-web",
    version="1.30.0",
    archive="onnxruntime-web-1.30.0.tgz",
    archive_sha256="d2228df7e4616bc3348bf504ee888f3bec43789a273f0a63f3e68d203ce3bf71",
    licence="MIT",
)
"""ONNX Runtime in WebAssembly, with SIMD and threads."""

PACKAGES: Mapping[str, WeightSource] = {"litert-web": LITERT, "onnxruntime-web": ONNXRUNTIME}
"""The package of each runtime."""


def fetched(package: WeightSource, options: FetchOptions | None = None) -> Path:
    """Return the folder with the files of a package, each under its base name; fetch them if they are not cached.

    Raises:
        UsageError: no place has them. Every place that was tried is named with its reason.
    """
    from advisor.downloads.cache import Cache
    from advisor.downloads.files import FetchOptions, Unavailable
    from advisor.downloads.origins import origins_of

    chosen = options or FetchOptions()
    cache, reasons = Cache(chosen.cache_root), list[str]()
    for label, origin in origins_of(package, chosen):
        try:
            return cache.find_or_fill(package, label, partial(origin, package, chosen)).path.parent
        except (Unavailable, OSError) as error:
            reasons.append(f"{label}: {error}")
    raise UsageError(
        f"the npm package {package.package} {package.version} cannot be fetched: {'; '.join(reasons)}",
        f"configure npm for a registry that you can reach, or put the file of `npm pack {package.package}@"
        f"{package.version}` into a folder that ADVISOR_MIRROR names",
    )

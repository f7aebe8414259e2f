"""List the npm packages of the runtimes in WebAssembly, with the hash of each file.

They are downloaded as weights are: from a mirror, the cache or the package index. The first file
of a package is the main one. For a new version, unpack the archive of ``npm pack PACKAGE@VERSION``
and take ``sha256sum`` of it and of each file.
"""

from collections.abc import Mapping

from advisor.devices import WEB_RUNTIME
from advisor.integrations.browser._npm import npm_source
from advisor.store import WeightSource

ONNX_RUNTIME = "onnxruntime-web"

LITERT = npm_source(
    "@litertjs/core",
    "2.5.3",
    archive_sha256="a97660833e9e7e1063c95e12016718881240b14f7438728a2f62785e912d30fd",
    licence="Apache-2.0",
    files={
        "wasm/litert_wasm_internal.wasm": (
            "7280cf4471774867e385e6c3cd53e2b45e2975b80fea338fff4ef359b0865614"
        ),
        "dist/index.js": "e7daccc3a31eef890848a737ccb863ded5f046a6b40c3fdc0556495adeb5d9b3",
        "wasm/litert_wasm_internal.js": (
            "68efb69f770e3f76aff36a377de629ca496c131b86ac0f0f4b592a1543a898eb"
        ),
        "wasm/litert_wasm_compat_internal.wasm": (
            "5255c8ad06eabdbd2522cdebf6b22fc10faf74625c23a49b9e072570cd1fa41c"
        ),
        "wasm/litert_wasm_compat_internal.js": (
            "4d8f894b7883654fd6e8439730aa41e79ceaab7d19184fc4f1f0b0f1a2a2c8a5"
        ),
        "wasm/litert_wasm_threaded_internal.wasm": (
            "b5e54eca10f043497edf9a02186332707cae260c550d7ea22b2cae55669596cf"
        ),
        "wasm/litert_wasm_threaded_internal.js": (
            "92fe7a720c6deedaa1194c011c79a005ea4f6fc98f533b661cf7900760ab4849"
        ),
    },
)
"""LiteRT in WebAssembly: with relaxed SIMD, without it ("compat"), and with threads."""

ONNXRUNTIME = npm_source(
    ONNX_RUNTIME,
    "1.30.0",
    archive_sha256="d2228df7e4616bc3348bf504ee888f3bec43789a273f0a63f3e68d203ce3bf71",
    licence="MIT",
    files={
        "dist/ort-wasm-simd-threaded.wasm": (
            "3398c10d07d229bd91b364548e130e0e51a8e5704b88c7c083ebbeb78842dee2"
        ),
        "dist/ort-wasm-simd-threaded.mjs": (
            "e13f7f94fc51b4ca72b12faeb1ee95f4ace6dfbc8939bc718aabdc0a27c4299b"
        ),
        "dist/ort.wasm.min.js": "faece07e84faa9001f5104bbe4e5c70861d06cb2376a0dea1fa0ad33a67adc81",
    },
)
"""ONNX Runtime in WebAssembly, with SIMD and threads."""

PACKAGES: Mapping[str, WeightSource] = {WEB_RUNTIME: LITERT, ONNX_RUNTIME: ONNXRUNTIME}
"""The package of each runtime."""

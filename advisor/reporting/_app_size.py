"""By how much an app for Android grows with a file: the file, and the libraries of LiteRT for each ABI."""

from collections.abc import Mapping
from types import MappingProxyType

RUNTIME_BYTES: Mapping[str, int] = MappingProxyType(
    {"arm64-v8a": 5_508_376 + 713_616, "armeabi-v7a": 3_602_584 + 323_060, "x86_64": 7_649_584 + 510_768}
)
"""Bytes of ``libLiteRt.so`` and ``liblitert_jni.so`` of LiteRT 2.2.0 by ABI, not compressed; 2.3.0 is not measured.
Source: the repository WluhWluh/bss-litert-android, contracts/downloadable-runtime-contract.json at e612e144: the files
of the published package with their hashes."""

GPU_BYTES = 3_105_544
"""Bytes of ``libLiteRtClGlAccelerator.so`` for arm64-v8a; the same source."""

PHONES = "arm64-v8a"
"""The ABI of phones that people have now."""


def app_growth(model_bytes: int, accelerator: str) -> dict[str, int]:
    """Return the bytes that an app for Android grows by, not compressed: the model and LiteRT, by ABI."""
    gpu = {PHONES: GPU_BYTES} if accelerator == "gpu" else {}
    return {abi: model_bytes + size + gpu.get(abi, 0) for abi, size in RUNTIME_BYTES.items()}

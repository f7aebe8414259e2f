"""By how much an app for Android grows with a file: the file, and the libraries of LiteRT by ABI.

The page of a run and the documents of a bundle show it. The sizes are measured ones of a release,
each with its source: a newer release needs all of them anew.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

RELEASE = "2.2.0"
"""Release of LiteRT whose libraries for Android were measured.
The code of a bundle names a later one.
"""

RUNTIME_BYTES: Mapping[str, int] = MappingProxyType(
    {
        "arm64-v8a": 5_508_376 + 713_616,
        "armeabi-v7a": 3_602_584 + 323_060,
        "x86_64": 7_649_584 + 510_768,
    }
)
"""Bytes of ``libLiteRt.so`` and ``liblitert_jni.so`` of this release by ABI, not compressed.
Source: the repository WluhWluh/bss-litert-android, contracts/downloadable-runtime-contract.json at
e612e144: the files of the published package with their hashes.
"""

LATER = "The library of 2.3.0 for Linux is 2 to 3 % larger than that of 2.2.0."
"""Sentence about the release that the code of a bundle names. Source: ``libLiteRt.so`` of the
packages ai-edge-litert 2.2.0 and 2.3.0 for CPython 3.11: 5,831,880 and 5,991,672 bytes (aarch64),
7,905,952 and 8,039,424 (x86_64).
"""

GPU_BYTES = 3_105_544
"""Bytes of ``libLiteRtClGlAccelerator.so`` for arm64-v8a; the same source as that of the
runtime.
"""

PHONES = "arm64-v8a"
"""The ABI of phones that people have now."""


@dataclass(frozen=True)
class AppGrowth:
    """The bytes that an app for Android grows by, not compressed: the model and LiteRT, by ABI."""

    by_abi: Mapping[str, int]
    release: str = RELEASE  #: release of LiteRT of these sizes

    @property
    def remark(self) -> str:
        """A sentence that names the release of LiteRT of these sizes."""
        return (
            f"The sizes of LiteRT are those of {self.release}, the latest one that was measured."
            f" {LATER}"
        )


def app_growth(model_bytes: int, accelerator: str) -> AppGrowth:
    """Return by how much an app for Android grows with a model of this size."""
    gpu = {PHONES: GPU_BYTES} if accelerator == "gpu" else {}
    return AppGrowth(
        {abi: model_bytes + size + gpu.get(abi, 0) for abi, size in RUNTIME_BYTES.items()}
    )

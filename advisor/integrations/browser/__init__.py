"""Headless Chromium on this machine as a device, with a runtime in WebAssembly;
pages that try the files of a run.

The runtimes come from the npm registry that the user's npm is configured for.
The hash of each file is checked.
"""

from typing import TYPE_CHECKING

from advisor._faces import open_face

if TYPE_CHECKING:
    from advisor.integrations.browser._chromium import (
        BrowserConnection,
        chromium_program,
        fetch_package,
    )
    from advisor.integrations.browser._packages import LITERT, ONNXRUNTIME
    from advisor.integrations.browser._runtime import RUNTIME
else:
    __getattr__, __dir__ = open_face(__name__)

__all__ = [
    "LITERT",
    "ONNXRUNTIME",
    "RUNTIME",
    "BrowserConnection",
    "chromium_program",
    "fetch_package",
]

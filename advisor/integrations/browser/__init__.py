"""Headless Chromium on this machine as the device ``chromium``, with runtimes in WebAssembly.

The entry point ``advisor.runtimes`` names :data:`RUNTIME`. Profiles and runs of users have the
names of the device and of its runtimes: they stay.

Read ``_chromium.py`` first (the device), then ``agent.py`` (the program that times files in the
browser), ``_packages.py`` and ``_npm.py`` (the runtimes, from the npm registry that the user's npm
is configured for; the hash of each file is checked). ``web/`` is the page of a bundle, ``tryout/``
the command ``advisor try``.
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

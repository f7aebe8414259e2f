"""Headless Chromium on this machine as a device, with a runtime in WebAssembly.

The runtimes come from the npm registry that the user's npm is configured for. The hash of each file is checked.
"""

from advisor.integrations.browser._chromium import BrowserConnection, Chromium, chromium_program, fetch_package
from advisor.integrations.browser._packages import LITERT, ONNXRUNTIME

__all__ = ["LITERT", "ONNXRUNTIME", "RUNTIME", "BrowserConnection", "chromium_program", "fetch_package"]

RUNTIME = Chromium()

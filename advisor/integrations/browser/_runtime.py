"""The object that the entry point ``chromium`` in ``advisor.runtimes`` names."""

from advisor.integrations.browser._chromium import Chromium

RUNTIME = Chromium()

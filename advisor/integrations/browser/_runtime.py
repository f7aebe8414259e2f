"""The runtime that the entry point names."""

from advisor.integrations.browser._chromium import Chromium

RUNTIME = Chromium()

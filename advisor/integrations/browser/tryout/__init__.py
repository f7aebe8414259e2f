"""``advisor try``: the page of a run's files, on this machine or on any phone."""

from advisor.cli import IntegrationCommand
from advisor.integrations.browser.tryout._command import try_run

COMMAND = IntegrationCommand(try_run, "Try a run's files in a browser, here or on a phone.")

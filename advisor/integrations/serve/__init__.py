"""``advisor serve``: show a folder of runs as web pages on this machine."""

from advisor.cli import IntegrationCommand
from advisor.integrations.serve._command import serve

COMMAND = IntegrationCommand(serve, "Show runs as local web pages.")

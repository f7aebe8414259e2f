"""``advisor try``: the page of a run's files, on this machine or on any phone.

The entry point ``advisor.commands`` names :data:`COMMAND`, and ``cli`` adds it to the commands.
Its options are documented: they stay.

Read ``_command.py`` first, then ``_app.py`` (the addresses), ``_trial.py`` (what the page shows),
``_timings.py`` (timings that a page posts), ``_photographs.py`` (photographs that are kept) and
``_phone.py`` (address, certificate and QR code).
"""

from advisor.cli import IntegrationCommand
from advisor.integrations.browser.tryout._command import try_run

COMMAND = IntegrationCommand(try_run, "Try a run's files in a browser, here or on a phone.")

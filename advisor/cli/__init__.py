"""The command line. A command declares options, calls one public function, and prints the result.

Read ``_main.py`` first, then ``_groups.py`` and ``_options.py``; README.md says which module has
which command. Commands of integrations use the names of this face.
"""

from typing import TYPE_CHECKING

from advisor._faces import open_face

if TYPE_CHECKING:
    from advisor.cli._groups import IntegrationCommand
    from advisor.cli._main import main
    from advisor.cli._options import AsJson
    from advisor.cli._output import note, print_json
    from advisor.cli._server import LocalServer
else:
    __getattr__, __dir__ = open_face(__name__)

__all__ = [
    "AsJson",
    "IntegrationCommand",
    "LocalServer",
    "main",
    "note",
    "print_json",
]

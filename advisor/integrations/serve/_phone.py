"""The page of a run for phones: ``advisor try --phone``, which a page starts and ends.

Pages listen on this machine only, and that stays so. The command that answers phones is another
process with its own port, its own token, TLS and an end after 30 minutes, and it knows nothing of
the other runs.
"""

import json
import signal
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from advisor.core import UsageError
from advisor.integrations.serve._jobs import LINES, make_command, make_environment
from advisor.isolation import ChildProcess

ENDS_IN_S = 10.0
"""Seconds that the command has to end, more than it gives to open requests."""


@dataclass
class PhonePage:
    """The page of one run for phones."""

    run: str  #: name of the run
    lines: list[str] = field(default_factory=list)  #: what the command said on standard error
    address: str = ""  #: where a phone finds it; empty until it can be asked
    code: str = ""  #: QR code of the address, an image as a data address
    minutes: int = 0  #: minutes after which the page ends
    ended: bool = False  #: it has ended


class PhonePages:
    """The last page for phones.

    One is open at a time, so that a person knows what the network can see.
    """

    def __init__(self) -> None:
        self._page: PhonePage | None = None
        self._process: ChildProcess | None = None
        self._follower: threading.Thread | None = None
        self._lock = threading.Lock()

    def of(self, run: str) -> PhonePage | None:
        """Return the last page of a run by its name; None if another run had one since."""
        page = self._page
        return page if page is not None and page.run == run else None

    def start(self, run: Path, address: str) -> None:
        """Open the page of a run to the network of this machine, or to that of one of its
        addresses.

        Raises:
            UsageError: a page is open, or the address is no text for a command.
        """
        with self._lock:
            if self._page is not None and not self._page.ended:
                raise UsageError(f"phones can open '{self._page.run}' now", "end that first")
            # Joined by "=", so that a text from a form cannot become another option.
            options = [f"--address={address}"] if address else []
            try:
                command = make_command(["try", str(run), "--phone", *options])
                process = ChildProcess(command, environment=make_environment())
            # A NUL character raises it.
            except ValueError as error:
                raise UsageError(
                    f"{address!a} is not an address ({error})", "leave it empty"
                ) from None
            page = PhonePage(run.name)
            self._page = page
            self._process = process
            self._follower = threading.Thread(target=_follow, args=(process, page), daemon=True)
            self._follower.start()

    def end(self) -> None:
        """End the page that is open; wait until the command has deleted certificate and key."""
        process = self._process
        follower = self._follower
        if process is None or follower is None:
            return
        if process.status is None:
            process.send(signal.SIGTERM)
        follower.join(ENDS_IN_S)
        if follower.is_alive():
            process.kill()


def _follow(process: ChildProcess, page: PhonePage) -> None:
    """Keep in a page what its command says, until the command ends."""
    stdout = process.popen.stdout
    stderr = process.popen.stderr
    assert stdout is not None, "it is a pipe"
    assert stderr is not None, "it is a pipe"
    # Both pipes are read at once: a command that fills one of them would wait without end.
    reader = threading.Thread(target=_read_address, args=(stdout, page))
    reader.start()
    for line in stderr:
        page.lines.append(line.decode(errors="replace").rstrip())
        # Only the last ones are shown.
        del page.lines[:-LINES]
    reader.join()
    process.popen.wait()
    page.ended = True


def _read_address(stdout: IO[bytes], page: PhonePage) -> None:
    """Read the document of the command, whose standard output stays open as long as the page."""
    text = b""
    for line in stdout:
        text += line
        try:
            document: dict[str, Any] = json.loads(text)
        except ValueError:
            # The document has several lines.
            continue
        page.code = document["qr_code"]
        page.minutes = document["minutes"]
        # Last: a page that has the address also shows its code.
        page.address = document["address"]
        text = b""

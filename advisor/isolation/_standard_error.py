"""Redirect what native libraries write to standard error: it is read, such as the name of a GPU,
or left out. This holds for the whole process (file descriptor 2).

The file descriptor must be given back on every way out, or later errors of the process are lost.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO


@contextmanager
def redirect_errors() -> Iterator[IO[bytes]]:
    """Redirect standard error to a file while the context lasts; the context is the file."""
    sys.stderr.flush()
    # The library writes to file descriptor 2, which `sys.stderr` in Python does not control.
    standard_error = os.dup(2)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 2)
        try:
            yield log
        finally:
            os.dup2(standard_error, 2)
            os.close(standard_error)

"""The errors by which :mod:`zipfile` reports a damaged archive.

Whoever opens a zip file of a user or of the network (images, model files, downloads) catches them
together, and refuses the file with a message of its own.
"""

import zipfile
import zlib

UNREADABLE_ZIP = (
    OSError,
    EOFError,
    zipfile.BadZipFile,
    zlib.error,
    NotImplementedError,
    RuntimeError,
)
"""Errors of :mod:`zipfile` for a file that is damaged,
encrypted or compressed by an unknown method.
"""

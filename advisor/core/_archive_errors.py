"""The errors by which a damaged archive is known."""

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

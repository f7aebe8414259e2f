"""The errors by which :mod:`zipfile` reports a damaged archive.

Readers of zip files of users or of the network (images, model files, downloads) catch them
together, and refuse the file with a message of their own.
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

"""Fetch files, check them by their hash, and keep them in the cache.

Read ``_files.py`` first (a file, its source, the cache), then ``_origins.py`` (kinds of sources),
``_delivery.py`` and ``_transport.py`` (how a file travels). ``_stores.py`` copies images of
``s3://`` and ``gs://`` addresses. ``_programs.py`` fetches programs that have no hash.
"""

from typing import TYPE_CHECKING

from advisor._faces import open_face

if TYPE_CHECKING:
    from advisor.downloads._delivery import MAX_DOWNLOAD_BYTES, client_for, home_transport
    from advisor.downloads._files import (
        Cache,
        FetchOptions,
        MemberFile,
        Mirror,
        SourceKind,
        Unavailable,
        WeightSource,
    )
    from advisor.downloads._origins import origins_of
    from advisor.downloads._programs import Program, fetch_program
    from advisor.downloads._stores import copy_from_store, in_store
    from advisor.downloads._transport import MOST_S, PATIENCE_S
else:
    __getattr__, __dir__ = open_face(__name__)

__all__ = [
    "MAX_DOWNLOAD_BYTES",
    "MOST_S",
    "PATIENCE_S",
    "Cache",
    "FetchOptions",
    "MemberFile",
    "Mirror",
    "Program",
    "SourceKind",
    "Unavailable",
    "WeightSource",
    "client_for",
    "copy_from_store",
    "fetch_program",
    "home_transport",
    "in_store",
    "origins_of",
]

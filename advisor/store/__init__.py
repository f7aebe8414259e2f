"""Store runs, cache the results of their stages, and fetch files into the cache.

Read ``_cache.py`` first, then ``_run_folder.py``. ``_files.py``, ``_jsonfile.py`` and
``_yamlfile.py`` read and write files so that a kill or a second process cannot damage them.
``_downloads/`` fetches files and checks them by their hash.
``README.md`` lists all modules.
"""

from typing import TYPE_CHECKING

from advisor._faces import open_face

if TYPE_CHECKING:
    from advisor.store._cache import (
        ArtifactCache,
        cache_root,
        fill_folder,
    )
    from advisor.store._cache_contents import CacheContents, CacheShare
    from advisor.store._cache_uses import CacheUse
    from advisor.store._cached_rows import ROWS, add_block, write_cached_rows
    from advisor.store._column_types import ColumnType, build_frame, value_at
    from advisor.store._downloads.delivery import MAX_DOWNLOAD_BYTES, client_for, home_transport
    from advisor.store._downloads.files import (
        DownloadCache,
        FetchOptions,
        MemberFile,
        Mirror,
        SourceKind,
        Unavailable,
        WeightSource,
    )
    from advisor.store._downloads.origins import origins_of
    from advisor.store._downloads.programs import Program
    from advisor.store._downloads.stores import copy_from_store, in_store
    from advisor.store._downloads.transport import MAX_DOWNLOAD_S, SERVER_PATIENCE_S
    from advisor.store._encodings import guess_encodings
    from advisor.store._evaluation_rows import chain_lines
    from advisor.store._files import (
        copy_atomically,
        ensure_output_dir,
        files_below,
        find_changed_file,
        read_cached_sha256,
        sha256_file,
        sha256_json,
        shipped_folder,
        walk_folder,
        write_atomically,
    )
    from advisor.store._jsonfile import MAX_BYTES, parse_json, read_json
    from advisor.store._labelfile import labels_in, read_labels
    from advisor.store._limit import Evicted, limit_bytes
    from advisor.store._packages import Packages, install_package
    from advisor.store._protobuf import Schema, message_type
    from advisor.store._run_documents import read_document
    from advisor.store._run_folder import RunFolder
    from advisor.store._run_integrity import (
        Problem,
    )
    from advisor.store._run_seal import SEAL
    from advisor.store._yamlfile import (
        YamlDocument,
        open_file,
        open_text,
        read_bytes,
        read_text,
    )
else:
    __getattr__, __dir__ = open_face(__name__)

__all__ = [
    "MAX_BYTES",
    "MAX_DOWNLOAD_BYTES",
    "MAX_DOWNLOAD_S",
    "ROWS",
    "SEAL",
    "SERVER_PATIENCE_S",
    "ArtifactCache",
    "CacheContents",
    "CacheShare",
    "CacheUse",
    "ColumnType",
    "DownloadCache",
    "Evicted",
    "FetchOptions",
    "MemberFile",
    "Mirror",
    "Packages",
    "Problem",
    "Program",
    "RunFolder",
    "Schema",
    "SourceKind",
    "Unavailable",
    "WeightSource",
    "YamlDocument",
    "add_block",
    "build_frame",
    "cache_root",
    "chain_lines",
    "client_for",
    "copy_atomically",
    "copy_from_store",
    "ensure_output_dir",
    "files_below",
    "fill_folder",
    "find_changed_file",
    "guess_encodings",
    "home_transport",
    "in_store",
    "install_package",
    "labels_in",
    "limit_bytes",
    "message_type",
    "open_file",
    "open_text",
    "origins_of",
    "parse_json",
    "read_bytes",
    "read_cached_sha256",
    "read_document",
    "read_json",
    "read_labels",
    "read_text",
    "sha256_file",
    "sha256_json",
    "shipped_folder",
    "value_at",
    "walk_folder",
    "write_atomically",
    "write_cached_rows",
]

"""Store runs, and cache the results of their stages.

Read ``_cache.py`` first, then ``_run_folder.py``. ``_files.py``, ``_jsonfile.py`` and ``_yamlfile.py`` read and write
files so that a kill or a second process cannot damage them.
"""

from typing import TYPE_CHECKING

from advisor._faces import open_face

if TYPE_CHECKING:
    from advisor.store._cache import (
        ArtifactCache,
        Packages,
        cache_root,
        filled,
        import_path,
        install,
        is_installed,
        limited_cache,
        require_cache,
    )
    from advisor.store._files import (
        ROWS,
        UNREADABLE_ZIP,
        add_block,
        cached_rows,
        cached_sha256,
        changed_file,
        copy_atomically,
        ensure_output_dir,
        sha256_file,
        sha256_json,
        shipped_folder,
        write_atomically,
        write_block,
    )
    from advisor.store._jsonfile import (
        COUNT,
        FLAG,
        MAX_BYTES,
        NUMBERS,
        TEXT,
        cell,
        frame,
        parse_json,
        read_document,
        read_json,
        type_of,
        value_at,
    )
    from advisor.store._labelfile import labels_in, read_labels
    from advisor.store._limit import (
        CacheContents,
        CacheEntry,
        CacheUse,
        Evicted,
        entries_of,
        evict,
        keep_run,
        limit_bytes,
        sum_bytes,
        uses_of,
    )
    from advisor.store._protobuf import Schema, message_type
    from advisor.store._run_folder import (
        CHANGED,
        OLD,
        REPORTS,
        SEAL,
        Problem,
        RunFolder,
        answers_file,
        artefact_problem,
        chained,
        integrity_problems,
        seal_problems,
    )
    from advisor.store._yamlfile import YamlDocument, encoding_of, open_file, read_bytes, read_text, read_yaml
else:
    __getattr__, __dir__ = open_face(__name__)

__all__ = [
    "CHANGED",
    "COUNT",
    "FLAG",
    "MAX_BYTES",
    "NUMBERS",
    "OLD",
    "REPORTS",
    "ROWS",
    "SEAL",
    "TEXT",
    "UNREADABLE_ZIP",
    "ArtifactCache",
    "CacheContents",
    "CacheEntry",
    "CacheUse",
    "Evicted",
    "Packages",
    "Problem",
    "RunFolder",
    "Schema",
    "YamlDocument",
    "add_block",
    "answers_file",
    "artefact_problem",
    "cache_root",
    "cached_rows",
    "cached_sha256",
    "cell",
    "chained",
    "changed_file",
    "copy_atomically",
    "encoding_of",
    "ensure_output_dir",
    "entries_of",
    "evict",
    "filled",
    "frame",
    "import_path",
    "install",
    "integrity_problems",
    "is_installed",
    "keep_run",
    "labels_in",
    "limit_bytes",
    "limited_cache",
    "message_type",
    "open_file",
    "parse_json",
    "read_bytes",
    "read_document",
    "read_json",
    "read_labels",
    "read_text",
    "read_yaml",
    "require_cache",
    "seal_problems",
    "sha256_file",
    "sha256_json",
    "shipped_folder",
    "sum_bytes",
    "type_of",
    "uses_of",
    "value_at",
    "write_atomically",
    "write_block",
]

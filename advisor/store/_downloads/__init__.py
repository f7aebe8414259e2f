"""Fetch files, check them by their hash, and keep them in the cache.

Read ``files.py`` first (a file, its source, the cache), then ``origins.py`` (kinds of sources),
``delivery.py`` and ``transport.py`` (how a file travels). ``stores.py`` copies images of
``s3://`` and ``gs://`` addresses. ``programs.py`` fetches programs that have no hash.
"""

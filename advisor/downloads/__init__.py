"""Fetch files and check their hashes: downloads, archives, mirrors, and the cache of what came."""

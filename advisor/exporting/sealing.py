"""Encrypted models: AES-256-GCM. A file is unreadable without its key, and a changed file is rejected.

Layout of the file: 8 bytes of format name, 16 bytes of key identity, 12 bytes of nonce, then the ciphertext
with its 16 bytes of authentication; the first 36 bytes are authenticated too. The nonce is derived from key and
content: the same model and key give the same file, and no nonce is used for two contents.
"""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

from advisor.core.errors import UsageError
from advisor.exporting.shipped import sealed_model

_MAKE_ONE = 'make one: python -c "import secrets; print(secrets.token_hex(32))" > model.key'


def read_key(path: Path) -> bytes:
    """Read a key file: 32 bytes, or 64 hexadecimal digits.

    Raises:
        UsageError: it cannot be read, or its content is not a key.
    """
    try:
        return sealed_model.read_key(path)
    except OSError as error:
        problem = f"'{path}' cannot be read ({error.strerror or error})"
    except sealed_model.SealError:
        problem = f"'{path}' holds neither 32 bytes nor 64 hexadecimal digits"
    raise UsageError(f"--encrypt-key-file: {problem}", _MAKE_ONE)


def key_id(key: bytes) -> bytes:
    """Return 16 bytes that identify a key and reveal nothing about it."""
    return hashlib.sha256(b"advisor key id" + key).digest()[:16]


def seal(content: bytes, key: bytes) -> bytes:
    """Return ``content`` encrypted with a key of 32 bytes."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = hmac.digest(key, b"advisor nonce" + hashlib.sha256(content).digest(), "sha256")[:12]
    header = sealed_model.FORMAT + key_id(key) + nonce
    body: bytes = AESGCM(key).encrypt(nonce, content, header)
    return header + body

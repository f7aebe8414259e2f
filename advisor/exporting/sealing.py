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

FORMAT = b"ADVSEAL1"
KEY_BYTES = 32
_MAKE_ONE = 'make one: python -c "import secrets; print(secrets.token_hex(32))" > model.key'


def read_key(path: Path) -> bytes:
    """Read a key file: 32 bytes, or 64 hexadecimal digits.

    Raises:
        UsageError: it cannot be read, or its content is not a key.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"--encrypt-key-file: '{path}' cannot be read ({error.strerror or error})", _MAKE_ONE
        ) from None
    if len(content) == KEY_BYTES:
        return content
    try:
        key = bytes.fromhex(content.decode("ascii").strip())
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise UsageError(
            f"--encrypt-key-file: '{path}' holds neither {KEY_BYTES} bytes nor {2 * KEY_BYTES} hexadecimal digits",
            _MAKE_ONE,
        )
    return key


def key_id(key: bytes) -> bytes:
    """Return 16 bytes that identify a key and reveal nothing about it."""
    return hashlib.sha256(b"advisor key id" + key).digest()[:16]


def seal(content: bytes, key: bytes) -> bytes:
    """Return ``content`` encrypted with a key of 32 bytes.

    Raises:
        UsageError: the package ``cryptography`` is not installed.
    """
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise UsageError(
            "--encrypt-key-file needs the package 'cryptography'", "install it: pip install cryptography"
        ) from None
    nonce = hmac.digest(key, b"advisor nonce" + hashlib.sha256(content).digest(), "sha256")[:12]
    header = FORMAT + key_id(key) + nonce
    body: bytes = AESGCM(key).encrypt(nonce, content, header)
    return header + body

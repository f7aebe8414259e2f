"""Open an encrypted model in memory. Needs: pip install cryptography ai-edge-litert.

    from sealed_model import open_model, read_key
    interpreter = Interpreter(model_content=open_model("model.tflite.sealed", read_key("model.key")), num_threads=2)

The decrypted model is never written to a file. It needs its size in memory: an encrypted file cannot be memory-mapped.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

FORMAT = b"ADVSEAL1"


class SealError(Exception):
    """The file is not a sealed model, the key is another one, or the file was changed."""


def read_key(path: str | Path) -> bytes:
    """Return the key of a file: 32 bytes, or 64 hexadecimal digits."""
    content = Path(path).read_bytes()
    try:
        key = content if len(content) == 32 else bytes.fromhex(content.decode("ascii").strip())
    except ValueError:
        key = b""
    if len(key) != 32:
        raise SealError(f"{path} holds neither 32 bytes nor 64 hexadecimal digits")
    return key


def open_model(path: str | Path, key: bytes) -> bytes:
    """Return the decrypted model; raise SealError if it is damaged or the key is another one."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    sealed = Path(path).read_bytes()
    header, nonce, body = sealed[:36], sealed[24:36], sealed[36:]
    if len(sealed) < 52 or not sealed.startswith(FORMAT):
        raise SealError(f"{path} is not a sealed model")
    if header[8:24] != hashlib.sha256(b"advisor key id" + key).digest()[:16]:
        raise SealError(f"{path} was sealed with another key")
    try:
        model: bytes = AESGCM(key).decrypt(nonce, body, header)
    except InvalidTag:
        raise SealError(f"{path} was changed since it was sealed") from None
    return model

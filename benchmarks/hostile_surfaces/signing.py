"""Signed bundles that somebody changed: each change is named, and nothing is believed."""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from advisor.reporting._bundle.check import (
    SIGNATURE,
    SUMS,
    signed_on,
    wrong_files,
    wrong_signature,
)
from benchmarks.hostile_surfaces.damages import BROKEN, Damage, flip_bits, instead
from benchmarks.hostile_surfaces.ground import Case, Ground

FILES = {"model.tflite": os.urandom(4000), "labels.txt": b"cat\ndog\n", "python/classify.py": b"print('cat')\n"}
ADDED = ("evil.py", ".hidden", "deep/er/x", "SHA256SUMS.bak", "labels.txt ", "\u202elabels.txt", "a\nb")
BYTES = 60  # Changes of bytes of each file

Change = Callable[[Path], object]


def cases(ground: Ground) -> Iterator[Case]:
    """Yield the changes of a bundle, of its list and of its signature."""
    key = made(ground.folder)
    yield "unchanged", partial(ground.call, _accepted, ground.folder / "bundle", key)
    for name, change in changes(ground.folder).items():
        yield name, partial(ground.call, _noticed, ground.folder, key, change)


def made(folder: Path) -> Path:
    """Make a signed bundle, and return the public key."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    bundle, private = folder / "bundle", Ed25519PrivateKey.generate()
    for name, content in FILES.items():
        (bundle / name).parent.mkdir(parents=True, exist_ok=True)
        (bundle / name).write_bytes(content)
    lines = [f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in sorted(FILES.items())]
    sums = "".join(["# signed on 2026-11-28T06:00:00+00:00\n", *lines]).encode()
    (bundle / SUMS).write_bytes(sums)
    (bundle / SIGNATURE).write_bytes(private.sign(sums))
    key = folder / "public.pem"
    key.write_bytes(private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return key


def changes(folder: Path) -> Mapping[str, Change]:
    found: dict[str, Change] = {}
    for name in (*FILES, SUMS, SIGNATURE):
        for number in range(BYTES):
            found[f"{name}, bytes {number}"] = partial(_damage, name, partial(flip_bits, number))
        found[f"{name}, gone"] = partial(_damage, name, Path.unlink)
        found[f"{name}, link"] = partial(_put_link, name, folder)
        found[f"{name}, pipe"] = partial(_damage, name, instead(os.mkfifo))
        found[f"{name}, folder"] = partial(_damage, name, instead(Path.mkdir))
    for number, name in enumerate(ADDED):
        found[f"added {number}"] = partial(_add, name)
    found["a link to a folder"] = lambda bundle: (bundle / "more").symlink_to(folder)
    for number, text in enumerate(BROKEN):
        content = text.encode("utf-8", "surrogateescape")
        found[f"a line {number} of the list"] = partial(_append, SUMS, content or b"\n")
        found[f"the signature {number}"] = partial(_write, SIGNATURE, content)
    return found


def _put_link(name: str, folder: Path, bundle: Path) -> None:
    shutil.move(bundle / name, folder / "elsewhere")
    (bundle / name).symlink_to(folder / "elsewhere")


def _damage(name: str, damage: Damage, bundle: Path) -> None:
    damage(bundle / name)


def _add(name: str, bundle: Path) -> None:
    (bundle / name).parent.mkdir(parents=True, exist_ok=True)
    (bundle / name).write_bytes(b"")


def _append(name: str, content: bytes, bundle: Path) -> None:
    (bundle / name).write_bytes((bundle / name).read_bytes() + content)


def _write(name: str, content: bytes, bundle: Path) -> None:
    (bundle / name).write_bytes(content)


def _accepted(bundle: Path, key: Path) -> None:
    assert not wrong_files(bundle)
    assert not wrong_signature(bundle, key)
    assert signed_on(bundle).startswith("2026")


def _noticed(folder: Path, key: Path, change: Change) -> None:
    bundle = folder / "changed"
    shutil.rmtree(bundle, ignore_errors=True)
    shutil.copytree(folder / "bundle", bundle)
    change(bundle)
    assert not (bundle / SUMS).is_file() or wrong_signature(bundle, key) or wrong_files(bundle)

"""The checker of a bundle: added files, links, modules in the bundle, and older signatures."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from advisor.core import UsageError
from advisor.reporting import Bundle, check
from advisor.reporting._bundle.folder import require_replaceable
from advisor.store import RunFolder
from tests.builders import must_fail
from tests.makers.bundles import export_form, output_of, ran, started
from tests.makers.searches import Searched


def pem(key: Any, password: bytes | None = None) -> bytes:
    """Return a private key as OpenSSL writes it."""
    locked = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked))


def public_pem(key: Ed25519PrivateKey) -> bytes:
    """Return the public key of a private one as OpenSSL writes it."""
    return key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A private and a public Ed25519 key in PEM."""
    folder, key = tmp_path_factory.mktemp("keys"), Ed25519PrivateKey.generate()
    (folder / "key.pem").write_bytes(pem(key))
    (folder / "public.pem").write_bytes(public_pem(key))
    return folder / "key.pem", folder / "public.pem"


@pytest.fixture(scope="module")
def made(with_images: Searched, keys: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A signed bundle."""
    return export_form(with_images.run, "float16", tmp_path_factory.mktemp("signed") / "bundle", sign=keys[0])


@pytest.fixture
def signed(made: Bundle, tmp_path: Path) -> Path:
    """A copy of the signed bundle, to be changed."""
    return Path(shutil.copytree(made.path, tmp_path / "bundle"))


def check_from_outside(bundle: Path, key: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Check a bundle with a trusted copy of the checker elsewhere."""
    folder.mkdir(exist_ok=True)
    program = shutil.copy(check.__file__, folder / "check.py")
    return started(Path(program), "--key", key, bundle, cwd=bundle)


def test_a_checker_verifies_others_and_tells_when(signed: Path, keys: tuple[Path, Path], tmp_path: Path) -> None:
    done = check_from_outside(signed, keys[1], tmp_path / "trusted")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"it is signed with this key on {check.signed_on(signed)}, no file has changed" in done.stdout
    assert check.signed_on(signed).startswith("20")


def test_a_signature_changes_no_other_file(made: Bundle, bundle: Bundle) -> None:
    others = [name for name in bundle.files if name != "SHA256SUMS"]
    assert [(made.path / name).read_bytes() for name in others] == [
        (bundle.path / name).read_bytes() for name in others
    ]


@pytest.mark.parametrize("name", ["python/evil.py", "extra.txt", ".hidden", "python/__pycache__/classify.pyc"])
def test_a_file_that_was_added_is_wrong(signed: Path, name: str) -> None:
    (signed / name).parent.mkdir(exist_ok=True)
    (signed / name).write_text("")
    assert check.wrong_files(signed) == [f"{name} is not a file of the bundle: remove it"]


def test_links_pipes_and_folders_are_wrong(signed: Path, tmp_path: Path) -> None:
    (signed / "empty" / "and more").mkdir(parents=True)
    shutil.move(signed / "labels.txt", tmp_path / "labels.txt")
    (signed / "labels.txt").symlink_to(tmp_path / "labels.txt")
    (signed / "more").symlink_to(tmp_path)
    os.mkfifo(signed / "pipe")  # reading it would never end
    assert sorted(check.wrong_files(signed)) == [
        "empty/and more is not a folder of the bundle: remove it",
        "labels.txt is a link",
        "more is a link",
        "pipe is not a file of the bundle: remove it",
    ]


@pytest.mark.parametrize("name", ["../outside.txt", "/etc/passwd"])
def test_a_list_that_leads_out_of_the_bundle_is_wrong(signed: Path, name: str) -> None:
    with (signed / "SHA256SUMS").open("a") as file:
        file.write(f"{'0' * 64}  {name}\n")
    assert check.wrong_files(signed) == [f"SHA256SUMS has the line '{'0' * 64}  {name}'"]


@pytest.mark.parametrize("module", ["json", "cryptography"])
@pytest.mark.parametrize("place", ["inside", "outside"])
def test_nothing_is_imported_from_the_bundle(
    signed: Path, keys: tuple[Path, Path], tmp_path: Path, module: str, place: str
) -> None:
    (signed / f"{module}.py").write_text("raise SystemExit('code of the bundle ran')")
    if place == "inside":
        done = started(Path("check.py"), "--key", keys[1], cwd=signed)
    else:
        done = check_from_outside(signed, keys[1], tmp_path / "trusted")
    assert done.returncode == 1
    assert "code of the bundle ran" not in done.stderr
    assert f"WRONG: {module}.py is not a file of the bundle" in done.stdout


def test_an_older_signed_bundle_verifies_and_says_what_it_cannot_prove(signed: Path, keys: tuple[Path, Path]) -> None:
    sums = (signed / "SHA256SUMS").read_bytes().partition(b"\n")[2]
    (signed / "SHA256SUMS").write_bytes(sums)
    private = serialization.load_pem_private_key(keys[0].read_bytes(), None)
    (signed / "SHA256SUMS.sig").write_bytes(private.sign(sums))  # type: ignore[union-attr, call-arg]
    said = output_of(signed / "check.py", "--key", keys[1])
    assert "by a version before 0.2.0, which stated no date and let files be added" in said


def test_a_tolerance_that_any_model_meets_is_wrong(signed: Path) -> None:
    path = signed / "test_vectors" / "vectors.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "tolerance": 1e400}))
    assert check.wrong_answers(signed, None) == ["vectors.json has the tolerance inf, which nearly every model meets"]


def test_a_folder_that_is_no_bundle_is_said_to_be_none(tmp_path: Path) -> None:
    code, said = ran(Path(check.__file__), tmp_path)
    assert (code, said) == (1, f"WRONG: {tmp_path} is no bundle: it has no SHA256SUMS\n")


@pytest.mark.parametrize("name", [".git/config", "notes.txt", "__pycache__/thesis.txt"])
def test_force_refuses_a_folder_with_files_of_others(signed: Path, name: str) -> None:
    (signed / name).parent.mkdir(exist_ok=True)
    (signed / name).write_text("mine")
    must_fail(UsageError, f"holds files that are not of the bundle: {name}", require_replaceable, signed, force=True)
    assert (signed / name).read_text() == "mine"


def test_force_replaces_a_bundle_whose_code_has_run(signed: Path) -> None:
    (signed / "python" / "__pycache__").mkdir()
    (signed / "python" / "__pycache__" / "classify.pyc").write_bytes(b"")
    assert require_replaceable(signed, force=True) == signed


def test_a_link_is_not_replaced(signed: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(signed)
    must_fail(UsageError, "is a link", require_replaceable, tmp_path / "link", force=True)


def test_openssl_verifies_the_signature(signed: Path, keys: tuple[Path, Path]) -> None:
    if not shutil.which("openssl"):
        pytest.skip("openssl is not installed")
    asked = ["openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", str(keys[1])]
    asked += ["-in", str(signed / "SHA256SUMS"), "-sigfile", str(signed / "SHA256SUMS.sig")]
    assert subprocess.run(asked, capture_output=True, check=False).returncode == 0


def test_the_checker_notices_files_and_sums_that_were_changed_together(signed: Path, keys: tuple[Path, Path]) -> None:
    sums, old = signed / "SHA256SUMS", hashlib.sha256((signed / "labels.txt").read_bytes()).hexdigest()
    (signed / "labels.txt").write_text("other\nlabels\nhere\n")
    sums.write_text(sums.read_text().replace(old, hashlib.sha256((signed / "labels.txt").read_bytes()).hexdigest()))
    assert ran(signed / "check.py")[0] == 0
    assert ran(signed / "check.py", "--key", keys[1]) == (
        1, f"WRONG: SHA256SUMS is not signed with the key of {keys[1]}\n"
    )  # fmt: skip


def test_the_checker_says_what_lacks_to_check_a_signature(
    signed: Path, bundle: Bundle, keys: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    private, public = keys
    assert "SHA256SUMS.sig: No such file" in ran(bundle.path / "check.py", "--key", public)[1]
    assert "is not a public Ed25519 key in PEM" in ran(signed / "check.py", "--key", private)[1]
    assert "nowhere.pem: No such file" in ran(signed / "check.py", "--key", "nowhere.pem")[1]
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    code, said = ran(signed / "check.py", "--key", public)
    assert (code, said) == (
        1, "WRONG: the signature cannot be checked: cryptography is not installed (pip install cryptography)\n"
    )  # fmt: skip


BAD_KEYS: dict[str, tuple[Callable[[Path], object], str]] = {
    "rsa": (
        lambda path: path.write_bytes(pem(rsa.generate_private_key(65537, 1024))), "a key of another kind than Ed25519"
    ),
    "encrypted": (lambda path: path.write_bytes(pem(Ed25519PrivateKey.generate(), b"secret")), "an encrypted key"),
    "text": (lambda path: path.write_text("not a key"), "holds no private key in PEM"),
    "a folder": (lambda path: path.mkdir(), "is not a plain file"),
    "a pipe": (os.mkfifo, "is not a plain file"),
    "missing": (lambda _path: None, "cannot be read"),
    "large": (lambda path: path.write_bytes(bytes(10**6)), "larger than"),
    "public": (lambda path: path.write_bytes(public_pem(Ed25519PrivateKey.generate())), "holds no private key in PEM"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD_KEYS)
def test_what_is_no_private_ed25519_key_is_refused_at_once(trained: RunFolder, tmp_path: Path, kind: str) -> None:
    make, words = BAD_KEYS[kind]
    make(tmp_path / "key.pem")
    must_fail(UsageError, words, export_form, trained, "float16", tmp_path / "refused", sign=tmp_path / "key.pem")
    assert not (tmp_path / "refused").exists()

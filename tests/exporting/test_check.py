"""The checker of a bundle: added files, links, modules in the bundle, and older signatures."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from advisor.core import UsageError
from advisor.exporting import Bundle, check
from advisor.exporting._bundle import checked
from tests.makers.bundles import export_form, ran
from tests.makers.searches import Searched


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A private and a public Ed25519 key in PEM."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    folder = tmp_path_factory.mktemp("keys")
    private = Ed25519PrivateKey.generate()
    secret = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "key.pem").write_bytes(secret)
    public = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (folder / "public.pem").write_bytes(public)
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
    command = [sys.executable, str(program), "--key", str(key), str(bundle)]
    return subprocess.run(command, capture_output=True, text=True, cwd=bundle, timeout=120, check=False)


def test_a_checker_verifies_others_and_tells_when(signed: Path, keys: tuple[Path, Path], tmp_path: Path) -> None:
    done = check_from_outside(signed, keys[1], tmp_path / "trusted")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"it is signed with this key on {check.signed_on(signed)}, no file has changed" in done.stdout
    assert check.signed_on(signed).startswith("20")


@pytest.mark.parametrize("name", ["python/evil.py", "extra.txt", ".hidden", "python/__pycache__/classify.pyc"])
def test_a_file_that_was_added_is_wrong(signed: Path, name: str) -> None:
    (signed / name).parent.mkdir(exist_ok=True)
    (signed / name).write_text("")
    assert check.wrong_files(signed) == [f"{name} is not a file of the bundle: remove it"]


def test_links_pipes_and_empty_folders_are_wrong(signed: Path, tmp_path: Path) -> None:
    shutil.move(signed / "labels.txt", tmp_path / "labels.txt")
    (signed / "labels.txt").symlink_to(tmp_path / "labels.txt")
    (signed / "more").symlink_to(tmp_path)
    os.mkfifo(signed / "pipe")  # reading it would never end
    (signed / "a" / "b").mkdir(parents=True)
    found = ["a/b is not a folder", "labels.txt is a link", "more is a link", "pipe is not a file"]
    assert [text.removesuffix(" of the bundle: remove it") for text in sorted(check.wrong_files(signed))] == found


@pytest.mark.parametrize("name", ["../outside.txt", "/etc/passwd"])
def test_a_list_that_leads_out_of_the_bundle_is_wrong(signed: Path, name: str) -> None:
    with (signed / "SHA256SUMS").open("a") as file:
        file.write(f"{'0' * 64}  {name}\n")
    assert check.wrong_files(signed) == [f"SHA256SUMS has the line '{'0' * 64}  {name}'"]


@pytest.mark.parametrize("module", ["numpy", "json", "cryptography", "ai_edge_litert"])
@pytest.mark.parametrize("place", ["inside", "outside"])
def test_nothing_is_imported_from_the_bundle(
    signed: Path, keys: tuple[Path, Path], tmp_path: Path, module: str, place: str
) -> None:
    (signed / f"{module}.py").write_text("raise SystemExit('code of the bundle ran')")
    if place == "inside":
        command = [sys.executable, "check.py", "--key", str(keys[1])]
        done = subprocess.run(command, capture_output=True, text=True, cwd=signed, timeout=120, check=False)
    else:
        done = check_from_outside(signed, keys[1], tmp_path / "trusted")
    assert done.returncode == 1
    assert "code of the bundle ran" not in done.stderr
    assert f"WRONG: {module}.py is not a file of the bundle" in done.stdout


def test_an_older_signed_bundle_verifies_and_says_what_it_cannot_prove(signed: Path, keys: tuple[Path, Path]) -> None:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    sums = (signed / "SHA256SUMS").read_bytes().partition(b"\n")[2]
    (signed / "SHA256SUMS").write_bytes(sums)
    private = load_pem_private_key(keys[0].read_bytes(), None)
    (signed / "SHA256SUMS.sig").write_bytes(private.sign(sums))  # type: ignore[union-attr, call-arg]
    code, said = ran(signed / "check.py", "--key", keys[1])
    assert code == 0, said
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
    with pytest.raises(UsageError, match=f"holds files that are not of the bundle: {name}"):
        checked(signed, force=True)
    assert (signed / name).read_text() == "mine"


def test_force_replaces_a_bundle_whose_code_has_run(signed: Path) -> None:
    (signed / "python" / "__pycache__").mkdir()
    (signed / "python" / "__pycache__" / "classify.pyc").write_bytes(b"")
    assert checked(signed, force=True) == signed


def test_a_link_is_not_replaced(signed: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(signed)
    with pytest.raises(UsageError, match="is a link"):
        checked(tmp_path / "link", force=True)

"""Files whose authors published something else than a SHA-256: checked by that, known by their SHA-256 from then on."""

import hashlib
import importlib.util
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from advisor.catalog import Catalogue, fetch_weights, locate_weights
from advisor.core import UsageError, WeightsError
from advisor.store import FetchOptions, MemberFile, WeightSource
from tests.builders import must_fail
from tests.makers.servers import Shelf
from tests.makers.weights import CONTENT, MEMBER, card, home, sha256, tarball

pytestmark = pytest.mark.integration

KNOWN: dict[str, dict[str, Any]] = {
    "sha256": {"sha256": sha256(CONTENT)},
    "md5": {"md5": hashlib.md5(CONTENT).hexdigest()},
    "sha384": {"sha384": hashlib.sha384(CONTENT).hexdigest()},
    "sha256_prefix": {"sha256_prefix": sha256(CONTENT)[:8]},
}
OTHER = b"other weights" * 1000
FILES = [
    (c.name, source, member) for c in Catalogue.load().values() for source in c.weights for member in (source.file,)
]


def known_by(url: str, hashes: dict[str, Any]) -> WeightSource:
    return replace(home(url), file=MemberFile("tiny.h5", **hashes))


@pytest.mark.parametrize("kind", KNOWN)
def test_a_file_is_fetched_and_found_by_whatever_published_hash(shelf: Shelf, options: FetchOptions, kind: str) -> None:
    source = known_by(shelf.put("/tiny.h5", CONTENT), KNOWN[kind])
    found = fetch_weights(card(source), options)
    assert (found.path.read_bytes(), found.sha256) == (CONTENT, sha256(CONTENT))
    assert (found.source, found.format) == (source.url, "keras_h5")
    seen = len(shelf.requests)
    assert fetch_weights(card(source), options).source == "cache"
    assert len(shelf.requests) == seen


@pytest.mark.parametrize("kind", ["md5", "sha256_prefix"])
def test_a_weak_hash_is_no_proof_over_http_without_the_sha256(shelf: Shelf, options: FetchOptions, kind: str) -> None:
    source = known_by(shelf.put("/tiny.h5", CONTENT), KNOWN[kind])
    far, mirrored = card(replace(source, url="https://weights.invalid/t")), replace(options, mirror="http://m.invalid")
    with pytest.raises(WeightsError, match=r"m.invalid/tiny.h5: an MD5 or a part of a hash proves nothing over http"):
        fetch_weights(far, mirrored)
    fetch_weights(card(source), options).path.unlink()
    must_fail(WeightsError, "m.invalid.*: no network or no such server", fetch_weights, far, mirrored)


@pytest.mark.parametrize("kind", KNOWN)
def test_another_file_is_refused_with_both_hashes(shelf: Shelf, options: FetchOptions, kind: str) -> None:
    source = known_by(shelf.put("/tiny.h5", OTHER), KNOWN[kind])
    raised = must_fail(WeightsError, "", fetch_weights, card(source), options)
    (expected,) = KNOWN[kind].values()
    algorithm = kind.removesuffix("_prefix")
    assert expected in raised.message
    assert hashlib.new(algorithm, OTHER).hexdigest() in raised.message
    assert locate_weights(card(source), options) is None
    files = [path for path in options.cache_root.rglob("*") if path.is_file()]
    assert OTHER in [path.read_bytes() for path in files], "what came is not deleted"


def test_what_passes_for_a_prefix_later_but_is_another_file_is_refused(shelf: Shelf, options: FetchOptions) -> None:
    # As short as a prefix must be for two files to share it in a test: the schema asks for eight digits.
    prefix = sha256(CONTENT)[:1]
    twin = next(data for n in range(10_000) if sha256(data := b"twin %d" % n)[:1] == prefix)
    source = known_by(shelf.put("/tiny.h5", CONTENT), {"sha256_prefix": prefix})
    first = fetch_weights(card(source), options)
    first.path.unlink()
    shelf.put("/tiny.h5", twin)
    raised = must_fail(WeightsError, "recorded when it first came", fetch_weights, card(source), options)
    assert sha256(twin) in raised.message
    assert sha256(CONTENT) in raised.message


def test_a_damaged_record_is_written_anew(shelf: Shelf, options: FetchOptions) -> None:
    source = known_by(shelf.put("/tiny.h5", CONTENT), KNOWN["md5"])
    fetch_weights(card(source), options)
    (record,) = (options.cache_root / "weights" / "known").iterdir()
    record.write_bytes(b"\xff not a hash")
    assert fetch_weights(card(source), options).sha256 == sha256(CONTENT)
    assert record.read_text().strip() == sha256(CONTENT)


def test_a_copied_cache_serves_such_a_file_offline(shelf: Shelf, options: FetchOptions, tmp_path: Path) -> None:
    source = known_by(shelf.put("/tiny.h5", CONTENT), KNOWN["md5"])
    fetch_weights(card(source), options)
    elsewhere = FetchOptions(offline=True, mirror=options.cache_root, cache=tmp_path / "empty")
    assert fetch_weights(card(source), elsewhere).path.read_bytes() == CONTENT


def archived(url: str, archive: bytes, **hashes: str) -> WeightSource:
    """A member without a hash, of an archive that has one."""
    key = hashes.get("archive_sha256") or f"sha384-{hashes.get('archive_sha384')}"
    member = MemberFile(MEMBER, archive=key if hashes else "")
    return WeightSource("url", "keras_h5", "keras", member, url=url, archive="t.tgz", **hashes)


@pytest.mark.parametrize("kind", ["sha256", "sha384"])
def test_an_archives_hash_vouches_for_what_is_in_it(shelf: Shelf, options: FetchOptions, kind: str) -> None:
    archive = tarball()
    digest = hashlib.new(kind, archive).hexdigest()
    source = archived(shelf.put("/t.tgz", archive), archive, **{f"archive_{kind}": digest})
    assert fetch_weights(card(source), options).sha256 == sha256(CONTENT)
    assert fetch_weights(card(source), options).source == "cache"


def test_an_archive_that_is_another_one_is_not_opened(shelf: Shelf, options: FetchOptions) -> None:
    source = archived(shelf.put("/t.tgz", tarball(OTHER)), tarball(), archive_sha256=sha256(tarball()[:-1]))
    must_fail(WeightsError, "expected", fetch_weights, card(source), options)
    assert locate_weights(card(source), options) is None


def test_a_web_mirror_may_hold_the_archive_and_not_its_file_without_a_hash(shelf: Shelf, options: FetchOptions) -> None:
    archive = tarball()
    source = archived("http://127.0.0.1:9/t.tgz", archive, archive_sha256=sha256(archive))
    shelf.put("/tiny.h5", CONTENT)
    must_fail(WeightsError, "", fetch_weights, card(source), replace(options, mirror=shelf.url))
    assert shelf.asked("/tiny.h5") == []
    shelf.put("/weights/t.tgz", archive)
    found = fetch_weights(card(source), replace(options, mirror=f"{shelf.url}/weights"))
    assert (found.sha256, found.source) == (sha256(CONTENT), f"{shelf.url}/weights")


def test_a_weak_hash_needs_a_connection_that_no_one_can_change(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "catalogs" / "nasnet.yaml").read_text()
    (tmp_path / "c.yaml").write_text(
        text.replace("nasnet_mobile_224", "mine").replace("https://storage", "http://storage")
    )
    must_fail(UsageError, "over https only", Catalogue.load, [tmp_path / "c.yaml"])


def test_the_catalogues_md5s_are_those_that_keras_itself_checks() -> None:
    spec = importlib.util.find_spec("keras")
    assert spec.origin is not None
    texts = [path.read_text() for path in (Path(spec.origin).parent / "src" / "applications").glob("*.py")]
    checked = set(re.findall(r'"([0-9a-f]{32})"', "".join(texts)))
    used = {member.md5 for _, _, member in FILES if member.md5}
    assert len(used) >= 10
    assert used <= checked


def test_the_catalogues_prefixes_are_those_in_the_names_of_pytorchs_files() -> None:
    listed = [(source.url, member) for _, source, member in FILES if member.path.endswith(".pth")]
    for url, member in listed:
        digits = member.path.rpartition("-")[2].removesuffix(".pth")
        assert (member.sha256 or member.sha256_prefix).startswith(digits), url or member.path
    assert sum(1 for _, member in listed if member.sha256_prefix) >= 10

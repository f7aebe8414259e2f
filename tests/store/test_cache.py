from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.store import ArtifactCache, require_cache
from advisor.store.files import sha256_json

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def write(text: str, path: Path) -> None:
    (path / "result").write_text(text)


def test_a_result_is_made_once(tmp_path: Path) -> None:
    cache, calls = ArtifactCache(tmp_path), list[Path]()

    def make(folder: Path) -> None:
        calls.append(folder)
        write("made", folder)

    first = cache.get("stage-1", {"a": 1}, make)
    assert cache.get("stage-1", {"a": 1}, make) == first
    assert (first / "result").read_text() == "made"
    assert len(calls) == 1


def test_every_input_is_part_of_the_key(tmp_path: Path) -> None:
    cache = ArtifactCache(tmp_path)
    folders = {cache.folder("s", inputs) for inputs in ({"a": 1}, {"a": 2}, {"a": 1, "b": None}, {"b": 1})}
    assert len(folders) == 4
    assert cache.folder("t", {"a": 1}) not in folders


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    cache = ArtifactCache(tmp_path)

    def fail(folder: Path) -> None:
        write("half", folder)
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError):
        cache.get("s", {}, fail)
    assert not cache.folder("s", {}).exists()
    assert [path.suffix for path in (tmp_path / "s").iterdir()] == [".lock"]


def test_results_cannot_be_changed_in_place_by_accident(tmp_path: Path) -> None:
    folder = ArtifactCache(tmp_path).get("s", {}, lambda out: write("x", out))
    assert (folder / "result").stat().st_mode & 0o222 == 0


@pytest.mark.integration
def test_two_processes_make_a_result_once(tmp_path: Path) -> None:
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom advisor.store import ArtifactCache\n"
        "def make(out):\n print('made'); time.sleep(0.5); (out / 'r').write_text('x')\n"
        "ArtifactCache(Path(sys.argv[1])).get('s', {'k': 1}, make)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert "".join(process.communicate()[0] for process in both).split() == ["made"]


def test_what_a_killed_process_left_half_made_goes_when_the_result_is_made(tmp_path: Path) -> None:
    cache = ArtifactCache(tmp_path)
    left = cache.root / "s" / f".making-{cache.folder('s', {}).name}-dead"
    left.mkdir(parents=True)
    cache.get("s", {}, lambda out: write("x", out))
    assert not left.exists()


def test_the_next_search_removes_what_is_half_made_unless_somebody_makes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADVISOR_CACHE_DIR", str(tmp_path))
    cache = ArtifactCache()
    left = cache.root / "s" / ".making-key-dead"
    left.mkdir(parents=True)

    def make(folder: Path) -> None:
        require_cache()
        write("x", folder)

    assert (cache.get("s", {}, make) / "result").is_file()
    assert not left.exists()


@given(st.dictionaries(st.text(max_size=5), json_values, max_size=4))
def test_the_key_does_not_depend_on_the_order_of_keys(value: dict[str, object]) -> None:
    assert sha256_json(value) == sha256_json(dict(reversed(value.items())))

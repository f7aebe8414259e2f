"""Commands on a cache whose files are damaged, and results of stages: what they say is what they said before."""

import shutil
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from advisor.store import ArtifactCache
from benchmarks.hostile_surfaces.attempts import HANG
from benchmarks.hostile_surfaces.damages import WHOLE, Damage, flip_bits
from benchmarks.hostile_surfaces.ground import WRONG, Case, Ground, found

COMMANDS = (
    ("catalog", "list", "--json"),
    ("devices", "list", "--json"),
    ("plan", "--budget", "50ms", "--candidates", "squeezenet*", "--device", "raspberry-pi-4", "--offline", "--json"),
)
AFRESH = Path(__file__).with_name("afresh.py")  # A fork of the tests has read the catalogue already
MADE, AGAIN = b"made" * 20_000, b"again"
BYTES = 60  # Results of a stage with some bytes changed


def cases(ground: Ground) -> Iterator[Case]:
    """Yield each command with each file of its cache damaged that none before it has; and results of a stage."""
    seen = set[Path]()
    for command in COMMANDS:
        kept = ground.folder / f"cache-{command[0]}"
        shutil.rmtree(ground.folder / "cache", ignore_errors=True)
        _, out, _ = ground.said(ground.fresh(), *command, script=AFRESH)
        shutil.copytree(ground.folder / "cache", kept)
        for file in sorted(path.relative_to(kept) for path in kept.rglob("*") if path.is_file()):
            if file in seen:
                continue
            seen.add(file)
            for label, damage in WHOLE.items():
                yield f"{command[0]}, {file}, {label}", partial(_told, ground, command, kept, file, damage, out)
    assert seen, "no command keeps anything"
    for name in ("model.tflite", "deep/part", "../result.sha256"):
        for label, damage in WHOLE.items():
            yield f"stage, {name}, {label}", partial(ground.call, _kept, ground.folder / "stage", name, damage)
    for number in range(BYTES):
        damage = partial(flip_bits, number)
        yield f"stage, bytes {number}", partial(ground.call, _kept, ground.folder / "stage", "model.tflite", damage)


def _told(
    ground: Ground, command: tuple[str, ...], kept: Path, file: Path, damage: Damage, expected: str
) -> Sequence[str]:
    place, cache = ground.fresh(), ground.folder / "cache"
    shutil.rmtree(cache, ignore_errors=True)
    shutil.copytree(kept, cache)
    damage(cache / file)
    try:
        code, out, err = ground.said(place, *command, script=AFRESH)
    except TimeoutError:
        return (HANG,)
    return (*found(code, out, err), *((WRONG,) if code or out != expected else ()))


def _kept(folder: Path, name: str, damage: Damage) -> None:
    """Damage a result, and get it: it is the one that was made, or it is made again."""
    shutil.rmtree(folder, ignore_errors=True)

    def make(content: bytes, place: Path) -> None:
        (place / "deep").mkdir()
        (place / "deep" / "part").write_bytes(content)
        (place / "model.tflite").write_bytes(content)

    result = ArtifactCache(folder).get("compress-3", {}, partial(make, MADE))
    damaged = Path(f"{result}.sha256") if name.endswith(".sha256") else result / name
    damaged.chmod(0o644)
    damage(damaged)
    result = ArtifactCache(folder).get("compress-3", {}, partial(make, AGAIN))
    contents = {(result / each).read_bytes() for each in ("model.tflite", "deep/part")}
    assert contents in ({MADE}, {AGAIN}), {content[:9] for content in contents}

"""Tables of fleets that people mistype: each is read as it is meant, or refused with a hint."""

from collections.abc import Iterator
from functools import partial

from advisor.integrations.fleet import read_fleet
from benchmarks.hostile_surfaces.damages import BROKEN
from benchmarks.hostile_surfaces.ground import Case, Ground

HEADER = "soc,share,os,cores"
ROW = ("Helio G99", "12.5", "android", "2 x Cortex-A76 @ 2200 + 6 x Cortex-A55 @ 2000")
REFUSED = (
    "soc;share\nHelio G99;12;5",
    "soc,share\nHelio G99,inf",
    "soc,share\nHelio G99,-1",
    "soc,share\nHelio G99,1e400",
    "soc,share,cores\nours,1,999999999 x Cortex-A76 @ 2200",
    "soc,share,cores\nours,1,2 x Cortex-A76 @ 0",
    "soc,share,core\nours,1,2 x Cortex-A76",
    "share\n1",
    "",
    "\0",
    '"soc,share\nHelio G99,1',
)
WAYS = ("as written", "with a byte-order mark", "with lines of Windows", "with semicolons", "with tabs")


def cases(ground: Ground) -> Iterator[Case]:
    """Yield tables that must be refused, cells of all kinds, and one table in several spellings."""
    read_fleet("soc,share\nHelio G99,1\n")  # what all forks need is read once
    for number, text in enumerate(REFUSED):
        yield f"refused {number}", partial(ground.call, read_fleet, text, refused=True)
    for place, column in enumerate(HEADER.split(",")):
        for number, cell in enumerate(BROKEN):
            cells = [*ROW[:place], cell, *ROW[place + 1 :]]
            yield f"{column}, {number}", partial(ground.call, read_fleet, f"{HEADER}\n{','.join(cells)}\n")
    for number, text in enumerate(BROKEN):
        yield f"header, {number}", partial(ground.call, read_fleet, f"{text}\n{','.join(ROW)}\n")
        yield f"beside {number}", partial(ground.call, _same, f"soc,share\nHelio G99,1\n# {text.splitlines()[:1]}\n")
    for way in WAYS:
        yield way, partial(ground.call, _same, spelled(way))


def spelled(way: str) -> str:
    mark = "\ufeff" if way == "with a byte-order mark" else ""
    text = f"{mark}soc,share\nHelio G99,75\nSnapdragon 888,25\n"
    separator = {"with semicolons": ";", "with tabs": "\t"}.get(way, ",")
    return text.replace(",", separator).replace("\n", "\r\n" if way == "with lines of Windows" else "\n")


def _same(text: str) -> None:
    assert read_fleet(text).known[0].name == "Helio G99"

"""What the pages on the house say and the code does not hold is named."""

from tools.checks import house

CONTRACT = '[[tool.importlinter.contracts]]\nlayers = ["advisor.cli", "advisor.store | advisor.api", "advisor.core"]\n'
LADDER = "```\ncli > api | store\n    > core\n```\n"
TABLE = "# D\n\n## Rooms\n\n| `cli/` | a |\n| `store/`, `api/` | b |\n| `core/` | c |\n"


def test_rooms_are_read_alike_from_contract_ladder_and_table() -> None:
    read = house.contract_layers(CONTRACT), house.ladder_layers(LADDER), house.table_layers(TABLE)
    assert read == ([["cli"], ["api", "store"], ["core"]],) * 3


def test_files_and_imports_that_are_gone_are_named() -> None:
    assert list(house.file_problems("a.md", "`core/_gone.py`")) == ["a.md: names core/_gone.py, which does not exist"]
    named = "`ORIGINS` of\n`origins.py`, `_map_origins` of `origins.py`, `origins_of` (`_downloads/origins.py`)"
    gone = "advisor/store/_downloads/README.md: names ORIGINS of origins.py, which defines no such name"
    assert list(house.pair_problems("advisor/store/_downloads/README.md", named)) == [gone]
    text = "from advisor.core import Option, Gone\nfrom advisor.gone import it\n"
    assert [line.partition(":")[0] for line in house.import_problems("page.md", text)] == ["page.md"] * 2
    assert list(house.exit_code_problems("| 0 | done |\n| 9 | gone |\n"))

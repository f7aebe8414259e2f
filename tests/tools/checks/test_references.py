"""A name in a docstring that nothing defines is named."""

from tools.checks.references import reference_problems

DEFINING = "import os\nclass Card:\n    def at(self) -> None: ...\nSIDE = 1\n"
PACKAGE = {"advisor": "from advisor.a import Card", "advisor.a": DEFINING}


def test_a_reference_is_found_in_its_module_through_an_import_and_anywhere_behind_a_dot() -> None:
    alive = "`Card.at`\n:data:`.SIDE`\n:meth:`.a.Card.at`\n:func:`~advisor.Card.at`\n:mod:`advisor.a`"
    using = f'"""See :meth:{alive}."""\nfrom advisor.a import Card\n'
    assert list(reference_problems({**PACKAGE, "advisor.b": using})) == []


def test_a_reference_to_a_name_that_is_gone_or_not_imported_is_named_with_its_line() -> None:
    dead = '"""One.\n:data:`SIDE`, :func:`.a.gone`, :class:`advisor.SIDE`, :mod:`.c`."""\n'
    problems = list(reference_problems({**PACKAGE, "advisor.b": dead}))
    assert problems == [
        f"advisor.b:2: refers to {name}, which does not exist" for name in ("SIDE", ".a.gone", "advisor.SIDE", ".c")
    ]

"""Links of the repository become links of the site."""

from __future__ import annotations

import pytest

from tools.site.links import mended


@pytest.mark.parametrize(
    ("place", "text", "expected"),
    [
        ("index.md", "[search](docs/search.md#question)", "[search](search.md#question)"),
        ("search.md", "[how](../CONTRIBUTING.md#tests)", "[how](project/contributing.md#tests)"),
        ("decisions/0066.md", "![plot](../../benchmarks/results/a.svg)", "![plot](../benchmarks/results/a.svg)"),
        ("project/contributing.md", "[docs](docs/design.md)", "[docs](../design.md)"),
        ("benchmarks/README.md", "[a](results/a.svg)", "[a](results/a.svg)"),
        ("index.md", "[n](docs/notebooks/a.ipynb)", "[n](notebooks/a.md)"),
        ("notebooks/a.md", "[first](../tutorials/b.md)", "[first](../tutorials/b.md)"),
        ("index.md", "[licence](LICENSE)", "licence"),
        (
            "index.md",
            "[here](#tests), [there](https://example.com/a)",
            "[here](#tests), [there](https://example.com/a)",
        ),
        ("index.md", "`[code](LICENSE)`", "`[code](LICENSE)`"),
        ("index.md", "```\n[code](LICENSE)\n```", "```\n[code](LICENSE)\n```"),
    ],
)
def test_a_link_is_mended(place: str, text: str, expected: str) -> None:
    assert mended(text, place, lambda name: name != "LICENSE") == expected

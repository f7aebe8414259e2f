"""Build hook: the README as the long description of the package.

``pyproject.toml`` names it. Links into the repository become addresses, or text
where the project has no address.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_IMAGE = re.compile(r"^!\[[^\]]*\]\((?!https?://)[^)\s]+\)\n+", re.MULTILINE)
_BEFORE_IMAGE = re.compile(r":\n\n!\[")
_LINK = re.compile(
    r"(?<!!)\[(?P<text>(?:[^][]|\[[^][]*\])*)\]\((?!https?://|#)(?P<path>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)"
)


class LongDescription(MetadataHookInterface):
    """Sets ``readme``, with links to the repository if the project's URLs have one."""

    def update(self, metadata: dict[str, Any]) -> None:
        """See :class:`hatchling.metadata.plugin.interface.MetadataHookInterface`."""
        repository = str(metadata.get("urls", {}).get("Repository", ""))
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": described(text, repository)}


def described(readme: str, repository: str) -> str:
    """Return a README whose links lead to the repository;
    without one, links are text and images are left out.
    """

    def linked(link: re.Match[str]) -> str:
        if not repository:
            return link["text"]
        return f"[{link['text']}]({repository}/blob/main/{link['path']}{link['anchor'] or ''})"

    if repository:
        shown = re.sub(
            r"(!\[[^\]]*\]\()(?!https?://)([^)\s]+)\)", rf"\1{repository}/raw/main/\2)", readme
        )
    else:
        shown = _IMAGE.sub("", _BEFORE_IMAGE.sub(".\n\n![", readme))
    return _LINK.sub(linked, shown)

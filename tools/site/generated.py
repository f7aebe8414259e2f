"""The page of the terms, made from the glossary that ``advisor explain`` reads."""

from advisor.reporting import text


def glossary() -> str:
    """Return the page of the terms that ``advisor explain`` explains."""
    parts = [
        "# Terms of the reports\n\n`advisor explain TERM` prints these texts. "
        "[Words](../words.md) has the words of the code.\n"
    ]
    for term in text.terms():
        also = f"Also: {', '.join(term.also)}. " if term.also else ""
        parts.append(f"## {term.name}\n\n{term.text}\n\n{also}[More](../{term.page}).\n")
    return "\n".join(parts)

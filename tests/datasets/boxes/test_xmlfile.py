from __future__ import annotations

from pathlib import Path

import pytest

from advisor.core.errors import UsageError
from advisor.datasets.boxes import voc as xmlfile
from advisor.datasets.boxes.voc import read_xml
from tests.datasets.boxes.writers import write

BOMB = (
    '<!DOCTYPE lolz [<!ENTITY lol0 "lol">'
    + "".join(f'<!ENTITY lol{n} "' + f"&lol{n - 1};" * 10 + '">' for n in range(1, 10))
    + "]>\n<annotation>&lol9;</annotation>"
)
EXTERNAL = '<?xml version="1.0"?>\n<!DOCTYPE a [<!ENTITY file SYSTEM "file:///etc/passwd">]>\n<a>&file;</a>'


def test_elements_have_their_text_and_line(tmp_path: Path) -> None:
    root = read_xml(write(tmp_path / "a.xml", "<a>\n<b> one </b>\n<b>\n<c/>two</b></a>"))
    assert [(one.line, one.text) for one in root.all("b")] == [(2, "one"), (3, "two")]
    assert root.first("d").text == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, "line 1: a document type"),
        (EXTERNAL, "line 2: a document type"),
        ('<!DOCTYPE a SYSTEM "http://localhost/a.dtd"><a/>', "line 1: a document type"),
        ("<a>&undefined;</a>", "line 1: undefined entity"),
        ("<a>" * 40 + "</a>" * 40, "elements nested more than 32 deep"),
        ("<a>\n<b>" + "x" * 20_000 + "</b></a>", "line 2: a text of more than 16,384 characters"),
        ("", "line 1: no element found"),
        ("<a></b>", "line 1: mismatched tag"),
        ('<?xml version="1.0" encoding="klingon"?><a/>', "line 1: unknown encoding"),
    ],
)
def test_what_is_no_plain_xml_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_xml(write(tmp_path / "a.xml", text))


def test_the_number_of_elements_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xmlfile, "MAX_ELEMENTS", 10)
    with pytest.raises(ValueError, match="more than 10 elements"):
        read_xml(write(tmp_path / "a.xml", "<a>" + "<b/>" * 10 + "</a>"))


def test_the_size_of_a_file_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xmlfile, "MAX_BYTES", 10)
    with pytest.raises(UsageError, match="larger than"):
        read_xml(write(tmp_path / "a.xml", "<a>" + "<b/>" * 10 + "</a>"))


def test_another_encoding_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_bytes('<?xml version="1.0" encoding="latin-1"?><a>Müll</a>'.encode("latin-1"))
    assert read_xml(tmp_path / "a.xml").text == "Müll"

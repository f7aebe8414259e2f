"""Tell which encoding a text may have that is not UTF-8, so that an error can show how it reads.

``_yamlfile.py`` asks for the error of any text, ``datasets`` for names in zip files. Spreadsheets
of other countries save CSV in the encoding of their system. A few words do not say surely which
one it is: charset-normalizer 3.5 reads tables of 60 rows right in 7 of 13 encodings, and wrongly
in the others. So a text is never read by a guess: the guesses are shown, and the user chooses.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path

from advisor.core import UsageError, plain

_WESTERN = "äöüßéèêëàâçñáíóúîïôûùœæøåãõìòÄÖÜÉÈÀÇÑÁÍÓÚÅØÆÂÊÎÔ"
_CENTRAL = "ąćęłńóśźżčďěňřšťůžýáíéúäöüőűăâîșțľôŁŚŻŹĆČŘŠŽÝÁÍÉÚÖÜŐŰ"
_CYRILLIC = "абвгдежзийклмнопрстуфхцчшщъыьэюяёіїєАБВГДЕЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯЁІЇЄ"
_GREEK = "αβγδεζηθικλμνξοπρσςτυφχψωάέήίόύώΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩ"
_TURKISH = "ğışçöüâîİŞĞÇÖÜ"
_HEBREW = "אבגדהוזחטיךכלםמןנסעףפץצקרשת"
_ARABIC = "ءآأؤإئابةتثجحخدذرزسشصضطظعغفقكلمنهوىيپچژگ"
_KANA = (0x3041, 0x30FF)
_CAPITAL = 0.9  # Weight of a capital letter at the begin of a word
_CAPITAL_INSIDE = 0.3
_RUN = 0.5  # Weight of a letter with an accent among others: words have few of them
_LONGEST_RUN = 2
_LEAST = 0.6  # Of the weights' mean: an encoding below it makes no words
_TWO_SCRIPTS = "".join((_CYRILLIC, _GREEK, _HEBREW, _ARABIC))
_WORD = re.compile(r"[^\s,;|\t\"'()\[\]{}/\\]+")
MOST_LINES = 50  # Lines that are looked at
MOST_BYTES = 4096  # Of a line
MOST_WORDS = 3  # That an error shows
LONGEST_WORD = 40
MOST_GUESSES = 3  # That an error shows


@dataclass(frozen=True)
class Encoding:
    """An encoding that a text may have."""

    name: str  # what people call it
    tool: str  # what iconv calls it
    codec: str  # what Python calls it
    letters: str = ""  # its usual letters; empty where ``rows`` tells
    # A codec in which the usual characters have a first byte in this range.
    rows: tuple[str, int, int] = ("", 0, 0)


@cache
def list_encodings() -> Sequence[Encoding]:
    """Return the encodings in the order that counts where two are as likely."""
    return (
        Encoding("Windows-1252", "WINDOWS-1252", "cp1252", _WESTERN),
        Encoding("Windows-1250", "WINDOWS-1250", "cp1250", _CENTRAL),
        Encoding("Windows-1251", "WINDOWS-1251", "cp1251", _CYRILLIC),
        Encoding("Windows-1254", "WINDOWS-1254", "cp1254", _TURKISH),
        Encoding("Windows-1253", "WINDOWS-1253", "cp1253", _GREEK),
        Encoding("Windows-1255", "WINDOWS-1255", "cp1255", _HEBREW),
        Encoding("Windows-1256", "WINDOWS-1256", "cp1256", _ARABIC),
        Encoding("Mac Roman", "MACINTOSH", "mac_roman", _WESTERN),
        Encoding("code page 850", "CP850", "cp850", _WESTERN),
        Encoding("code page 866", "CP866", "cp866", _CYRILLIC),
        Encoding("KOI8-R", "KOI8-R", "koi8_r", _CYRILLIC),
        Encoding("Shift-JIS", "CP932", "cp932", rows=("euc_jp", 0xB0, 0xCF)),
        Encoding("EUC-KR", "CP949", "cp949", rows=("euc_kr", 0xB0, 0xC8)),
        Encoding("GBK", "GB18030", "gb18030", rows=("gb2312", 0xB0, 0xD7)),
        Encoding("Big5", "BIG5", "big5", rows=("big5", 0xA4, 0xC6)),
    )


def encoding_error(path: Path, lines: Iterable[bytes]) -> UsageError:
    """Return the error of a text that is not UTF-8: its likeliest readings, and a command."""
    guesses = guess_encodings(lines)
    if not guesses:
        return UsageError(
            f"{path}: its text is not UTF-8", "give the path of a text file in UTF-8"
        )
    likeliest, _ = guesses[0]
    source = shlex.quote(str(path))
    target = shlex.quote(str(path.with_name(f"{path.stem}-utf8{path.suffix}")))
    command = f"iconv -f {likeliest.tool} -t UTF-8 {source} > {target}"
    others = [f"-f {encoding.tool}" for encoding, _ in guesses[1:MOST_GUESSES]]
    otherwise = f" ({' or '.join(others)} if that one is right)" if others else ""
    return UsageError(
        f"{path}: its text is not UTF-8: {describe_guesses(guesses)}",
        f"convert it: {command}{otherwise}; Excel writes UTF-8 as 'CSV UTF-8'",
    )


def guess_encodings(lines: Iterable[bytes]) -> Sequence[tuple[Encoding, str]]:
    """Return the encodings in which a text makes words, and its reading; the likeliest first.

    Of two encodings with the same reading, only the first is there.
    """
    telling = (line[:MOST_BYTES] for line in lines if not line.isascii())
    head = b"\n".join(islice(telling, MOST_LINES))
    guesses: dict[str, tuple[float, Encoding]] = {}
    for encoding in list_encodings():
        try:
            text = head.decode(encoding.codec)
        except ValueError:
            continue
        weight = _weigh(text, encoding)
        if weight >= _LEAST:
            guesses.setdefault(text, (weight, encoding))
    ranked = sorted(guesses.items(), key=lambda guess: -guess[1][0])
    return [(encoding, text) for text, (_, encoding) in ranked]


def describe_guesses(guesses: Sequence[tuple[Encoding, str]]) -> str:
    """Return how a text reads in the likeliest encodings, as a part of a sentence."""
    parts = []
    for encoding, text in guesses[:MOST_GUESSES]:
        # Words of ASCII alone read the same in all of them.
        words = dict.fromkeys(word for word in _WORD.findall(text) if not word.isascii())
        shown = [f"'{plain(word[:LONGEST_WORD])}'" for word in islice(words, MOST_WORDS)]
        parts.append(f"as {encoding.name} it has {', '.join(shown)}")
    return "; ".join(parts)


def _weigh(text: str, encoding: Encoding) -> float:
    """Return how much of a text is usual in an encoding, from 0 to 1."""
    weights = []
    for word in _WORD.findall(text):
        # Letters of ASCII are the same in all encodings, so they tell nothing.
        for place, char in enumerate(word):
            if not char.isascii():
                weights.append(_weigh_letter(word, place, encoding))
    return sum(weights) / len(weights) if weights else 0.0


def _weigh_letter(word: str, place: int, encoding: Encoding) -> float:
    char = word[place]
    if encoding.rows[0]:
        return float(_is_usual(char, encoding))
    if char not in encoding.letters:
        return 0.0
    is_other_script = char in _TWO_SCRIPTS
    # No word is written in two scripts.
    if is_other_script and any(letter.isascii() and letter.isalpha() for letter in word):
        return 0.0
    if char.isupper():
        return _CAPITAL if place == 0 or word.isupper() else _CAPITAL_INSIDE
    around = word[max(0, place - _LONGEST_RUN) : place + _LONGEST_RUN + 1]
    is_run = len(around) > _LONGEST_RUN and not any(map(str.isascii, around))
    return _RUN if is_run and not is_other_script else 1.0


def _is_usual(char: str, encoding: Encoding) -> bool:
    codec, first, last = encoding.rows
    if codec == "euc_jp" and _KANA[0] <= ord(char) <= _KANA[1]:
        return True
    try:
        return first <= char.encode(codec)[0] <= last
    except ValueError:
        return False

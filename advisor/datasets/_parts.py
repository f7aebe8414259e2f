"""Tell from the name of a folder, a file or a column which part of a split it means.

Every reader of layouts asks here, and the split takes the names of its parts from here. They are
written into run folders. A word that is added makes folders of existing data parts, so it must be
one that no class has.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping
from functools import lru_cache

from advisor.datasets._split_part import SplitPart

# Texts, because names that people write are looked for among them.
PARTS: tuple[str, ...] = tuple(SplitPart)
UNLABELLED = "unlabelled"

PART_OF_WORD: Mapping[str, str] = {
    "train": SplitPart.TRAIN,
    "training": SplitPart.TRAIN,
    "val": SplitPart.VALIDATION,
    "valid": SplitPart.VALIDATION,
    "validation": SplitPart.VALIDATION,
    "validate": SplitPart.VALIDATION,
    "dev": SplitPart.VALIDATION,
    "test": SplitPart.HOLDOUT,
    "testing": SplitPart.HOLDOUT,
    "holdout": SplitPart.HOLDOUT,
    "hold-out": SplitPart.HOLDOUT,
    "unseen": SplitPart.HOLDOUT,
    "eval": SplitPart.HOLDOUT,
    "evaluation": SplitPart.HOLDOUT,
}
"""Words for the parts of a split, and the names of the parts here."""

OTHER_LANGUAGES = {
    SplitPart.TRAIN: (
        "entrenamiento entreno entrainement entraînement apprentissage treino treinamento"
        " addestramento allenamento trainings trn tr обучение тренировка обучающая trening uczenie"
        " eğitim egitim träning trénink latih pelatihan 训练 訓練 训练集 訓練集 学習 学習用"
        " 훈련 학습"
    ),
    SplitPart.VALIDATION: (
        "validacion validación validacao validação validazione validierung validierungs vld"
        " валидация walidacja doğrulama dogrulama validering validasi 验证 驗證 验证集 驗證集 検証"
        " 検証用 검증"
    ),
    SplitPart.HOLDOUT: (
        "prueba pruebas teste testes tests essai tst te тест тестовая тестирование testowy testowe"
        " uji sınama 测试 測試 测试集 測試集 テスト テスト用 評価 시험 테스트"
    ),
}
"""Words for the parts in other languages, and short forms of them."""

TRAIN_AND_VALIDATION = {"trainval": ("train", "val")}
"""A word for two parts."""

_UNLABELLED = "unlabeled unlabelled pred predict prediction predictions inference submission"
UNLABELLED_WORDS = frozenset(_UNLABELLED.split())
"""Words for images without classes, which competitions ask an answer for."""

EVALUATION_WORDS = frozenset({"eval", "evaluation"})
"""Words for the validation part where another folder is the test part."""

_NEUTRAL = """
set sets data daten datensatz bilder dataset datasets ds public private image images img imgs jpg
jpeg jpegs jpegimages png photo photos picture pictures pics folder folders dir split part subset
sample samples instances annotations final full raw all labeled labelled the my new
"""
NEUTRAL_WORDS = frozenset(_NEUTRAL.split())
"""Words beside that of a part which say nothing of a class."""

_TABLE_WORDS = (
    "human machine imagelabels label labels annotation meta metadata list classification"
)
TABLE_WORDS = frozenset(_TABLE_WORDS.split())
"""Further ones in the name of a table."""

_LETTERS = re.compile(r"[^\W\d_]+")
_CAMEL_CASE = re.compile(r"(?<=[a-z])(?=[A-Z])")
_FOREIGN: Mapping[str, str] = {
    **dict.fromkeys(OTHER_LANGUAGES[SplitPart.TRAIN].split(), SplitPart.TRAIN),
    **dict.fromkeys(OTHER_LANGUAGES[SplitPart.VALIDATION].split(), SplitPart.VALIDATION),
    **dict.fromkeys(OTHER_LANGUAGES[SplitPart.HOLDOUT].split(), SplitPart.HOLDOUT),
}
# The longest words first, because an expression takes the first alternative that fits.
_PART_WORDS = sorted(
    PART_OF_WORD.keys() | UNLABELLED_WORDS | _FOREIGN.keys(), key=len, reverse=True
)
_PART_STEM = "|".join(map(re.escape, _PART_WORDS))
_AFTER_PART = (
    "sets?|data|daten|datensatz|bilder|datasets?|images?|imgs?|img|photos?|pictures?|pics|folder"
    "|dir|split"
)
_JOINED = re.compile(rf"({_PART_STEM})({_AFTER_PART})")

_PART_WORD = re.compile(rf"(?<![^\W\d_])({_PART_STEM})(?![^\W\d_])", re.IGNORECASE)
SEPARATORS = " _-."


def split_words(name: str) -> tuple[str, ...]:
    """Return the words of a name, without digits: ``TrainSet_2`` has ``train`` and ``set``.

    They are in small letters. A word of a part that is written together with a neutral word, such
    as ``testdata``, counts as two.
    """
    name = unicodedata.normalize("NFC", name)
    plain = name.casefold()
    if plain in PART_OF_WORD:
        return (plain,)
    words: list[str] = []
    for letters in _LETTERS.findall(_CAMEL_CASE.sub(" ", name)):
        word = letters.casefold()
        joined = _JOINED.fullmatch(word)
        words += joined.groups() if joined else TRAIN_AND_VALIDATION.get(word, (word,))
    if len(words) > 1 and "hold" in words and words[-1] == "out":
        words = [*words[: words.index("hold")], "holdout"]
    return tuple(words)


@lru_cache(maxsize=4096)
def part_of(name: str, shared_words: frozenset[str] = frozenset()) -> str:
    """Return the part of a split that a name means, empty for none.

    It is one of :data:`PARTS`, or :data:`UNLABELLED`. The other words of the name must be neutral
    or among ``shared_words``, so ``training_set`` is a part and ``test tube`` is none.
    ``train_val`` is the training part.
    """
    words = split_words(name)
    rest = [word for word in words if not _find_part_of_word(word)]
    if any(word not in NEUTRAL_WORDS and word not in shared_words for word in rest):
        return ""
    return _choose_part(words)


def find_parts_of_siblings(names: Collection[str]) -> Mapping[str, str]:
    """Return the part that each of several folders means; folders that mean none are left out.

    Words that all names of parts share say nothing, so ``seg_train``, ``seg_test`` and
    ``seg_pred`` are parts. ``eval`` is the validation part beside a test part if nothing else is.
    """
    candidates = []
    for name in names:
        if any(map(_find_part_of_word, split_words(name))):
            candidates.append(set(split_words(name)))
    shared = frozenset(set.intersection(*candidates)) if len(candidates) > 1 else frozenset()
    meanings = {name: part_of(name, shared) for name in names}
    parts = {name: part for name, part in meanings.items() if part}
    if (
        SplitPart.HOLDOUT in _list_certain_parts(parts)
        and SplitPart.VALIDATION not in parts.values()
    ):
        for name in parts:
            if EVALUATION_WORDS & set(split_words(name)):
                parts[name] = SplitPart.VALIDATION
    return parts


def find_classes_with_parts(names: Collection[str]) -> Mapping[str, tuple[str, str]]:
    """Return class and part of folders that name both, such as ``train_cats``, ``test_cats``.

    Empty if not all do. Each class must be in two parts or more, and there must be two classes:
    ``test tube`` beside ``train station`` are classes.
    """
    pairs: dict[str, tuple[str, str]] = {}
    parts_of_class: dict[str, set[str]] = {}
    for name in names:
        match = _PART_WORD.search(name)
        if match is None:
            return {}
        label = (name[: match.start()] + name[match.end() :]).strip(SEPARATORS)
        part = _find_part_of_word(match[0].casefold())
        if not label or _PART_WORD.search(label):
            return {}
        pairs[name] = (label, part)
        parts_of_class.setdefault(label.casefold(), set()).add(part)
    several = all(len(parts) > 1 for parts in parts_of_class.values())
    return pairs if several and len(parts_of_class) > 1 else {}


def _list_certain_parts(parts: Mapping[str, str]) -> set[str]:
    """Return the parts that names state by another word than that of an evaluation."""
    return {part for name, part in parts.items() if not EVALUATION_WORDS & set(split_words(name))}


def _find_part_of_word(word: str) -> str:
    if word in UNLABELLED_WORDS:
        return UNLABELLED
    return PART_OF_WORD.get(word) or _FOREIGN.get(word, "")


def _choose_part(words: Collection[str]) -> str:
    parts = set(map(_find_part_of_word, words)) - {""}
    if parts == {SplitPart.TRAIN, SplitPart.VALIDATION}:
        return SplitPart.TRAIN
    return parts.pop() if len(parts) == 1 else ""

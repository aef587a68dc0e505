"""A pattern of cues is tried only where a text has one of its words: nothing that it matches may be missed by that."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

from compaction_app.memory import word_tables
from compaction_app.memory.sentences import split_sentences
from compaction_app.memory.word_tables import Cues
from compaction_app.memory.words import read_words

TABLES = {name: one for name, one in vars(word_tables).items() if isinstance(one, Cues)}


def _texts() -> set[str]:
    """All that this folder's tests say, and each word of a table by itself and beside others."""
    source = "\n".join(path.read_text() for path in Path(__file__).parent.glob("*.py"))
    said = [
        one.value
        for one in ast.walk(ast.parse(source.replace("from __future__ import annotations", "")))
        if isinstance(one, ast.Constant) and isinstance(one.value, str)
    ]
    listed = re.findall(r"[^\s\"|]+", inspect.getsource(word_tables))
    words = {one.replace("_", " ").replace("*", "en") for one in listed} | {one.strip("*") for one in listed}
    return (
        {sentence for text in said for sentence, _ in split_sentences(text)} | {f"He {one} x" for one in words} | words
    )


def test_no_match_is_missed() -> None:
    texts = [form for text in _texts() for form in (text, text.upper(), text.replace("'", "’").replace("s", "ſ"))]
    assert len(texts) > 5_000
    found = {name: [text for text in texts if one.pattern.search(text)] for name, one in TABLES.items()}
    assert all(len(matched) > 5 for matched in found.values())
    missed = {
        (name, text)
        for name, matched in found.items()
        for text in matched
        for cues in (None, read_words(text).cues)
        if not TABLES[name].search(text, cues)
    }
    assert not missed

"""docs/origins.toml: a row for all that the five systems do, and nothing in it that is not so."""

import ast
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pydoc import locate
from typing import Any

import pytest
from django.core.management import get_commands

from compaction_app.conf import DEFAULTS
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from compaction_app.values import EventKind
from tests.conftest import REPOSITORY

pytestmark = pytest.mark.pure

DOCUMENT = REPOSITORY / "docs" / "origins.toml"

_KEYS = {"there", "here", "differs", "to_come", "where", "tests"}
_WHY = {"differs", "to_come"}
_TEST = re.compile(r"(tests/[\w/]+\.py)::((?:\w+::)?\w+)")
_MODELS = (ChatSession, ChatMessage, CompactionRun, CompactionEvent)

Document = dict[str, Any]


def rows(document: Document) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each row with its system and its part."""
    for system in document["system"]:
        for part in system["part"]:
            yield from ((f"{system['name']}, {part['name']}", row) for row in part["row"])


def find_problems(document: Document) -> list[str]:
    """Everything that is wrong with the document; empty if all is true."""
    return [
        f"{place}, {row.get('there')!r}: {problem}" for place, row in rows(document) for problem in _row_problems(row)
    ]


def _row_problems(row: dict[str, Any]) -> Iterator[str]:
    if row.keys() - _KEYS or not row.get("there") or not all(row.values()):
        yield f"the keys are {', '.join(sorted(_KEYS))}, none of them empty"
    if not row.keys() & _WHY and not {"here", "where", "tests"} <= row.keys():
        yield "held, without a name, a place or a test"
    for name in row.get("where", ()):
        if not exists(*(name.split(" ") if " " in name else ("", name))):
            yield f"{name} does not exist"
    for name in row.get("tests", ()):
        found = _TEST.fullmatch(name)
        if not found:
            yield f"{name!r} names no test"
        elif found[2] not in names_of_tests(found[1]):
            yield f"the test {name} does not exist"


@cache
def exists(kind: str, name: str) -> bool:
    """Whether an importable name, a setting, an event, a command, a constraint or a file exists."""
    if kind == "event":
        return name in set(EventKind)
    if kind == "command":
        return name in get_commands()
    if kind == "constraint":
        return name in {constraint.name for model in _MODELS for constraint in model._meta.constraints}
    if kind == "file":
        return (REPOSITORY / name).is_file()
    if kind == "setting":
        return name in DEFAULTS
    # A module, what is in it, or an attribute of a class in it, also one that is only annotated.
    owner, _, attribute = name.rpartition(".")
    return not kind and (locate(name) is not None or attribute in getattr(locate(owner), "__annotations__", {}))


@cache
def names_of_tests(path: str) -> frozenset[str]:
    """``test_x`` and ``TestX::test_y`` of a file, read and not run; none if it is not there."""
    file = REPOSITORY / path
    if not file.is_file():
        return frozenset()
    body = ast.parse(file.read_text()).body
    classes = [node for node in body if isinstance(node, ast.ClassDef)]
    return frozenset(
        [*_test_names(body), *(f"{one.name}::{name}" for one in classes for name in _test_names(one.body))]
    )


def _test_names(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield node.name


def test_everything_it_says_is_there() -> None:
    """Every symbol, setting, event, constraint, file and test that it names exists; nothing is held without a test."""
    assert find_problems(tomllib.loads(DOCUMENT.read_text())) == []

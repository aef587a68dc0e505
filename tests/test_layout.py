"""The rooms of the package: each imports only rooms below it, and what is pure reaches for nothing outside."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import compaction_app

pytestmark = pytest.mark.pure

PACKAGE = Path(compaction_app.__file__).parent

#: The rooms from the ground up, with what belongs to each: folders, and files at the root of the package.
ROOMS: dict[str, set[str]] = {
    "ground": {"conf", "exceptions"},
    "messages": {"messages", "values", "tokens", "redaction"},
    "telemetry": {"telemetry", "signals"},
    "models": {"models"},
    "tree": {"tree"},
    "context": {"context"},
    "memory": {"memory"},
    "summarizers": {"summarizers"},
    "compaction": {"compaction", "spending"},
    "tasks": {"tasks"},
    "conversation": {"conversation"},
    "chat": {"chat"},
    "transfer": {"transfer"},
    "edges": {"admin", "api", "apps", "management", "plain", "templatetags", "urls"},
}
LEVEL = {member: level for level, members in enumerate(ROOMS.values()) for member in members}

#: Shipped for users' tests: may use everything, is used by nothing.
BESIDE = {"testing"}
#: Written by Django, run once.
LEFT_OUT = {"migrations"}

#: The one pair that knows each other: a manager is part of its model, and loads it when it is called.
LATE_IMPORTS = {("compaction_app.models.managers", "compaction_app.models")}

#: Free of ORM, clock, network, files and chance: the same input gives the same answer. A folder stands for its files.
PURE = set(
    """
    compaction/planning.py context/assembly.py
    context/budget.py context/catalog.py context/overflow.py context/pruning.py exceptions.py messages models/sql.py
    plain.py redaction.py memory summarizers/drafts.py summarizers/error_details.py
    summarizers/prompts.py tokens.py transfer/formats.py values.py
    """.split()
)
#: Settings are given to what is pure, and a log line changes nothing.
ALSO_KNOWN = {"conf.py", "telemetry.py"}

#: All that pure logic is made of. What is not here may read a clock, a file, a socket, chance or a database.
PURE_IMPORTS = set(
    """
    __future__ base64 bisect collections contextlib copy dataclasses datetime decimal difflib enum functools
    genai_prices hashlib heapq html itertools json logging math operator re string textwrap toktok traceback typing
    unicodedata
    """.split()
)
CLOCKS = {"now", "today", "utcnow"}


class When(Enum):
    LOADED = "with the module"
    CALLED = "in a function"
    NEVER = "read by type checkers only"


@dataclass(frozen=True)
class Import:
    path: Path
    imported: str
    when: When
    place: str

    @property
    def importer(self) -> str:
        return ".".join(["compaction_app", *self.path.relative_to(PACKAGE).with_suffix("").parts])

    @property
    def importing(self) -> str:
        return member(self.importer)

    @property
    def member(self) -> str:
        return member(self.imported)


def member(module: str) -> str:
    """The folder or root file of this package that a module belongs to; "" if it is another's."""
    parts = module.split(".")
    return parts[1] if parts[0] == "compaction_app" and len(parts) > 1 else ""


def sources() -> Iterator[Path]:
    for path in sorted(PACKAGE.rglob("*.py")):
        first = path.relative_to(PACKAGE).parts[0]
        if first not in LEFT_OUT and path != PACKAGE / "__init__.py":
            yield path


def imports_in(path: Path) -> Iterator[Import]:
    for node, when in with_times(ast.parse(path.read_text()), When.LOADED):
        for name in imported_names(node):
            place = f"{path.relative_to(PACKAGE)}:{node.lineno}"  # type: ignore[attr-defined]  # imports have one
            yield Import(path, name, when, place)


def with_times(node: ast.AST, when: When) -> Iterator[tuple[ast.AST, When]]:
    """Every node below with the time at which its code runs."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        when = When.CALLED
    elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        when = When.NEVER
    yield node, when
    for child in ast.iter_child_nodes(node):
        yield from with_times(child, when)


def imported_names(node: ast.AST) -> list[str]:
    """The modules that an import names; ``from a.b import c`` names ``a.b.c`` where that is a module."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    assert not node.level, "imports are absolute"
    named = [f"{node.module}.{alias.name}" for alias in node.names]
    return sorted({name if is_module(name) else str(node.module) for name in named})


def is_module(name: str) -> bool:
    path = PACKAGE.parent / name.replace(".", "/")
    return name.startswith("compaction_app") and (path.is_dir() or path.with_suffix(".py").is_file())


def is_pure(path: Path) -> bool:
    parts = path.relative_to(PACKAGE).parts
    return parts[0] in PURE or "/".join(parts) in PURE


IMPORTS = [found for path in sources() for found in imports_in(path)]
OWN_IMPORTS = [found for found in IMPORTS if found.member and found.importing not in BESIDE]


def test_every_file_belongs_to_a_room() -> None:
    """A new folder or root file gets its room before it is imported."""
    found = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in sources()}
    assert found - BESIDE == set(LEVEL)
    assert len(LEVEL) == sum(len(members) for members in ROOMS.values())


def test_rooms_import_only_rooms_below_them() -> None:
    climbing = [
        f"{found.place}: {found.importing} → {found.member}"
        for found in OWN_IMPORTS
        if LEVEL.get(found.member, len(ROOMS)) > LEVEL[found.importing]
    ]
    assert climbing == []


def test_files_do_not_import_each_other_in_a_circle() -> None:
    """In whatever order they are loaded, each finds what it needs. Types may know each other: nothing is loaded."""
    graph: dict[str, set[str]] = {}
    for found in OWN_IMPORTS:
        if found.when is not When.NEVER and (found.importer, found.imported) not in LATE_IMPORTS:
            graph.setdefault(found.importer.removesuffix(".__init__"), set()).add(found.imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


def test_no_import_hides_inside_a_function() -> None:
    hidden = {(found.importer, found.imported): found.place for found in OWN_IMPORTS if found.when is When.CALLED}
    assert set(hidden) == LATE_IMPORTS, hidden


def test_pure_files_reach_for_nothing_outside() -> None:
    """No ORM, clock, network, file or chance, and of this package only what is pure as well."""
    assert [name for name in PURE if not (PACKAGE / name).exists()] == []
    impure = []
    for found in IMPORTS:
        if not is_pure(found.path) or found.when is When.NEVER:
            continue
        if not found.member:
            known = found.imported.split(".")[0] in PURE_IMPORTS
        else:
            path = (PACKAGE.parent / found.imported.replace(".", "/")).with_suffix(".py")
            path = path if path.is_file() else path.with_suffix("") / "__init__.py"
            known = is_pure(path) or str(path.relative_to(PACKAGE)) in ALSO_KNOWN
        if not known:
            impure.append(f"{found.place}: {found.imported}")
    assert impure == []


def test_pure_files_never_ask_what_time_it_is() -> None:
    """``datetime`` is a type there: values come with their times."""
    asked = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}: {node.attr}"
        for path in sources()
        if is_pure(path)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in CLOCKS
    ]
    assert asked == []


def test_recursive_statements_are_in_one_module() -> None:
    """Whoever changes the tree's columns finds every walk through it in one place."""
    found = {str(path.relative_to(PACKAGE)) for path in sources() if re.search(r"\bRECURSIVE\b", path.read_text())}
    assert found == {"models/sql.py"}


def test_the_net_catches_what_it_is_for() -> None:
    """The parser sees plain, aliased, late and type-only imports; else the laws above prove nothing."""
    found = {(i.imported, i.when) for i in imports_in(PACKAGE / "models" / "managers.py")}
    models = "compaction_app.models"
    assert {("compaction_app.models.sql", When.LOADED), ("django.db", When.LOADED)} <= found
    assert {(models, When.CALLED), (models, When.NEVER)} <= found
    assert (models, When.LOADED) not in found
    assert member("compaction_app.admin.display") == "admin"
    assert member("toktok") == ""

"""The rooms of the package: each imports only rooms below it, and what is pure reaches for nothing outside."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

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
    "edges": {"admin", "api", "apps", "contrib", "management", "plain", "templatetags", "urls"},
}
LEVEL = {member: level for level, members in enumerate(ROOMS.values()) for member in members}

#: Shipped for users' tests: may use everything, is used by nothing.
BESIDE = {"testing"}
#: Written by Django, run once.
LEFT_OUT = {"migrations"}

#: What locks a session loads its model when it is called; what listens to Django's signals is loaded after the models.
LATE_IMPORTS = {
    ("compaction_app.models.database", "compaction_app.models"),
    ("compaction_app.apps", "compaction_app.conversation.erase"),
}

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
    genai_prices hashlib heapq html itertools json logging math operator re string textwrap toktok traceback types
    typing unicodedata
    """.split()
)
CLOCKS = {"now", "today", "utcnow"}


#: When the code of an import runs.
LOADED, CALLED, NEVER = "with the module", "in a function", "read by type checkers only"


class Import(NamedTuple):
    importer: str
    imported: str
    when: str
    #: For people.
    place: str


def member(module: str) -> str:
    """The folder or root file of this package that a module belongs to; "" if it is another's."""
    package, _, name = module.partition("compaction_app.")
    return "" if package else name.split(".")[0]


def sources() -> Iterator[Path]:
    for path in sorted(PACKAGE.rglob("*.py")):
        first = path.relative_to(PACKAGE).parts[0]
        if first not in LEFT_OUT and path != PACKAGE / "__init__.py":
            yield path


def imports_in(path: Path) -> Iterator[Import]:
    within = path.relative_to(PACKAGE)
    importer = ".".join(["compaction_app", *within.with_suffix("").parts])
    for node, when in with_times(ast.parse(path.read_text()), LOADED):
        for name in imported_names(node):
            yield Import(importer, name, when, f"{within}:{node.lineno}")  # type: ignore[attr-defined]  # imports have one


def with_times(node: ast.AST, when: str) -> Iterator[tuple[ast.AST, str]]:
    """Every node below with the time at which its code runs."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        when = CALLED
    elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        when = NEVER
    yield node, when
    for child in ast.iter_child_nodes(node):
        yield from with_times(child, when)


def imported_names(node: ast.AST) -> set[str]:
    """The modules that an import names; ``from a.b import c`` names ``a.b.c`` where that is a module."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    if not isinstance(node, ast.ImportFrom):
        return set()
    assert not node.level, "imports are absolute"
    named = (f"{node.module}.{alias.name}" for alias in node.names)
    return {name if source_of(name) else str(node.module) for name in named}


def source_of(name: str) -> Path | None:
    """The file of a module of this package."""
    path = PACKAGE.parent / name.replace(".", "/")
    files = (path.with_suffix(".py"), path / "__init__.py")
    return next((file for file in files if name.startswith("compaction_app") and file.is_file()), None)


def is_pure(path: Path) -> bool:
    within = path.relative_to(PACKAGE)
    return within.parts[0] in PURE or str(within) in PURE


@cache
def all_imports() -> list[Import]:
    return [found for path in sources() for found in imports_in(path)]


def own_imports() -> list[Import]:
    return [one for one in all_imports() if member(one.imported) and member(one.importer) not in BESIDE]


def names_in(path: Path) -> Iterator[str]:
    """The names of a file's classes, and those of its functions that others may call, where it is of the core."""
    of_core = not {"contrib", *BESIDE} & {*path.relative_to(PACKAGE).parts}
    for node in ast.parse(path.read_text()).body:
        # Django finds a command by this name.
        if isinstance(node, ast.ClassDef) and node.name != "Command":
            yield node.name.removeprefix("_")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and of_core:
            # An operation of the API is the call of the same name, over HTTP.
            is_operation = any("operation(" in ast.unparse(one) for one in node.decorator_list)
            yield from [] if is_operation or node.name.startswith("_") else [node.name]


def test_no_two_classes_and_no_two_functions_of_the_core_share_a_name() -> None:
    """Who searches for one finds that one."""
    found = defaultdict(list)
    for path in sources():
        for name in names_in(path):
            found[name].append(str(path.relative_to(PACKAGE)))
    assert {name: files for name, files in found.items() if len(files) > 1} == {}


def test_every_file_belongs_to_a_room() -> None:
    """A new folder or root file gets its room before it is imported."""
    found = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in sources()}
    assert found - BESIDE == set(LEVEL)
    assert len(LEVEL) == sum(len(members) for members in ROOMS.values())


def test_rooms_import_only_rooms_below_them() -> None:
    climbing = [
        f"{found.place}: {found.imported}"
        for found in own_imports()
        if LEVEL.get(member(found.imported), len(ROOMS)) > LEVEL[member(found.importer)]
    ]
    assert climbing == []


def test_files_do_not_import_each_other_in_a_circle() -> None:
    """In whatever order they are loaded, each finds what it needs. Types may know each other: nothing is loaded."""
    graph: dict[str, set[str]] = {}
    for found in own_imports():
        if found.when != NEVER and (found.importer, found.imported) not in LATE_IMPORTS:
            graph.setdefault(found.importer.removesuffix(".__init__"), set()).add(found.imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


def test_no_import_hides_inside_a_function() -> None:
    hidden = {(found.importer, found.imported): found.place for found in own_imports() if found.when == CALLED}
    assert set(hidden) == LATE_IMPORTS, hidden


def test_pure_files_reach_for_nothing_outside() -> None:
    """No ORM, clock, network, file or chance, and of this package only what is pure as well."""
    assert [name for name in PURE if not (PACKAGE / name).exists()] == []
    impure = []
    for found in all_imports():
        importer, imported = source_of(found.importer), source_of(found.imported)
        if found.when == NEVER or importer is None or not is_pure(importer):
            continue
        known = found.imported.split(".")[0] in PURE_IMPORTS
        if imported is not None:
            known = is_pure(imported) or str(imported.relative_to(PACKAGE)) in ALSO_KNOWN
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
    found = {(i.imported, i.when) for i in imports_in(PACKAGE / "models" / "database.py")}
    models = "compaction_app.models"
    assert {("compaction_app.models.sql", LOADED), ("django.db", LOADED)} <= found
    assert {(models, CALLED), (models, NEVER)} <= found
    assert (models, LOADED) not in found
    assert member("compaction_app.admin.display") == "admin"
    assert member("toktok") == ""

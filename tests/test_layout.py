"""The floors of the package: imports point down only, and the pure floors reach for nothing outside."""

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

#: Floor → modules. A package stands for all of its modules.
FLOORS: dict[int, set[str]] = {
    # words
    0: {"exceptions", "openai_format", "setting_rules", "values", "conf"},
    # pure logic: no ORM, clock or network
    1: {
        "amounts",
        "answers",
        "arguments",
        "branch_map",
        "budget",
        "cautions",
        "choosing",
        "clauses",
        "companions",
        "drafts",
        "extractive",
        "fact_spans",
        "facts",
        "import_formats",
        "ladder",
        "ledger",
        "ledger_entries",
        "ledger_excerpts",
        "ledger_text",
        "lifting",
        "leaks",
        "log_lines",
        "map_lines",
        "map_marks",
        "map_parts",
        "map_rows",
        "map_scale",
        "map_summaries",
        "meaning",
        "needs",
        "outdated",
        "outlines",
        "plain",
        "plain_messages",
        "planning",
        "prices",
        "prompts",
        "pruning",
        "reasoning",
        "reasoning_room",
        "redaction",
        "relative_dates",
        "retention",
        "quoting",
        "sayings",
        "secret_patterns",
        "selection",
        "sentences",
        "sql",
        "standing",
        "summary_text",
        "superseding",
        "taken_back",
        "time_bases",
        "tokens",
        "tool_markers",
        "tool_outcomes",
        "transcript",
        "truncate",
        "usage_reports",
        "validation",
    },
    # storage and network
    2: {
        "allowances",
        "branches",
        "connections",
        "databases",
        "fields",
        "lanes",
        "managers",
        "models",
        "openai_client",
        "placing",
        "provider_errors",
        "references",
        "runs",
        "signals",
        "signs",
        "spending",
        "summarizer_limits",
        "summarizers",
        "telemetry",
    },
    # work
    3: {
        "appending",
        "bundle_folders",
        "bundles",
        "committing",
        "compaction",
        "contexts",
        "erasure",
        "guard",
        "opening",
        "policies",
        "preparing",
        "rebuilding",
        "replies",
        "reply_chunks",
        "sendings",
        "verifying",
    },
    4: {"tasks"},
    5: {"bundle_export", "bundle_replay", "chat", "importing", "streams", "triggering", "turns"},
    # edges
    6: {"admin", "api", "apps", "checks", "management", "templatetags", "urls"},
}
FLOOR_OF = {module: floor for floor, modules in FLOORS.items() for module in modules}

#: Shipped for users' tests: may use everything, is used by nothing.
BESIDE = {"testing"}
#: Written by Django, run once.
LEFT_OUT = {"migrations"}

#: The one pair that knows each other: a manager is part of its model, and loads it when it is called.
LATE_IMPORTS = {("managers", "models")}

#: All that pure logic is made of. What is not here may read a clock, a file, a socket, chance or a database.
PURE_IMPORTS = {
    "__future__",
    "bisect",
    "collections",
    "copy",
    "dataclasses",
    "datetime",
    "decimal",
    "difflib",
    "enum",
    "functools",
    "hashlib",
    "heapq",
    "html",
    "itertools",
    "json",
    "logging",
    "math",
    "operator",
    "re",
    "string",
    "textwrap",
    "toktok",
    "traceback",
    "typing",
    "unicodedata",
}
#: Settings are words, and Django's is where a host writes them.
ALSO_IMPORTED = {
    "conf": {"django.conf", "django.utils.module_loading"},
    # To tell an async function, whose answer nobody would await.
    "setting_rules": {"django.utils.module_loading", "inspect"},
}
CLOCKS = {"now", "today", "utcnow"}


class When(Enum):
    """When an import is carried out."""

    LOADED = "with the module"
    CALLED = "in a function"
    NEVER = "read by type checkers only"


@dataclass(frozen=True)
class Import:
    """One import: by which module, of which, when and where."""

    importer: str
    imported: str
    when: When
    place: str

    @property
    def top(self) -> str:
        """The module of this package that is imported, without its submodules; "" if it is another's."""
        parts = self.imported.split(".")
        return parts[1] if parts[0] == "compaction_app" and len(parts) > 1 else ""


def sources() -> Iterator[tuple[str, Path]]:
    """Every file of the package with the module of this package's top level that it belongs to."""
    for path in sorted(PACKAGE.rglob("*.py")):
        first = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if first not in LEFT_OUT | {"__init__"}:
            yield first, path


def imports_in(module: str, path: Path) -> Iterator[Import]:
    tree = ast.parse(path.read_text())
    for node, when in with_times(tree, When.LOADED):
        for name in imported_names(node):
            place = f"{path.relative_to(PACKAGE)}:{node.lineno}"  # type: ignore[attr-defined]  # imports have one
            yield Import(module, name, when, place)


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
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    assert not node.level, "imports are absolute"
    # ``from compaction_app import sql`` names a module by its alias.
    from_package = node.module == "compaction_app"
    return [f"{node.module}.{alias.name}" for alias in node.names] if from_package else [str(node.module)]


IMPORTS = [found for module, path in sources() for found in imports_in(module, path)]
OWN_IMPORTS = [found for found in IMPORTS if found.top and found.importer not in BESIDE]


def test_every_module_has_a_floor() -> None:
    """A new module belongs somewhere: its floor is written down before it is imported."""
    assert {module for module, _ in sources()} - BESIDE <= set(FLOOR_OF)
    assert len(FLOOR_OF) == sum(len(modules) for modules in FLOORS.values())


def test_imports_point_down() -> None:
    """No module knows one of a floor above its own, inside a function or out of it."""
    upwards = [
        f"{found.place}: {found.importer} → {found.top}"
        for found in OWN_IMPORTS
        if found.top not in BESIDE and FLOOR_OF.get(found.top, 0) > FLOOR_OF.get(found.importer, 9)
    ]
    assert upwards == []


def test_modules_of_one_floor_do_not_import_each_other_in_a_circle() -> None:
    """In whatever order they are loaded, each finds what it needs. Types may know each other: nothing is loaded."""
    graph: dict[str, set[str]] = {}
    for found in OWN_IMPORTS:
        late = found.when is When.NEVER or (found.importer, found.top) in LATE_IMPORTS
        if found.importer != found.top and not late:
            graph.setdefault(found.importer, set()).add(found.top)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


def test_no_import_hides_inside_a_function() -> None:
    """Tasks and services that import each other when called are a circle that starts up; one pair is let."""
    hidden = [
        f"{found.place}: {found.importer} → {found.top}"
        for found in OWN_IMPORTS
        if found.when is When.CALLED and (found.importer, found.top) not in LATE_IMPORTS
    ]
    assert hidden == []
    pair = [found.when for found in OWN_IMPORTS if (found.importer, found.top) in LATE_IMPORTS]
    assert pair
    assert When.LOADED not in pair


def test_the_app_does_not_need_what_is_shipped_for_tests() -> None:
    assert [found.place for found in OWN_IMPORTS if found.top in BESIDE] == []


def test_the_pure_floors_reach_for_nothing_outside() -> None:
    """No ORM, clock, network, file or chance below floor 2: the same input gives the same answer."""
    impure = [
        f"{found.place}: {found.imported}"
        for found in IMPORTS
        if FLOOR_OF.get(found.importer, 9) <= 1
        and not found.top
        and found.imported.split(".")[0] not in PURE_IMPORTS
        and found.imported not in ALSO_IMPORTED.get(found.importer, set())
    ]
    assert impure == []


def test_the_pure_floors_never_ask_what_time_it_is() -> None:
    """``datetime`` is a type there: values come with their times."""
    asked = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}: {node.attr}"
        for module, path in sources()
        if FLOOR_OF.get(module, 9) <= 1
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in CLOCKS
    ]
    assert asked == []


def test_recursive_statements_are_in_one_module() -> None:
    """Whoever changes the tree's columns finds every walk through it in one place."""
    found = {
        module for module, path in sources() if re.search(r"\bRECURSIVE\b|\bsql\.(PATH|SUBTREE)\b", path.read_text())
    }
    assert found == {"sql"}


def test_the_net_catches_what_it_is_for() -> None:
    """The parser sees plain, aliased, late and type-only imports; else the laws above prove nothing."""
    path = PACKAGE / "managers.py"
    found = {(i.imported, i.when) for i in imports_in("managers", path)}
    models = "compaction_app.models"
    assert {("compaction_app.sql", When.LOADED), ("django.db", When.LOADED)} <= found
    assert {(models, When.CALLED), (models, When.NEVER)} <= found
    assert (models, When.LOADED) not in found
    assert Import("admin", "compaction_app.admin.display", When.LOADED, "").top == "admin"
    assert Import("tokens", "toktok", When.LOADED, "").top == ""

"""docs/architecture.md and its picture: the files that they name exist, and the rooms are those of the layout test."""

import re

import pytest

from tests.conftest import REPOSITORY
from tests.test_layout import PACKAGE, ROOMS

pytestmark = pytest.mark.pure

DOCS = REPOSITORY / "docs"


def test_the_files_that_it_names_exist():
    named = set(re.findall(r"`([a-z_/]+\.py)`", (DOCS / "architecture.md").read_text()))
    assert [name for name in named if not any((at / name).exists() for at in (PACKAGE, REPOSITORY))] == []
    assert len(named) > 15


def test_the_functions_and_classes_that_it_names_exist():
    table = re.findall(r"^\| .* \| `[a-z_/]+\.py` \| (.*) \|$", (DOCS / "architecture.md").read_text(), re.MULTILINE)
    named = {name for cell in table for name in re.findall(r"`(\w+)`", cell)}
    defined = {name for path in PACKAGE.rglob("*.py") for name in re.findall(r"(?:def|class) (\w+)", path.read_text())}
    assert named - defined == set()
    assert len(named) > 25


def test_the_picture_shows_the_rooms_from_the_edges_to_the_ground():
    picture = (DOCS / "rooms.svg").read_text()
    shown = re.findall(r'font-weight="600"[^>]*>([a-z]+)', picture)
    assert shown == list(reversed(ROOMS))
    files = [name for line in re.findall(r'font-size="13"[^>]*>([^<]*)<', picture) for name in line.split(" · ")]
    modules = {path.stem for path in PACKAGE.rglob("*.py")} | {f"{path.name}/" for path in PACKAGE.iterdir()} | {"…"}
    assert [name for name in files if name not in modules] == []

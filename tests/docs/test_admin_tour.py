"""docs/admin.md: its pictures are there and small, its classes are this app's."""

import re

import pytest

from compaction_app import admin, models
from tests.conftest import REPOSITORY

pytestmark = pytest.mark.pure

DOCS = REPOSITORY / "docs"
TEXT = (DOCS / "admin.md").read_text()
#: Bytes of a picture.
MOST_BYTES = 150_000


def test_every_picture_is_there_and_small():
    pictures = re.findall(r"[(\"]([\w-]+\.png)[)\"]", TEXT)
    assert sorted(pictures) == sorted(path.name for path in DOCS.glob("admin-*.png"))
    assert {name for name in pictures if (DOCS / name).stat().st_size > MOST_BYTES} == set()


def test_the_classes_to_register_again_are_all_of_this_app():
    *_, snippet = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    pairs = re.findall(r"@admin\.register\(models\.(\w+)\)\nclass \w+\((\w+), ModelAdmin\)", snippet)
    assert sorted(name for _, name in pairs) == sorted(admin.__all__)
    assert all(f"{model}Admin" == name and hasattr(models, model) for model, name in pairs)
    compile(snippet, "docs/admin.md", "exec")

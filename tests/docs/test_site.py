"""The documentation site's pages: each is in the navigation, and the reference has every public name.

``make docs`` builds it, strictly, in ``make test-all``.
"""

import re

import pytest

from compaction_app import chat, exceptions, plain, signals
from tests.conftest import REPOSITORY

pytestmark = pytest.mark.pure

DOCS = REPOSITORY / "docs"
DOCUMENTED = re.findall(r"^\.\. auto\w+:: ([\w.]+)", (DOCS / "reference.md").read_text(), re.MULTILINE)


def of(module: str) -> set[str]:
    return {name.rpartition(".")[2] for name in DOCUMENTED if name.rpartition(".")[0] == module}


def test_the_reference_has_every_public_name_of_chat() -> None:
    """An async twin is documented with the function that it is the twin of."""
    documented = of("compaction_app.chat")
    public = set(chat.__all__)
    assert documented <= public
    twins = {f"a{name}" for name in documented}
    assert public - documented - twins == set()
    assert len(public & twins) > 10


def test_the_reference_has_every_error() -> None:
    errors = {
        name
        for name, found in vars(exceptions).items()
        if isinstance(found, type) and found.__module__ == exceptions.__name__
    }
    lines = re.findall(r"^\.\. autoexception:: (\w+)", (DOCS / "reference.md").read_text(), re.MULTILINE)
    assert set(lines) == errors


def test_the_reference_has_every_public_name_of_plain() -> None:
    assert of("compaction_app.plain") == set(plain.__all__)


def test_every_signal_is_described_where_the_reference_takes_it_from() -> None:
    assert "compaction_app.signals" in DOCUMENTED
    named = {name for name, found in vars(signals).items() if isinstance(found, signals.Signal)}
    assert named == set(re.findall(r"^``(\w+)`` \(", signals.__doc__ or "", re.MULTILINE))


def test_every_page_is_in_the_navigation_once() -> None:
    listed = [
        line.partition("<")[2].rstrip(">")
        for tree in re.findall(r"```\{toctree\}\n(.*?)```", (DOCS / "index.md").read_text(), re.DOTALL)
        for line in tree.split("\n")
        if line and not line.startswith(":")
    ]
    pages = {str(path.relative_to(DOCS).with_suffix("")) for path in DOCS.rglob("*.md")} - {"index"}
    assert sorted(listed) == sorted(pages)
    assert listed[-1] == "origins"

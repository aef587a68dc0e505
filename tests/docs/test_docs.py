"""What pages name is there: settings, commands, options, codes, files, classes; the snippet runs."""

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest
from django.core.management import get_commands, load_command_class

from compaction_app import chat
from compaction_app.conf import Mode, settings_from
from compaction_app.transfer import bundles
from compaction_app.transfer.rebuild import NotRebuilt
from compaction_app.values import ErrorCode, SkipReason, Suppression
from tests.conftest import REPOSITORY
from tests.test_layout import PACKAGE
from tests.transfer.bundling import talk

DOCS = REPOSITORY / "docs"
DOCUMENTS = [DOCS / name for name in ("why-not-compacted.md", "tuning.md", "commands.md")]
COMMAND = re.compile(r"python manage\.py (\w+)([^`\n|]*)")


def options_of(command: str) -> set[str]:
    parser = load_command_class(get_commands()[command], command).create_parser("manage.py", command)
    return {option for action in parser._actions for option in action.option_strings}


@pytest.mark.pure
@pytest.mark.parametrize("page", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_and_option_is_one(page: Path) -> None:
    text = page.read_text()
    named = COMMAND.findall(text)
    assert named
    for command, rest in named:
        if command != "shell":
            assert set(re.findall(r"--[\w-]+", rest)) <= options_of(command), command
    alone = set(re.findall(r"`(--[\w-]+)`", text))
    assert bool(alone) == (page.name == "commands.md")
    assert alone <= options_of("export_compactions") | options_of("replay_compactions")


@pytest.mark.pure
def test_every_code_that_keeps_a_compaction_back_or_fails_a_run_is_explained() -> None:
    text = "".join(page.read_text() for page in DOCUMENTS[:2])
    for code in (*Suppression, SkipReason.BASE_CHANGED, SkipReason.BRANCH_GONE, Mode.OFF, Mode.DETERMINISTIC):
        assert re.search(rf"`\"?{code}\"?`", text), code
    _, _, table = text.partition("\n| code | why, and what to do |")
    rows = re.findall(r"^\| (`.*?) \|", table.partition("\n\n")[0], re.MULTILINE)
    assert set(re.findall(r"`([a-z_]+)`", " ".join(rows))) == set(map(str, ErrorCode))


@pytest.mark.pure
def test_every_file_of_a_bundle_and_every_reason_is_explained() -> None:
    text = (DOCS / "commands.md").read_text()
    for word in (*bundles.FILES, *NotRebuilt):
        assert f"`{word}`" in text, word


@pytest.mark.pure
@pytest.mark.parametrize("path", [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))], ids=str)
def test_every_link_of_every_page_leads_somewhere(path):
    for target in re.findall(r"\]\(([^)\s]+)[^)]*\)", path.read_text()):
        if target.startswith("http"):
            continue
        name, _, heading = target.partition("#")
        page = path.parent / name if name else path
        assert page.is_file(), target
        if heading:
            lines = page.read_text().splitlines()
            assert heading in {re.sub(r"[^\w -]", "", line).strip().lower().replace(" ", "-") for line in lines}, target


#: Of the reader's project, of a bundle, and where a release puts its version.
_ELSEWHERE = re.compile(r"mysite/|bundles/|.*X\.Y\.Z|~|/")
_FILE = re.compile(r"(?<![\w/.<-])(?:[\w.-]+/)+[\w-]+\.(?:py|toml|json|md|svg|html|css|txt|lock|js|png|po)\b(?!/)")


@pytest.mark.pure
@pytest.mark.parametrize("path", [*REPOSITORY.glob("*.md"), *sorted((REPOSITORY / "docs").rglob("*.md"))], ids=str)
def test_every_file_that_a_page_names_exists(path: Path) -> None:
    """A name may begin at the repository's root, the package, or the page's own folder."""
    roots = (REPOSITORY, REPOSITORY / "compaction_app", REPOSITORY / "project", path.parent)
    quoted = [name for span in re.findall(r"`([^`\n]+)`", path.read_text()) for name in _FILE.findall(span)]
    names = [name for name in quoted if not _ELSEWHERE.match(name)]
    assert [name for name in names if not any((root / name).exists() for root in roots)] == []


@pytest.mark.pure
def test_the_settings_for_a_local_server_are_settings_of_this_app_and_each_server_has_their_window() -> None:
    _, _, servers = (REPOSITORY / "docs" / "local-models.md").read_text().partition("## Servers")
    [block] = re.findall(r"```python\n(.*?)```", servers, re.DOTALL)
    blocks = re.findall(r"\n`([\w/.-]+)` at `(http://[\d.]+:\d+/v1)`.*?```console\n(.*?)```", servers, re.DOTALL)
    assert servers.count("### ") == len(blocks) == 4
    for model, address, started in blocks:
        named: dict[str, Any] = {}
        exec(block.replace("qwen3-8b", model).replace("http://127.0.0.1:8080/v1", address), named)  # our own document
        found = settings_from(named["COMPACTION"], where="local-models.md")
        [entry] = found.summarizer_entry.models
        window = found.stated("window")[model]
        assert (entry.model, entry.base_url) == (model, address)
        assert model in started
        assert str(window) in started
        assert found.summarizer_entry.max_output_tokens < window // 4


@pytest.mark.django_db
def test_the_snippet_runs() -> None:
    talk(chat.start_session(), None, 2)
    [snippet] = re.findall(r"```python\n(.*?)```", DOCUMENTS[0].read_text(), re.DOTALL)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(snippet, {})  # our own document, so that it goes on working
    assert "with 0 tool results shortened" in out.getvalue()
    assert "none False" in out.getvalue()


ARCHITECTURE = (DOCS / "architecture.md").read_text()


@pytest.mark.pure
def test_the_functions_and_classes_of_the_architecture_exist():
    table = re.findall(r"^\| .* \| `[a-z_/]+\.py` \| (.*) \|$", ARCHITECTURE, re.MULTILINE)
    named = {name for cell in table for name in re.findall(r"`(\w+)`", cell)}
    defined = {name for path in PACKAGE.rglob("*.py") for name in re.findall(r"(?:def|class) (\w+)", path.read_text())}
    assert named - defined == set()
    assert len(named) > 25

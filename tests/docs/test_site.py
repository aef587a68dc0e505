"""The documentation site: its reference has all of the public API, its pages are in its contents, its examples run."""

import re
from types import SimpleNamespace

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone

from compaction_app import chat, models
from compaction_app.management import checks
from tests.conftest import REPOSITORY
from tests.docs.test_guide import examples

DOCS = REPOSITORY / "docs"
REFERENCE = (DOCS / "reference.md").read_text()


@pytest.mark.pure
def test_the_reference_has_every_public_function():
    listed = set(re.findall(r"compaction_app\.chat\.(\w+)", REFERENCE))
    public = set(chat.__all__)
    twins = {f"a{name}" for name in public} & public
    assert public - twins - {"MAX_INSTRUCTIONS"} == listed
    assert twins == {f"a{name}" for name in listed - {"ReplyStream", "AsyncReplyStream", "warm_up"}}


@pytest.mark.pure
@pytest.mark.parametrize("name", ["ChatSession", "ChatMessage", "CompactionRun", "CompactionEvent"])
def test_the_fields_in_the_reference_are_there(name):
    (row,) = re.findall(rf"^\| `{name}` \| (.*) \|$", REFERENCE, re.MULTILINE)
    named = set(re.findall(r"`(\w+)`", row)) - {"message", "summary"}
    fields = {field.name for field in getattr(models, name)._meta.get_fields()}
    assert named - fields == set()
    assert len(named) > 5


@pytest.mark.pure
def test_every_page_is_in_the_contents():
    index = (DOCS / "index.md").read_text()
    listed = {line for tree in re.findall(r"```{toctree}\n(.*?)```", index, re.DOTALL) for line in tree.split()}
    pages = {str(path.relative_to(DOCS).with_suffix("")) for path in DOCS.rglob("*.md")}
    assert pages - listed == {"index"}


@pytest.mark.pure
def test_the_checks_that_it_names_are_there():
    named = {ident for path in DOCS.glob("*.md") for ident in re.findall(r"`([EW]\d{3})`", path.read_text())}
    assert {ident for ident in named if f"- {ident} " not in str(checks.__doc__)} == set()
    assert named


@pytest.mark.django_db(transaction=True)
def test_the_conversation_of_the_quickstart_is_summarized(settings, capsys):
    pages = examples(DOCS / "quickstart.md")
    known = {"INSTALLED_APPS": [], "DATABASES": {"default": {}}}
    exec(next(text for text in pages if "CONTEXT_WINDOW" in text), known)
    settings.COMPACTION = known["COMPACTION"]
    exec(next(text for text in pages if "start_session" in text), {})
    is_over, ran, *summary = capsys.readouterr().out.splitlines()
    assert is_over == "True"
    assert re.fullmatch(r"succeeded \d+ -> \d+", ran)
    assert summary[0] == "[Conversation Summary]"


@pytest.mark.django_db(transaction=True)
def test_existing_chats_are_adopted_and_nothing_is_stored_twice():
    (example,) = examples(DOCS / "adopting.md")
    known = {}
    exec(example, known)
    known["BATCH"] = 4
    rows = [
        SimpleNamespace(id=n, role=("user", "assistant")[n % 2], text=f"message {n}", sent_at=timezone.now())
        for n in range(10)
    ]
    old = SimpleNamespace(
        id=7, user=get_user_model().objects.create_user("marit"), title="Old", model="m", rows=rows[:6]
    )
    known["copy_conversation"](old)
    old.rows = rows
    tip = known["copy_conversation"](old)
    assert [message.external_id for message in chat.get_branch(tip)] == [f"m-{n}" for n in range(10)]
    assert known["copy_conversation"](old) == tip
    assert tip.created_at == rows[-1].sent_at

"""What a test that committed leaves behind for the next one: nothing but what the migrations made."""

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command
from django.test import TransactionTestCase

from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from tests import emptying
from tests.admin.records import run_for
from tests.trees import chain, start_session, summarize

pytestmark = pytest.mark.django_db(transaction=True)


def fill() -> None:
    owner = get_user_model().objects.create_user("ann")
    owner.user_permissions.set(Permission.objects.all()[:3])
    nodes = chain(start_session(owner=owner), 8)
    run_for(summarize(nodes[4], nodes[3]), nodes[4], 1)


def left() -> dict[str, int]:
    return {name: count for name, count in emptying._count_rows("default").items() if count}


def test_every_row_is_gone_and_what_the_migrations_made_is_there():
    made = ContentType.objects.count(), Permission.objects.count()
    fill()
    assert {"compaction_app_chatmessage", "compaction_app_compactionrun", "auth_user_user_permissions"} <= set(left())
    emptying.empty_databases(TransactionTestCase)
    assert left() == {}
    assert (ContentType.objects.count(), Permission.objects.count()) == made
    fill()


@pytest.mark.parametrize("most", [7, 8], ids=["more than many rows", "many rows"])
def test_many_rows_are_left_to_django(monkeypatch, most):
    """Both ways leave the same."""
    flushed = []
    monkeypatch.setattr(emptying, "MANY_ROWS", most)
    monkeypatch.setattr(emptying, "_flush", lambda case: (flushed.append(case), flush()))
    fill()
    assert ChatMessage.objects.count() > most
    emptying.empty_databases(TransactionTestCase)
    assert flushed
    assert left() == {}


def flush() -> None:
    call_command("flush", verbosity=0, interactive=False, reset_sequences=False)


def test_every_table_of_the_app_is_emptied():
    tables = set(emptying._count_rows("default"))
    assert {model._meta.db_table for model in (ChatSession, ChatMessage, CompactionRun)} <= tables
    assert not tables & emptying.KEPT

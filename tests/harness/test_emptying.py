"""What a test that committed leaves behind for the next one: nothing but what the migrations made."""

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.test import TransactionTestCase

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

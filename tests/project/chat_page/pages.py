"""The chat page as its tests ask for it: pages by name, what is sent to them, what they ask the database for."""

import contextlib

from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from compaction_app import chat
from compaction_app.models import ChatMessage
from compaction_app.values import Role

#: Small enough that a handful of messages fills it.
WINDOW = {"CONTEXT_WINDOW": 2000, "RESERVED_TOKENS": 200}


def grow(session, messages, parent=None, content="Word " * 20):
    """Turns of a user and an assistant, ``messages`` messages in all; the last one."""
    roles = [Role.USER, Role.ASSISTANT]
    chain = [{"role": roles[n % 2], "content": f"{content}{n}"} for n in range(messages)]
    return chat.append_messages(session, parent, chain)[-1]


def url(name, session, *message):
    return reverse(f"chat:{name}", args=[session.pk, *(m.pk for m in message)])


def send(browser, session, content, parent=None, name="post"):
    data = {"content": content, "parent": parent.pk if parent else ""}
    return browser.post(url(name, session), data)


def text_of(response):
    return response.content.decode()


def stored(session):
    return ChatMessage.objects.messages().filter(session=session).count()


def newest(session):
    return ChatMessage.objects.messages().filter(session=session).latest("id")


@contextlib.contextmanager
def counted_queries():
    with CaptureQueriesContext(connection) as captured:
        yield captured

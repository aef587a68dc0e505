"""A host's own chat view, in a NinjaAPI of its own that answers errors as this one does."""

import json
import uuid
from datetime import timedelta

import pytest
from django.urls import path
from django.utils import timezone
from ninja import NinjaAPI, Schema
from ninja.errors import HttpError

from compaction_app import chat
from compaction_app.api.errors import add_error_handlers
from compaction_app.exceptions import CompactionError
from compaction_app.models import ChatMessage, ReplyClaim
from tests.api.asking import Asker, problem

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.urls(__name__)]

WORDS = "se" + "cret"
api = NinjaAPI(urls_namespace="own")
add_error_handlers(api)


@api.post("/chat/{message_id}")
def answer(request, message_id: int):
    return {"reply": chat.complete(ChatMessage.objects.get(pk=message_id), model="m").content}


@api.get("/paid")
def paid(request):
    error = CompactionError() if request.GET else None
    raise HttpError(402, "Your plan has no chat.") from error


class Said(Schema):
    n: int


@api.post("/said")
def said(request, body: Said):
    return {"n": body.n}


@api.get("/odd")
def odd(request):
    raise CompactionError(WORDS)


urlpatterns = [path("api/v1/", api.urls)]


def test_a_reply_that_is_under_way_is_a_conflict():
    """A double click: the first request still has a model answer."""
    tip = chat.append_message(chat.start_session(), role="user", content="When is the tide in?")
    soon = timezone.now() + timedelta(seconds=30)
    ReplyClaim.objects.create(message=tip, token=uuid.uuid4(), lease_expires_at=soon)
    detail = problem(Asker().post(f"chat/{tip.pk}"), 409, "reply_under_way")
    assert "under way" in detail


def test_an_error_of_the_hosts_keeps_its_status_and_words():
    for asked in ("paid", "paid?from=1"):
        assert problem(Asker().get(asked), 402, "payment_required") == "Your plan has no chat."


def test_a_body_that_is_no_json_is_malformed():
    problem(Asker().post("said", raw=b"{"), 400, "malformed")
    assert problem(Asker().post("said", {"n": "x"}), 422, "invalid").startswith("body.n: ")


def test_what_has_no_code_is_an_error_of_the_servers(caplog):
    response = Asker(raise_request_exception=False).get("odd")
    problem(response, 500, "internal")
    assert WORDS not in json.dumps(response.json()) + caplog.text

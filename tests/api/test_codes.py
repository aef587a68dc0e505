"""An error is answered alike at every door: the JSON API, the stream for pages, the gateway for OpenAI's clients."""

import httpx2 as httpx
import openai
import pytest
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.db import OperationalError
from django.http import Http404
from django.test import Client
from django.urls import include, path
from ninja import NinjaAPI

from compaction_app import exceptions
from compaction_app.api.errors import add_error_handlers
from compaction_app.contrib.gateway.views import Gateway
from compaction_app.contrib.stream.replies import problem_for_people
from compaction_app.conversation.chat_model import ProviderOverflow

pytestmark = pytest.mark.urls(__name__)

WORDS = "se" + "cret"
SENT = httpx.Request("POST", "https://models.example/v1/chat/completions")
#: The error, the status, the API's code, seconds to wait, and where it is not the API's the status of the gateway.
ANSWERS = {
    "internal": (RuntimeError(WORDS), 500, "internal", None, 500),
    "of no code": (exceptions.ImmutableTree(WORDS), 500, "internal", None, 500),
    "configuration": (exceptions.ConfigurationError(), 422, "configuration", None, 400),
    "message": (exceptions.InvalidMessage(field="role"), 422, "invalid_message", None, 400),
    "parent": (exceptions.InvalidParent(), 422, "invalid_parent", None, 400),
    "duplicate": (exceptions.DuplicateExternalId(), 409, "duplicate", None, 400),
    "gone": (exceptions.MessageNotFound(), 404, "not_found", None, 409),
    "unknown": (Http404(WORDS), 404, "not_found", None, 404),
    "forbidden": (PermissionDenied(WORDS), 403, "forbidden", None, 403),
    "suspicious": (SuspiciousOperation(WORDS), 400, "malformed", None, 400),
    "overflow": (exceptions.ContextOverflow(needed=9, available=8), 422, "context_overflow", None, 400),
    "provider's overflow": (ProviderOverflow(), 422, "context_overflow", None, 400),
    "pins": (exceptions.PinsTooLarge(), 422, "pins_too_large", None, 400),
    "under way": (exceptions.ReplyUnderWay(), 409, "reply_under_way", None, 409),
    "too many": (exceptions.TooManyReplies(retry_after=7), 429, "too_many_replies", "7", 429),
    "no reply": (exceptions.InvalidReply(), 502, "model", None, 502),
    "empty": (exceptions.EmptyReply(), 502, "model", None, 502),
    "broke off": (exceptions.StreamInterrupted(), 502, "model", None, 502),
    "not stored": (exceptions.ReplyNotStored(), 503, "unavailable", "1", 503),
    "redactor": (exceptions.RedactionFailed(), 503, "redaction_failed", None, 503),
    "database": (OperationalError(WORDS), 503, "unavailable", "1", 503),
    "provider": (openai.APIConnectionError(message=WORDS, request=SENT), 502, "model", None, 502),
    "no key": (openai.OpenAIError(WORDS), 502, "model", None, 502),
    "refused": (exceptions.CompactionRefused(reason="mode_off"), 422, "mode_off", None, 400),
    "open run": (exceptions.CompactionRefused(reason="open_run", run_id=7), 409, "open_run", None, 409),
    "no summary": (exceptions.CompactionFailed(run_id=7), 502, "compaction_failed", None, 502),
}
api = NinjaAPI(urls_namespace="doors")
add_error_handlers(api)


@api.post("/{name}")
def fail(request, name: str):
    raise ANSWERS[name][0]


class Failing(Gateway):
    is_async = False

    def authenticate(self, request):
        raise ANSWERS[request.headers["X-Name"]][0]


urlpatterns = [path("api/", api.urls), path("v1/", include(Failing().urls))]


@pytest.mark.parametrize("name", ANSWERS)
def test_every_door_answers_alike(name, caplog):
    error, status, code, wait, of_gateway = ANSWERS[name]
    client = Client(raise_request_exception=False)
    here = client.post(f"/api/{name}")
    there = client.post("/v1/chat/completions", headers={"X-Name": name})
    by_page = problem_for_people(error)
    assert (here.status_code, here.json()["code"], here.get("Retry-After")) == (status, code, wait)
    assert (by_page.code.status, by_page.code, by_page.headers.get("Retry-After")) == (status, code, wait)
    assert (there.status_code, there.get("Retry-After")) == (of_gateway, wait)
    assert there.json()["error"]["message"] == here.json()["detail"]
    assert WORDS not in here.content.decode() + there.content.decode() + caplog.text

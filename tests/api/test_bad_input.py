"""Bad input over HTTP: each kind a clear 4xx in the one shape of errors, and nothing of it is logged or stored."""

import pytest
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.db import OperationalError

from compaction_app.models import ChatMessage
from tests.api.asking import Asker, problem, user

pytestmark = pytest.mark.django_db

GOOD = {"role": "user", "content": "x"}
NUL = "a\x00b"


class TestBodies:
    def test_what_is_no_json_in_utf_8_or_no_object(self, ask, path):
        for raw in (b"{", b'{"role": "user", "content": "\xff"}', "{}".encode("utf-16")):
            problem(ask.post(path, raw=raw), 400, "malformed")
        for raw in (b"[]", b"null", b""):
            problem(ask.post(path, raw=raw), 422, "invalid")

    def test_a_field_of_the_wrong_type_or_unknown_is_named(self, ask, path):
        for wrong, named in (
            ({"role": "robot"}, "body.role"),
            ({"tool_calls": ["x"]}, "body.tool_calls.0"),
            ({"created_at": "2026-01-01"}, "body.created_at"),
        ):
            assert named in problem(ask.post(path, GOOD | wrong), 422, "invalid")
        assert not ChatMessage.objects.exists()

    def test_over_the_sites_limit_it_is_refused_before_it_is_read(self, ask, path, settings):
        settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
        for asker in (ask, Asker()):
            problem(asker.post(path, raw=b" " * 1001), 413, "too_large")
        problem(ask.post(path, raw=b" " * 1000), 400, "malformed")

    def test_a_text_that_no_database_stores_is_named_in_every_body(self, ask, world):
        for method, path, field in (
            ("POST", "sessions", "title"),
            ("PATCH", world.path, "system_prompt"),
            ("POST", f"{world.path}/compact", "instructions"),
            ("POST", f"messages/{world.tip.pk}/redact", "replacement"),
        ):
            detail = problem(ask(method, path, {field: NUL}), 422, "invalid_message")
            assert detail == f"{field} contains a NUL character at position 1."
        problem(ask.get(f"messages/{world.tip.pk}/context?model=%00"), 422, "invalid_message")


class TestPaths:
    def test_unknown_ones(self, ask):
        for path in ("", "nope", "sessions/", "sessions/7", "messages/x/context", "runs/" + "9" * 30):
            problem(ask.get(path), 404, "not_found")

    def test_a_summary_is_no_tip_and_no_parent(self, ask, world):
        pk = world.summary.pk
        for method, path, body in (
            ("POST", f"{world.path}/messages", {"parent_id": pk, **GOOD}),
            ("POST", f"{world.path}/compact", {"message_id": pk}),
            ("POST", f"{world.path}/compact", {"message_id": pk, "wait": False}),
            ("GET", f"messages/{pk}/branch", None),
            ("GET", f"messages/{pk}/context", None),
        ):
            problem(ask(method, path, body), 422, "invalid_parent")

    def test_other_methods(self, ask, session):
        response = ask("PUT", "sessions", {})
        problem(response, 405, "method_not_allowed")
        assert response["Allow"] == "GET, POST"

    def test_a_page_is_asked_for_with_digits_and_a_cursor_that_was_given(self, ask, world):
        for path in ("sessions", f"{world.path}/tree", f"{world.path}/compactions", f"messages/{world.tip.pk}/branch"):
            for wrong in ("limit=0", "limit=201", "cursor="):
                problem(ask.get(f"{path}?{wrong}"), 422, "invalid")

    def test_parameters_that_an_operation_does_not_have(self, ask, world):
        """A cursor misspelt would be the first page, again and again."""
        for path in ("sessions?curser=1", f"{world.path}?limit=1", f"messages/{world.tip.pk}/context?limit=1"):
            assert "no such parameter" in problem(ask.get(path), 422, "invalid")
        problem(ask.post("sessions?limit=1", {}), 422, "invalid")


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (OperationalError("database is locked: secret"), 503, "unavailable"),
        (PermissionDenied("secret"), 403, "forbidden"),
        (SuspiciousOperation("secret"), 400, "malformed"),
        (ValueError("secret"), 500, "internal"),
    ],
)
def test_the_words_of_a_fault_are_told_to_nobody(ann, monkeypatch, caplog, error, status, code):
    """What nobody expected is still one shape, and its words stay in the server, unread by its log."""

    def failing(*arguments):
        raise error

    monkeypatch.setattr("compaction_app.api.lookup.is_allowed", failing)
    response = Asker(ann, raise_request_exception=False).post("sessions", {})
    problem(response, status, code)
    assert b"secret" not in response.content
    assert "secret" not in caplog.text
    assert (f"type={type(error).__name__}" in caplog.text) == (status >= 500)
    assert ("Retry-After" in response) == (status == 503)
    if status == 500:
        # Error trackers and test clients listen to Django's signal.
        with pytest.raises(ValueError, match="secret"):
            Asker(ann).post("sessions", {})


MARKUP = '<script>alert("1")</script>'


def test_markup_comes_back_as_json_and_as_nothing_else(ask, path):
    for response in (ask.post(path, GOOD | {"content": MARKUP}), ask.post(path, {MARKUP: 1})):
        assert response["Content-Type"].startswith("application/json")
        assert response["X-Content-Type-Options"] == "nosniff"
        assert response["Cache-Control"] == "no-store"


def test_somebody_elses_ids_and_unknown_ones_are_told_apart_by_nobody(world):
    bob = Asker(user("bob"))
    for known, unknown in (
        (f"messages/{world.tip.pk}", f"messages/{10**9}"),
        (world.path, "sessions/00000000-0000-4000-8000-000000000000"),
        (f"runs/{world.run.pk}", f"runs/{10**9}"),
    ):
        assert bob.get(known).content == bob.get(unknown).content

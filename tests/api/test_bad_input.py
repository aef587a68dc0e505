"""Bad input over HTTP: each kind a clear 4xx in the one shape of errors, and nothing of it is logged or stored."""

import json

import pytest
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.db import OperationalError

from compaction_app.models import ChatMessage
from tests.api.asking import MOUNT, Asker, World, problem, user
from tests.small import small

pytestmark = pytest.mark.django_db

GOOD = {"role": "user", "content": "x"}


class TestBodies:
    def test_what_is_no_json_in_utf_8_or_no_object(self, ask, path):
        for raw in (b"{", b'{"role": "user", "content": "\xff"}', "{}".encode("utf-16")):
            problem(ask.post(path, raw=raw), 400, "malformed")
        for raw in (b"[]", b"null", b""):
            problem(ask.post(path, raw=raw), 422, "invalid")

    @pytest.mark.parametrize(
        ("wrong", "named"),
        [
            ({"role": "robot"}, "body.role"),
            ({"content": None}, "body.content"),
            ({"content": ["x"]}, "body.content"),
            ({"parent_id": "1"}, "body.parent_id"),
            ({"parent_id": True}, "body.parent_id"),
            ({"parent_id": 2**63}, "body.parent_id"),
            ({"tool_calls": ["x"]}, "body.tool_calls.0"),
            ({"metadata": []}, "body.metadata"),
            ({"external_id": "x" * 256}, "body.external_id"),
            ({"created_at": "2026-01-01"}, "body.created_at"),
            ({"kind": "summary"}, "body.kind"),
            ({"context": []}, "body.context"),
        ],
    )
    def test_a_field_of_the_wrong_type_or_unknown_is_named(self, ask, path, wrong, named):
        assert named in problem(ask.post(path, GOOD | wrong), 422, "invalid")
        assert not ChatMessage.objects.exists()

    @pytest.mark.parametrize("depth", [101, 100_000])
    def test_deep_nesting(self, ask, path, depth):
        raw = b'{"role": "user", "content": "x", "metadata": {"n": ' + b"[" * depth + b"]" * depth + b"}}"
        assert ask.post(path, raw=raw).json()["code"] in ("invalid", "invalid_message")
        assert (
            ask.post("sessions", raw=b'{"settings": {"MODE": ' + b"[" * depth + b"]" * depth + b"}}").status_code == 422
        )

    def test_nesting_that_both_databases_take_is_stored(self, ask, path):
        value = []
        for _ in range(90):
            value = [value]
        assert ask.post(path, GOOD | {"metadata": {"n": value}}).json()["message"]["metadata"] == {"n": value}

    def test_every_wrong_field_is_named_but_not_without_end(self, ask, path):
        detail = problem(ask.post(path, GOOD | {f"unknown{n}": n for n in range(50)}), 422, "invalid")
        assert "and 45 more" in detail
        detail = problem(ask.post(path, GOOD | {"x" * 100_000: 1}), 422, "invalid")
        assert len(detail) <= 1000


class TestSize:
    def test_a_body_over_the_limit_is_refused_before_it_is_read(self, ask, path, settings):
        settings.COMPACTION = small(MAX_MESSAGE_BYTES=1000)
        limit = 3 * 1000 + 64 * 1024
        for asker in (ask, Asker()):
            problem(asker.post(path, raw=b" " * (limit + 1)), 413, "too_large")
        problem(ask.post(path, raw=b" " * limit), 400, "malformed")

    def test_the_sites_own_limit_counts_too(self, ask, path, settings):
        settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
        assert "1,000" in problem(ask.post(path, raw=b" " * 1001), 413, "too_large")
        settings.DATA_UPLOAD_MAX_MEMORY_SIZE = None
        problem(ask.post(path, raw=b" " * 1001), 400, "malformed")

    def test_a_length_that_is_none_is_refused(self, ask, path, settings):
        settings.COMPACTION = small(MAX_MESSAGE_BYTES=1)
        response = ask.client.generic("POST", MOUNT + path, b" " * 100_000, CONTENT_LENGTH="many")
        problem(response, 400, "malformed")
        response = ask.client.generic("POST", MOUNT + path, b" ", CONTENT_LENGTH="9" * 20)
        problem(response, 413, "too_large")
        # Not told at all, as by a client that sends in chunks.
        response = ask.client.generic("POST", MOUNT + path, b" " * 100_000, CONTENT_LENGTH="")
        assert response.status_code in (413, 422)

    def test_the_largest_message_passes_however_it_is_escaped(self, ask, path, settings):
        settings.COMPACTION = small(MAX_MESSAGE_BYTES=100_000)
        body = GOOD | {"content": "я" * 50_000}
        assert len(json.dumps(body)) > 300_000
        assert ask.post(path, body).status_code == 201


class TestPaths:
    def test_unknown_ones(self, ask):
        for path in (
            *("", "nope", "sessions/", "sessions/7", "messages/x/context", "messages/-1/context", "%00", "%ff"),
            # The second has more digits than Python reads as a number.
            *("runs/1.5", "runs/" + "9" * 5000),
        ):
            problem(ask.get(path), 404, "not_found")

    def test_other_methods(self, ask, session):
        response = ask("PUT", "sessions", {})
        problem(response, 405, "method_not_allowed")
        assert response["Allow"] == "GET, POST"
        problem(ask("TRACE", f"sessions/{session.pk}/tree"), 405, "method_not_allowed")
        problem(ask("OPTIONS", "runs/1"), 405, "method_not_allowed")
        problem(ask.post("openapi.json", {}), 405, "method_not_allowed")
        problem(ask.post("docs", {}), 405, "method_not_allowed")

    @pytest.mark.parametrize(
        ("name", "values"),
        [
            ("limit", ["0", "201", "x", "99999999999999999999"]),
            ("cursor", ["", "%00", "99999999999999999999", "%D9%A1"]),
        ],
    )
    def test_pages(self, ask, world, name, values):
        for path in ("sessions", f"{world.path}/tree", f"{world.path}/compactions", f"messages/{world.tip.pk}/branch"):
            for value in values:
                problem(ask.get(f"{path}?{name}={value}"), 422, "invalid")

    def test_parameters_that_an_operation_does_not_have(self, ask, world):
        """A cursor misspelt would be the first page, again and again."""
        for path in ("sessions?curser=1", f"{world.path}?limit=1", f"messages/{world.tip.pk}/context?limit=1"):
            assert "no such parameter" in problem(ask.get(path), 422, "invalid")
        problem(ask.post("sessions?limit=1", {}), 422, "invalid")

    def test_a_cursor_out_of_every_calendar(self, ask):
        problem(ask.get(f"sessions?cursor={2**62}-{'0' * 32}"), 422, "invalid")

    def test_a_cursor_past_the_end_is_an_empty_page(self, ask, world):
        assert ask.get(f"{world.path}/tree?cursor={2**63 - 1}").json() == {"items": [], "next_cursor": None}
        assert ask.get(f"{world.path}/compactions?cursor=0").json() == {"items": [], "next_cursor": None}

    def test_a_models_name_that_is_none(self, ask, ann):
        tip = World(ann).tip
        problem(ask.get(f"messages/{tip.pk}/context?model=%00"), 422, "invalid_message")
        problem(ask.get(f"messages/{tip.pk}/context?model={'x' * 256}"), 422, "invalid")


class TestFaults:
    """What nobody expected is still one shape, and its words stay in the server, unread by its log."""

    @pytest.mark.parametrize(
        ("error", "status", "code"),
        [
            (OperationalError("database is locked: secret"), 503, "unavailable"),
            (PermissionDenied("secret"), 403, "forbidden"),
            (SuspiciousOperation("secret"), 400, "malformed"),
            (ValueError("secret"), 500, "internal"),
        ],
    )
    def test_its_words_are_told_to_nobody(self, ann, monkeypatch, caplog, error, status, code):
        def failing(*arguments):
            raise error

        monkeypatch.setattr("compaction_app.api.lookup.is_allowed", failing)
        ask = Asker(ann, raise_request_exception=False)
        response = ask.post("sessions", {})
        problem(response, status, code)
        assert b"secret" not in response.content
        assert "secret" not in caplog.text
        assert (f"type={type(error).__name__}" in caplog.text) == (status >= 500)
        assert ("Retry-After" in response) == (status == 503)

    def test_a_fault_is_reported_as_django_reports_it(self, ann, monkeypatch):
        """Error trackers and test clients listen to Django's signal."""

        def failing(*arguments):
            raise ValueError("here")

        monkeypatch.setattr("compaction_app.api.lookup.is_allowed", failing)
        with pytest.raises(ValueError, match="here"):
            Asker(ann).post("sessions", {})


MARKUP = '<script>alert("1")</script>'


def test_markup_comes_back_as_json_and_as_nothing_else(ask, path):
    response = ask.post(path, GOOD | {"content": MARKUP})
    assert response["Content-Type"].startswith("application/json")
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["Cache-Control"] == "no-store"
    refused = ask.post(path, {MARKUP: 1})
    problem(refused, 422, "invalid")
    assert refused["X-Content-Type-Options"] == "nosniff"


def test_nothing_of_a_conversation_is_logged(ask, path, caplog):
    caplog.set_level("DEBUG")
    body = {"role": "user", "content": "hush-content", "name": "hush-name", "metadata": {"hush-key": "hush-value"}}
    message = ask.post(path, body).json()["message"]["id"]
    ask.post(path, body | {"tool_call_id": "hush-call"})
    ask.get(f"messages/{message}/context")
    ask.post(f"messages/{message}/redact", {"replacement": "hush-replacement"})
    records = [record for record in caplog.records if not record.name.startswith("django.db")]
    assert "hush" not in "".join(record.getMessage() for record in records)


def test_somebody_elses_ids_and_unknown_ones_are_told_apart_by_nobody(world):
    bob = Asker(user("bob"))
    for known, unknown in (
        (f"messages/{world.tip.pk}", f"messages/{10**9}"),
        (world.path, "sessions/00000000-0000-4000-8000-000000000000"),
        (f"runs/{world.run.pk}", f"runs/{10**9}"),
    ):
        assert bob.get(known).content == bob.get(unknown).content

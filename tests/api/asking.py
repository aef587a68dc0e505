"""Asking the JSON API as a client does: paths below its mount, JSON there and back."""

import json

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client

from compaction_app import chat
from tests.admin.records import run_for
from tests.builders import grow
from tests.small import anchored_summary

MOUNT = "/api/v1/"


class Asker:
    """One client of the API, signed in by session if it is somebody's."""

    def __init__(self, user=None, *, mount=MOUNT, **options):
        self.client = Client(**options)
        self.mount = mount
        self.user = user
        if user is not None:
            self.client.force_login(user)

    def __call__(self, method, path, body=None, *, raw=None, headers=None):
        sent = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        return self.client.generic(
            method, self.mount + path, sent, content_type="application/json", headers=headers or {}
        )

    def get(self, path):
        return self("GET", path)

    def patch(self, path, body):
        return self("PATCH", path, body)

    def post(self, path, body=None, **options):
        return self("POST", path, body, **options)


def user(name, *permissions, **fields):
    """A user; with permissions of this app, one who works here."""
    made = get_user_model().objects.create_user(name, is_staff=bool(permissions), **fields)
    made.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return made


def problem(response, status, code):
    """The answer is this error, in the one shape of errors; gives its detail."""
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/json"
    said = response.json()
    assert set(said) - ({"run_id"} if code == "open_run" else set()) == {"code", "detail"}
    assert said["code"] == code
    assert isinstance(said["detail"], str)
    assert said["detail"]
    return said["detail"]


class World:
    """A session of somebody's with a branch of eight messages and one generation over its first four."""

    def __init__(self, owner, **fields):
        self.owner = owner
        self.session = chat.start_session(owner=owner, title="Tides", **fields)
        self.branch = grow(self.session, None, "u a u a u a u a")
        self.summary = anchored_summary(self.branch[5], self.branch[3], content="What was said before. " * 20)
        figures = {"messages_compacted": 4, "tokens_before": 800, "tokens_after": 430, "cost": "0.00012"}
        self.run = run_for(self.summary, self.tip, 1, trigger="manual", instructions="Keep the times.", **figures)

    @property
    def path(self):
        return f"sessions/{self.session.pk}"

    @property
    def tip(self):
        return self.branch[7]

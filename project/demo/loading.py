"""Fills the demo's database: the tables, the conversation, an account to log in with."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import DatabaseError, connection

from compaction_app import chat
from compaction_app.conf import site_setting
from compaction_app.contrib import histories
from compaction_app.exceptions import ImportFailed
from compaction_app.models import ChatSession
from compaction_app.transfer import formats, importing
from compaction_app.transfer.formats import Conversation, ImportedMessage
from compaction_app.transfer.importing import Imported, Refused
from project.demo.processes import DemoFailed

USERNAME = "demo"
#: Marks the account as the demo's, so that no other account's password is changed.
EMAIL = "demo@demo.invalid"


@dataclass(frozen=True, slots=True)
class Account:
    user: Any
    #: "" if the account is not the demo's.
    password: str


def migrate() -> None:
    name = connection.settings_dict["NAME"]
    try:
        call_command("migrate", verbosity=0, interactive=False)
    except DatabaseError as error:
        raise DemoFailed(f"The database {name} cannot be used: {error}") from error


def account(password_file: Path) -> Account:
    """The superuser ``demo``, with the password of an earlier demo if it is still known."""
    users = get_user_model()
    user = users._default_manager.filter(username=USERNAME).first()
    if user is not None and user.email != EMAIL:
        return Account(user, "")
    password = os.environ.get("DEMO_PASSWORD", "") or _read(password_file) or secrets.token_urlsafe(9)
    if user is None:
        user = users._default_manager.create_superuser(username=USERNAME, email=EMAIL, password=password)
    elif not user.check_password(password):
        user.set_password(password)
        user.save(update_fields=["password"])
    _write(password_file, password)
    return Account(user, password)


def _read(file: Path) -> str:
    return file.read_text().strip() if file.exists() else ""


def _write(file: Path, password: str) -> None:
    file.unlink(missing_ok=True)
    # Created readable by its owner only: changing the mode afterwards would be too late.
    with os.fdopen(os.open(file, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "w") as opened:
        opened.write(password + "\n")


def read_conversations(file: Path, *, join: bool) -> list[Conversation]:
    try:
        read = list(histories.read(file))
    except ImportFailed as error:
        raise DemoFailed(f"{file}: {error}") from error
    conversations = [one for one in read if isinstance(one, Conversation)]
    if len(conversations) < len(read):
        raise DemoFailed(f"{file}: {next(one for one in read if isinstance(one, Refused))}")
    return [joined(conversations)] if join else conversations


def joined(conversations: Sequence[Conversation]) -> Conversation:
    """One conversation of all trees: each goes on where the best-ranked branch of the tree before ends."""
    messages: list[ImportedMessage] = []
    leaf: int | None = None
    for conversation in conversations:
        offset = len(messages)
        for message in conversation.messages:
            parent = leaf if message.parent is None else message.parent + offset
            messages.append(replace(message, parent=parent))
        leaf = offset + _best_leaf(conversation.messages)
    return importing.checked(
        replace(conversations[0], external_id="", id="", messages=tuple(messages)), site_setting("MAX_MESSAGE_BYTES")
    )


def _best_leaf(messages: Sequence[ImportedMessage]) -> int:
    """The leaf reached by the lowest rank at each level; replies without one last, ties by the order of the file."""
    below = formats.children_of(messages)
    best: int | None = None

    def place(index: int) -> tuple[bool, float, int]:
        rank = messages[index].fields["metadata"].get("rank")
        return rank is None, rank or 0, index

    while replies := below.get(best):
        best = min(replies, key=place)
    return best or 0


def store_conversations(conversations: Sequence[Conversation], *, owner: Any) -> Iterator[Imported]:
    for one in importing.store(conversations, owner=owner):
        if isinstance(one, Refused):
            raise DemoFailed(str(one))
        yield one


def forget(owner_name: str = USERNAME) -> int:
    """Delete the conversations of the demo's account; returns how many."""
    sessions = list(ChatSession.objects.filter(owner__username=owner_name, owner__email=EMAIL))
    for session in sessions:
        chat.delete_session(session)
    return len(sessions)

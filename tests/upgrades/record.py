"""Records the rows that this version of the app writes, for the tests of later versions.

At a release: ``python -m tests.upgrades.record tests/upgrades/0.1.0.json``. The rows are written through the public API
into a database in memory, on the newest migration.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

SETTINGS: dict[str, Any] = {
    "SECRET_KEY": "not-used",
    "USE_TZ": True,
    "TIME_ZONE": "Europe/Vienna",
    "DATABASES": {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    "INSTALLED_APPS": ["django.contrib.auth", "django.contrib.contenttypes", "treebeard", "compaction_app"],
    "COMPACTION": {
        "CONTEXT_WINDOW": 1_200,
        "RESERVED_TOKENS": 200,
        "SUMMARY_TARGET_TOKENS": 150,
        "SUMMARIZER": "extractive",
        "COOLDOWN_SECONDS": 0,
    },
}
MODELS = ("ChatSession", "ChatMessage", "CompactionRun", "CompactionEvent")
SUBJECTS = (
    "the lamp room",
    "la boîte à outils",
    "الخريطة",
    "钥匙",
    "pane 7",
    "the 18:40 ferry",
    "drizzle & <b>fog</b>",
)


def write_conversation() -> int:
    """Write a session in which all happened that leaves rows; returns a tip that has a summary."""
    from compaction_app import chat

    session = chat.start_session(
        title="Lighthouse", model="gpt-test", system_prompt="You help a keeper.", external_id="chat-1"
    )
    tip = chat.append_message(
        session, role="user", content="Never open the gallery door in a storm. Where do we start?"
    )
    fork = tip
    for number in range(24):
        subject = SUBJECTS[number % len(SUBJECTS)]
        reply = f"About {subject}: check number {number} is due on the {number % 27 + 1}th, " + "and so on. " * 12
        tip = chat.append_message(session, tip, role="assistant", content=reply, usage={"prompt_tokens": 40 + number})
        if number == 5:
            fork = tip
        if number % 6 == 3:
            call = {"id": f"call_{number}", "type": "function", "function": {"name": "tide", "arguments": '{"day": 3}'}}
            tip = chat.append_message(session, tip, role="user", content="And the tide?")
            tip = chat.append_message(session, tip, role="assistant", tool_calls=[call])
            tip = chat.append_message(
                session, tip, role="tool", tool_call_id=f"call_{number}", content="high at 04:12 " * 30
            )
            tip = chat.append_message(
                session, tip, role="assistant", content="High at 04:12.", reasoning=[{"text": "tide"}]
            )
        picture = [
            {"type": "image", "name": "pane.png", "mime_type": "image/png", "url": "https://example.com/pane.png"}
        ]
        tip = chat.append_message(
            session,
            tip,
            role="user",
            content=f"What of {subject}?",
            attachments=picture if number == 7 else None,
            external_id=f"m{number}",
        )
        if number in {9, 16, 23}:
            chat.compact(tip)
    other = fork
    for number in range(14):
        other = chat.append_message(session, other, role="user", content=f"Rather the other way, step {number}. " * 6)
        other = chat.append_message(session, other, role="assistant", content=f"Step {number} it is. " * 8)
    chat.compact(other)
    summary = chat.find_summary(other)
    assert summary is not None
    chat.retire_summary(summary, reason="by hand")
    chat.redact_message(other)
    empty = chat.start_session(title="Empty")
    gone = chat.append_message(empty, role="user", content="delete me")
    chat.delete_message(gone)
    return int(tip.pk)


def shown_at(tip: Any) -> list[list[Any]]:
    """(message, origin, content) of what a model is shown at a tip, without the words around it that are ours."""
    from compaction_app import chat

    messages = [one for one in chat.get_context(tip).messages if one.message_id is not None]
    summary, end = "<conversation-summary>", "</conversation-summary>"
    contents = [one.content.rpartition(summary)[2].removesuffix(end).strip() for one in messages]
    return [[one.message_id, str(one.origin), text] for one, text in zip(messages, contents, strict=True)]


def main(path: Path) -> None:
    import django
    from django.conf import settings
    from django.core import serializers
    from django.core.management import call_command
    from django.db.migrations.loader import MigrationLoader

    settings.configure(**SETTINGS)
    django.setup()
    call_command("migrate", verbosity=0)
    from django.db import connection

    from compaction_app import models

    tip = write_conversation()
    rows = {
        name: json.loads(serializers.serialize("json", getattr(models, name)._base_manager.order_by("pk")))
        for name in MODELS
    }
    [(_, newest)] = MigrationLoader(connection).graph.leaf_nodes("compaction_app")
    recorded = {
        "migration": newest,
        "tip": tip,
        "shown": shown_at(models.ChatMessage.objects.get(pk=tip)),
        "rows": {name: [{"pk": row["pk"], **row["fields"]} for row in found] for name, found in rows.items()},
    }
    text = json.dumps(recorded, ensure_ascii=False)
    # A row a line.
    path.write_text(text.replace('{"pk": ', '\n{"pk": ') + "\n")
    counts = {name: len(found) for name, found in rows.items()}
    sys.stdout.write(f"{path}: {recorded['migration']}, {counts}\n")


if __name__ == "__main__":
    os.environ.pop("DJANGO_SETTINGS_MODULE", None)
    main(Path(sys.argv[1]))

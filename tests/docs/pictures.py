"""The pictures of the documentation: what each shows of a demo, and the app's own words in it.

``make screenshots`` takes them and stores the words in each file; ``test_pictures.py`` compares these with the words of
the pages as they are now. What people and models wrote is left out, and numbers are.
"""

import json
import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from django.db.models import DateTimeField, Model
from django.test import override_settings
from django.test.html import Element, parse_html
from django.urls import reverse

from compaction_app import chat
from compaction_app.exceptions import CompactionFailed
from compaction_app.models import ChatSession
from compaction_app.tasks import compact_branch
from compaction_app.testing import steps
from compaction_app.testing.exchange import Body, content_text
from compaction_app.testing.server import ScriptedOpenAIServer
from project.demo.loading import read_conversations, store_conversations
from project.demo.places import CONVERSATION
from tests.admin.pages import page_of, url
from tests.conftest import REPOSITORY

DOCS = REPOSITORY / "docs"
PLANTS = REPOSITORY / "project" / "demo_plants.json"
MODEL = "gpt-5.4-nano"
#: Small enough that the conversation is compacted many times.
WINDOW = {"CONTEXT_WINDOW": 6000, "RESERVED_TOKENS": 500, "SUMMARY_TARGET_TOKENS": 500, "COOLDOWN_SECONDS": 0}
#: Statements of a summary.
MOST_STATED = 24

#: One that is readable in a document's column, one that shows all columns of a list, and a phone.
DOCUMENT = {"width": 1200, "height": 900}
WIDE = {"width": 1600, "height": 900}
PHONE = {"width": 390, "height": 844}


@dataclass(frozen=True)
class Picture:
    """Of a page from the top of its first part on, parts being named by their id or by that of their heading."""

    name: str
    address: str
    parts: tuple[str, ...]
    screen: dict[str, int] = field(default_factory=lambda: DOCUMENT)
    most_pixels: int = 800
    #: A fold that is open in it: then it shows a window.
    opened: str = ""

    @property
    def file(self) -> Path:
        return DOCS / f"{self.name}.png"


def pictures(session: ChatSession) -> list[Picture]:
    summaries = session.messages.summaries()
    retired = summaries.get(retired_at__isnull=False)
    run = session.runs.get(summary=retired)
    tip = chat.newest_tip(run.tip)
    branches, context = page_of(session), page_of(tip)
    compared = ("compaction-generations", "compaction-changed")
    talk = reverse("chat:branch", args=[session.pk, tip.pk])
    return [
        Picture("chat-page", talk, ("page",), opened="#cutoff > details"),
        Picture("session-page", branches, ("compaction-branches",), most_pixels=1100),
        Picture("admin-context", context, ("compaction-context",)),
        Picture("admin-summary", page_of(run.base), compared),
        Picture("admin-runs", url("compactionrun_changelist"), ("changelist",), WIDE),
        Picture("admin-phone", branches, ("compaction-branches",), PHONE),
    ]


def own_words(page: str, parts: tuple[str, ...]) -> str:
    """The app's words in parts of a page, a piece of text a line."""
    return re.sub(
        r"\d[\d.,:]*", "0", "\n".join(words for part in parts for words in _words(_part(parse_html(page), part)))
    )


def _part(element: Element, name: str) -> Element | None:
    if {("id", name), ("aria-labelledby", name)} & set(element.attributes) and element.name != "h2":
        return element
    inside = (_part(child, name) for child in element.children if isinstance(child, Element))
    return next(filter(None, inside), None)


def _words(element: Element | None) -> Iterator[str]:
    assert element is not None
    if ("dir", "auto") in element.attributes or element.name == "bdi":
        return
    for child in element.children:
        yield from _words(child) if isinstance(child, Element) else [child] * bool(child)


# -- words in a file ------------------------------------------------------------------------------------------

_WORDS = b"zTXtWords\0\0"
#: Of a PNG: its signature and its first chunk.
_HEAD = 33


def with_words(png: bytes, words: str) -> bytes:
    """The picture with a chunk of text, which viewers ignore."""
    chunk = _WORDS + zlib.compress(words.encode())
    return png[:_HEAD] + struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk)) + png[_HEAD:]


def words_in(png: bytes) -> str:
    return zlib.decompressobj().decompress(png.partition(_WORDS)[2]).decode()


# -- the demo -------------------------------------------------------------------------------------------------


@contextmanager
def demo(owner: Any) -> Iterator[ChatSession]:
    """The demo's conversation, compacted as it grew by a model with a price, its rows dated as its messages.

    One summary was retired, and the last run of one branch failed.
    """
    with ScriptedOpenAIServer(default=steps.reply_with(_recap)) as server:
        models = [{"model": MODEL, "base_url": server.url}]
        priced = {MODEL: {"price": {"input": 0.2, "cached": 0.02, "output": 1.25}}}
        own = {"SUMMARIZER": "default", "SUMMARIZERS": {"default": {"MODELS": models}}, "MODELS": priced}
        with override_settings(COMPACTION=own):
            yield _grown(server, owner)


def _grown(server: ScriptedOpenAIServer, owner: Any) -> ChatSession:
    [session] = (one.session for one in store_conversations(read_conversations(CONVERSATION, join=False), owner=owner))
    session.settings = WINDOW
    session.save()
    for reply in session.messages.messages().filter(role="assistant", tool_calls__isnull=True).order_by("id"):
        chat.request_compaction(reply)
        _work(session)
    tip = max(chat.tips(session), key=lambda tip: tip.depth)
    summary = chat.find_summary(tip)
    assert summary is not None
    chat.retire_summary(summary, reason="It has a date of another branch.")
    _work(session)
    server.script([steps.server_error(503)] * 9)
    with suppress(CompactionFailed):
        chat.compact(chat.tips(session)[0])
    for run in session.runs.all():
        assert run.tip is not None
        for row in filter(None, (run, run.summary, *run.events.all())):
            _date(row, run.tip.created_at)
    return session


def _work(session: ChatSession) -> None:
    """What a worker does."""
    while run := session.runs.filter(status="ready").first():
        compact_branch(run.pk)


def _date(row: Model, when: datetime) -> None:
    """Set all its times: what happened follows its message in a moment."""
    times = [one.name for one in row._meta.concrete_fields if isinstance(one, DateTimeField) and getattr(row, one.name)]
    type(row)._default_manager.filter(pk=row.pk).update(**dict.fromkeys(times, when))


def _recap(body: Body) -> str:
    """A summary of the statements that the demo is known to make, as far as the material has them."""
    read = content_text(body["messages"][-1]["content"]).partition("<cutoff id=")[0]
    known = {one["id"]: one for one in json.loads(PLANTS.read_text())["plants"] if one["text"] in read}
    stated = [one for one in known.values() if one["superseded_by"] not in known][-MOST_STATED:]
    lines = [
        line
        for kind in dict.fromkeys(one["category"] for one in stated)
        for line in (
            f"\n## {kind.capitalize()}\n",
            *(f"- {o['subject']}: {o['text']}" for o in stated if o["category"] == kind),
        )
    ]
    return "\n".join(lines).strip()

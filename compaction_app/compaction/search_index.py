"""The index by which summarized messages are found again: an entry each, with its place and its words as terms.

A message gets its entry once a summary covers it: from the worker, after the commit, and from a search where that is
still missing. So an append costs nothing, and messages of before need no command. Entries are written from the root
down with the session locked, so a message that has one has it above all others on its branch, and a redaction is seen
or waited for.

A term is a keyed digest, so what was erased is in no byte of an index, whatever its database leaves behind on disk.
The key is made of ``SECRET_KEY``; words are looked for under ``SECRET_KEY_FALLBACKS`` too. What the words are,
:mod:`search_words` says.
"""

import hashlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from django.conf import settings as django_settings
from django.utils.crypto import salted_hmac

from compaction_app.compaction.search_words import distinct_words
from compaction_app.messages.openai_format import strings
from compaction_app.messages.transcript import RECALLED
from compaction_app.models import ChatMessage, CompactionRun, SearchEntry, sql
from compaction_app.models.columns import names
from compaction_app.models.database import fetch, locked
from compaction_app.values import Role

#: Entries that are written with the session locked: a few milliseconds.
_BATCH = 100
#: Different words of one message, which a tsvector has to hold.
_MOST_WORDS = 20_000
_READ = ("lane", "depth", "redacted_at", "role", *names(ChatMessage, said=True, copied=True, exported=True))
_LETTERS = str.maketrans("0123456789", "ghijklmnop")


def write_entries(row: ChatMessage | CompactionRun, cutoff_id: int) -> None:
    """Write the entries that are missing at or above a cutoff; one query where there are none."""
    missing = [pk for (pk,) in reversed(fetch(sql.WITHOUT_ENTRY, {"cutoff": cutoff_id}, row))]
    for start in range(0, len(missing), _BATCH):
        with locked(row):
            found = ChatMessage.objects.in_database_of(row).filter(pk__in=missing[start : start + _BATCH])
            SearchEntry.objects.in_database_of(row).bulk_create(
                SearchEntry(message=one, terms=" ".join([*_place_terms(one), *_terms(words_of(one))]))
                for one in found.filter(search_entry=None).only(*_READ)
            )


def _place_terms(message: ChatMessage) -> tuple[str, str]:
    return f"l{message.lane_id or message.pk}", f"s{message.depth // sql.SEGMENT}"


def words_of(message: ChatMessage) -> set[str]:
    """The words by which a message is found."""
    if message.redacted_at or (message.role == Role.TOOL and RECALLED in message.content):
        return set()
    return distinct_words(f"{message.name}\n{searched_text(message)}")


def searched_text(message: Any) -> str:
    """The text of a message, the arguments of its calls and the names of its attachments."""
    named = (attachment.get("name") or "" for attachment in message.attachments or ())
    return "\n".join(filter(None, [message.content, *strings(message.tool_calls, keys=False), *named]))


def terms_of(words: Iterable[str]) -> list[Sequence[str]]:
    """For each word the terms that stand for it, one a key."""
    keys = [django_settings.SECRET_KEY, *django_settings.SECRET_KEY_FALLBACKS]
    return list(zip(*(_terms(words, key) for key in keys), strict=True))


def _terms(words: Iterable[str], secret: str | bytes | None = None) -> list[str]:
    key = _key(django_settings.SECRET_KEY if secret is None else secret)
    return [_term(word, key) for word in sorted(words)[:_MOST_WORDS]]


@lru_cache
def _key(secret: str | bytes) -> bytes:
    return salted_hmac("compaction_app.search", "", secret=secret, algorithm="sha256").digest()


@lru_cache(maxsize=5_000)
def _term(word: str, key: bytes) -> str:
    # In letters, of which a tsquery needs no quotes.
    return hashlib.blake2b(word.encode(), key=key, digest_size=5).hexdigest().translate(_LETTERS)

"""What of a conversation quotes a text that is to be erased, however it is written there.

Texts are compared folded: without what makes no difference to a reader, and with markup and escapes read.
"""

import base64
import html
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import groupby
from typing import Any

from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.models.columns import erased, left_of
from compaction_app.values import Kind, QuotedIn, TextFound

#: Rows that are read at once: with the largest messages that are allowed, 200 MB.
READ_AT_ONCE = 50
#: What a redaction changes. The rest of a run is codes and figures.
OF_MESSAGES, OF_SESSIONS, OF_RUNS = erased(ChatMessage), erased(ChatSession), erased(CompactionRun, said=True)
#: Characters of a folded text: a shorter one would erase what only looks like it.
SHORTEST = 4
#: Signs that nobody sees, and dashes, whose categories do not say so.
_UNSEEN = re.compile("VARIATION SELECTOR|FILLER$|GRAPHEME JOINER|VOWEL INHERENT")
_DASH = re.compile("(?<!PLUS-)MINUS SIGN$|HYPHEN BULLET")
#: So many of them a process remembers.
_MOST_SIGNS = 20_000
#: Of Turkish: the dot that case folding leaves, and the letter that has none. Of forms and Braille: a space.
_AFTER_CASE = {0x307: None, 0x131: "i", 0x2B: " ", 0x2800: " "}
#: Of programs and addresses, of JSON and JavaScript, of Markdown and HTML.
_ESCAPE = re.compile(
    r"(?P<bytes>(?:(?:\\x|%)[0-9a-fA-F]{2}|\\[0-3][0-7]{2})+)|(?P<units>(?:[\\%]u[0-9a-fA-F]{4})+|\\[bfnrt])"
    r"|\\(?P<sign>[!-/:-@[-`{-~])|&(?:#\w{1,8}|[a-zA-Z]\w{1,31});"
)
#: Bytes that are no UTF-8 are Latin-1.
_LATIN_1 = {0xDC00 + byte: byte for byte in range(0x80, 0x100)}
#: Of HTML and Markdown: tags, and emphasis, but for what is within a word, as in names of variables.
_MARKUP = re.compile(r"<[/!]?[a-zA-Z][^<>]*>|[*`~]+|(?<![^\W_])_+|_+(?![^\W_])")
#: Begins a line of quoted mail.
_QUOTE_MARKS = re.compile(r"(?:^|[\n\r])[\s>]+")
#: JSON is written in JSON no more often.
_MOST_LEVELS = 8
#: Many in a row, of which each belongs to the letter before it; two of them count as letters.
_ACCENTS = re.compile("(?:[^\\w\0-\x7f]|[\uff9e\uff9f]){30,}")
_DATA = re.compile(r"data:[^,\s]{0,200};base64,([A-Za-z0-9+/_-]+)=*")


class TextSearch:
    """What of a conversation quotes a text, as far as its messages have been read."""

    def __init__(self, session: ChatSession, wanted: str) -> None:
        self.session = session
        self.wanted = wanted
        #: Messages that quote it below none that does, and all messages and summaries at or below them.
        self.tops: list[int] = []
        self.below: set[int] = set()
        #: The first message above each one that is there.
        self.roots: dict[int, int] = {}
        self._last = 0
        self._messages: dict[int, tuple[str, ...]] = {}
        #: All of the session, whether they quote it or not.
        self._summaries: dict[int, tuple[str, ...]] = {}

    def read_messages(self) -> None:
        """Those after the last one that was read."""
        rows = ChatMessage.objects.in_database_of(self.session).in_session(self.session.pk)
        rows = rows.only("kind", "role", *OF_MESSAGES)
        while batch := list(rows.filter(pk__gt=self._last)[:READ_AT_ONCE]):
            for row in batch:
                places = self.places(row, OF_MESSAGES)
                if row.kind == Kind.SUMMARY:
                    self._summaries[row.pk] = places
                elif places:
                    self._messages[row.pk] = places
            self._last = batch[-1].pk

    def found(self) -> TextFound:
        stored = ChatMessage.objects.in_database_of(self.session).in_session(self.session.pk)
        # In the order of their ids: parents come first.
        for pk, parent in stored.values_list("pk", "parent_message_id"):
            self.roots[pk] = self.roots.get(parent, pk)
            if parent in self.below:
                self.below.add(pk)
            elif pk in self._messages:
                self.below.add(pk)
                self.tops.append(pk)
        summaries = {pk: places for pk, places in self._summaries.items() if places or pk in self.below}
        runs = CompactionRun.objects.in_database_of(self.session).filter(session=self.session.pk)
        runs = runs.only(*OF_RUNS)
        of_runs = {run.pk: self.places(run, OF_RUNS) for run in runs.iterator(chunk_size=READ_AT_ONCE)}
        row = ChatSession.objects.in_database_of(self.session).only(*OF_SESSIONS).get(pk=self.session.pk)
        return TextFound(
            session=self.places(row, OF_SESSIONS),
            messages=_quoting(self._messages),
            summaries=_quoting(summaries),
            runs=_quoting({pk: places for pk, places in of_runs.items() if places}),
        )

    def left_of(self, value: Any) -> Any:
        """Of a session's text nothing, of its JSON the keys that do not quote it."""
        if isinstance(value, str):
            return ""
        return {key: item for key, item in value.items() if not self._is_in(texts_in({key: item}))}

    def places(self, row: Any, names: tuple[str, ...]) -> tuple[str, ...]:
        """Those of the columns that quote it, as far as a redaction erases them."""
        return tuple(name for name in names if self._is_in(_texts_gone(getattr(row, name), left_of(row, name))))

    def _is_in(self, texts: Iterable[str]) -> bool:
        return any(self.wanted in folded(text) for text in texts)


def _quoting(places: Mapping[int, tuple[str, ...]]) -> tuple[QuotedIn, ...]:
    return tuple(QuotedIn(pk, places[pk]) for pk in sorted(places))


def _texts_gone(value: Any, left: Any) -> Iterator[str]:
    """The texts of a value that are not in what is left of it."""
    if isinstance(value, list) and isinstance(left, list):
        for pair in zip(value, left, strict=True):
            yield from _texts_gone(*pair)
    else:
        staying = set(texts_in(left))
        yield from (text for text in texts_in(value) if text not in staying)


class _Signs(dict[int, str | None]):
    """For ``str.translate``: nothing for what nobody sees, a hyphen for each dash."""

    def __missing__(self, code: int) -> str | None:
        sign = chr(code)
        name, category = unicodedata.name(sign, ""), unicodedata.category(sign)
        is_unseen = category in ("Cc", "Cf", "Cn") and not sign.isspace()
        is_dash = category == "Pd" or _DASH.search(name)
        folded = None if is_unseen or _UNSEEN.search(name) else "-" if is_dash else sign
        # It lives as long as the process, and others write the texts.
        if len(self) < _MOST_SIGNS:
            self[code] = folded
        return folded


_SIGNS, _SIGNS_AFTER_CASE = _Signs(), _Signs(_AFTER_CASE)


def folded(text: str) -> str:
    folded = unicodedata.normalize("NFKC", _ACCENTS.sub(_in_order, text.translate(_SIGNS))).casefold()
    folded = unicodedata.normalize("NFKC", folded).translate(_SIGNS_AFTER_CASE)
    return " ".join(_QUOTE_MARKS.sub(" ", folded).split())


def _in_order(accents: re.Match[str]) -> str:
    """In the order that normalizing gives them: it takes sixteen times as long for four times as many."""
    signs = "".join(unicodedata.normalize("NFKD", sign) for sign in accents[0])
    runs = groupby(signs, lambda sign: unicodedata.combining(sign) > 0)
    return "".join(sign for _, run in runs for sign in sorted(run, key=unicodedata.combining))


def texts_in(value: Any) -> Iterator[str]:
    """Every string of a JSON value, its keys and numbers too, as it is and without its markup and escapes.

    Arguments of tool calls, addresses and pages have escapes, JSON within JSON several times.
    """
    if isinstance(value, str):
        if data := _DATA.match(value):
            # In a picture's base64 any four letters stand somewhere.
            with suppress(ValueError):
                decoded = base64.b64decode(f"{data[1]}==", altchars=b"-_" if {*data[1]} & {*"-_"} else None)
                value = f"{decoded.decode(errors='replace')} {value[data.end() :]}"
        for _ in range(_MOST_LEVELS + 1):
            # Marks may be within a word, or in place of a space.
            yield from {value, _MARKUP.sub("", value), _MARKUP.sub(" ", value)}
            value, escapes = _ESCAPE.subn(_unescaped, value)
            if not escapes:
                return
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from texts_in(key)
            yield from texts_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts_in(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


def _unescaped(escape: re.Match[str]) -> str:
    if escape.lastgroup == "sign":
        return escape["sign"]
    if escape.lastgroup is None:
        return html.unescape(escape[0])
    written = escape[0].replace("%u", "\\u").replace("%", "\\x").encode().decode("unicode_escape")
    if escape.lastgroup == "bytes":
        return written.encode("latin-1").decode(errors="surrogateescape").translate(_LATIN_1)
    return written.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

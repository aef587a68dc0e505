"""Reads the JSON documents of files and zips one after the other, so that an archive may be larger than the memory."""

import codecs
import fnmatch
import json
import re
import sys
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

from compaction_app.exceptions import ImportFailed

_CHUNK = 1 << 20
#: Bytes of one conversation, and values in it: each value takes up to 250 bytes of memory, however short it is.
LARGEST, MOST_VALUES = 1 << 26, 1_000_000
TOO_LARGE = f"this is more than {LARGEST:,} bytes or {MOST_VALUES:,} values, which no conversation has."
#: What a zip may have; texts are seldom packed to less than a tenth.
MOST_ENTRIES, LARGEST_TOTAL, HIGHEST_RATIO = 50_000, 1 << 35, 200
#: In an archive or a folder with files of these names, the others are no conversations: indexes and settings, say.
_NAMES = (("conversations*.json",), ("*.jsonl", "*.ndjson"), ("*.json",))
#: What only the lines have that agents write: each file of these is one conversation.
_OF_SESSIONS = frozenset({"payload", "record_type", "sessionId", "agentId", "leafUuid", "snapshot"})
#: Qwen's export of all conversations.
_WRAPPED = re.compile(rb'\{(?:\s*+"\w++"\s*+:\s*+(?:"[^"]*+"|\w++)\s*+,)*+\s*+"data"\s*+:\s*+(?=\[)')
#: Levels of JSON, two for each message of a nested export; a C stack takes several times as many.
_DEEPEST = 10_000
#: With the byte order mark.
_BLANK = b"\xef\xbb\xbf \t\r\n"
#: As far as the next bracket or quotation mark, and in a text as far as its end. Nothing is tried twice.
_TO_MARK = re.compile(rb'[^"\[\]{}]*+(["\[\]{}]?)')
_TO_END = re.compile(rb'(?:[^"\\]++|\\.)*+("?)', re.DOTALL)
#: What begins a value, if it is in no text.
_BEGINS = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[{,]', re.DOTALL)

#: A document, or why there is none, with its place.
Documents = Iterator[tuple[str, Any]]


class LinesOfSession(dict[str, Any]):
    """The file of an agent's session: its first ``heads``, and ``lines`` with number, bytes and value.

    They are parsed as they are read: most are left out.
    """


def documents_of(paths: Sequence[Path]) -> Documents:
    """Of files, zips, and folders with any number of them."""
    found = list(chain.from_iterable(map(_inside, paths)))
    for path in found:
        name = f"{path.name}, " if len(found) > 1 else ""
        try:
            with path.open("rb") as file:
                # The directory of a zip is at its end: half of one has none.
                if file.read(4) == b"PK\x03\x04" or zipfile.is_zipfile(path):
                    yield from _zipped(path, name)
                else:
                    file.seek(0)
                    for place, document in documents_in(file):
                        yield (name + place).rstrip(", "), document
        except OSError as error:
            raise ImportFailed(f"{path} cannot be read: {error.strerror or error}.") from error


def _zipped(path: Path, name: str) -> Documents:
    """No name in a zip is a path here, and zipfile reads no more of an entry than it declares."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            if len(entries) > MOST_ENTRIES:
                raise ImportFailed(f"{path.name} has {len(entries):,} entries; {MOST_ENTRIES:,} are allowed.")
            named = {entry.filename: entry for entry in entries}
            chosen = [named[name] for name in _matching(named)]
            total, packed = (sum(getattr(one, key) for one in chosen) for key in ("file_size", "compress_size"))
            if total > LARGEST_TOTAL or total > max(packed, 1000) * HIGHEST_RATIO:
                raise ImportFailed(f"{path.name} has {packed:,} bytes that unpack to {total:,}, which is too many.")
            for entry in chosen:
                within = f"{name}{entry.filename.rpartition('/')[2]}, "
                with archive.open(entry) as file:
                    for place, document in documents_in(file):
                        yield (within + place).rstrip(", "), document
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise ImportFailed(f"{path.name} cannot be unpacked: this zip is damaged or incomplete.") from error
    except (RuntimeError, NotImplementedError) as error:
        raise ImportFailed(f"{path.name} cannot be unpacked: {error}.") from error


def _inside(path: Path) -> Iterable[Path]:
    return map(Path, _matching(str(one) for one in path.rglob("*") if one.is_file())) if path.is_dir() else [path]


def _matching(names: Iterable[str]) -> list[str]:
    # What macOS adds to each file is in a folder of its own.
    known = sorted(name for name in names if not name.lower().startswith("__macosx/"))
    ends = {name: name.lower().rpartition("/")[2] for name in known}
    found = ([one for one in known if any(fnmatch.fnmatch(ends[one], way) for way in ways)] for ways in _NAMES)
    return next(filter(None, found), [])


def documents_in(file: IO[bytes]) -> Documents:
    """The conversations of a list, one JSON value a line, the one value of the file, or the session of an agent."""
    began = enumerate(iter(lambda: file.readline(_CHUNK), b""), start=1)
    number, first = next(((n, line) for n, line in began if line.strip(_BLANK)), (1, b""))
    if first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        yield "", ImportFailed("this is UTF-16 text: save it as UTF-8.")
        return
    first = _unwrapped(first.lstrip(_BLANK))
    is_list = first.startswith(b"[")
    if not is_list and not first.endswith(b"\n"):
        first += next(_lines(file), b"")
    lines = _lines(file)
    #: Blank lines, and the next that is not.
    rest: list[bytes] = []
    if first.endswith(b"\n") and (not is_list or _is_json(first)):
        for line in lines:
            rest.append(line)
            if line.strip():
                break
    heads = [_parse(line) for line in (first, rest[-1])] if rest and rest[-1].strip() else []
    numbered = ((place, one) for place, one in enumerate(chain([first], rest, lines), start=number) if one.strip())
    if any(map(_is_of_session, heads)):
        yield "", LinesOfSession(heads=heads, lines=((place, len(line), _parse(line)) for place, line in numbered))
    # A broken first line of several is as any other.
    elif any(isinstance(one, dict | list) for one in heads):
        for place, line in numbered:
            yield f"line {place}", _parse(line)
    elif is_list:
        yield from _of_list(file, first)
    else:
        yield from _whole(file, first + b"".join(rest), number)


def _whole(file: IO[bytes], begun: bytes, number: int) -> Documents:
    begun += file.read(_CHUNK)
    if (found := _unwrapped(begun)) is not begun:
        yield from _of_list(file, found)
        return
    while len(begun) <= LARGEST and (more := file.read(_CHUNK)):
        begun += more
    if begun.strip(_BLANK):
        value = _parse(begun, number)
        lone = LinesOfSession(heads=[value], lines=[(number, len(begun), value)])
        yield "", lone if _is_of_session(value) else value


def _unwrapped(begun: bytes) -> bytes:
    """Of an object that has its conversations in a list, from that on."""
    return begun[found.end() :] if (found := _WRAPPED.match(begun)) else begun


def _is_of_session(value: Any) -> bool:
    return isinstance(value, dict) and "messages" not in value and not _OF_SESSIONS.isdisjoint(value)


def _of_list(file: IO[bytes], first: bytes) -> Documents:
    """The items of a list as documents; a list of messages as one."""
    messages: list[Any] | None = None
    for number, document in enumerate(_items(file, first), start=1):
        if number == 1 and isinstance(document, dict) and "role" in document and "messages" not in document:
            messages = []
        if messages is None:
            yield f"conversation {number}", document
        elif isinstance(document, ImportFailed):
            yield f"message {number}", document
            return
        else:
            messages.append(document)
    if messages is not None:
        yield "", messages


def _items(file: IO[bytes], pending: bytes) -> Iterator[Any]:
    """The items of a list, each read alone: one that is broken or too large is no hindrance to the next."""
    #: Where an item begins, or what stands between two.
    begun = at = depth = 0
    in_text = is_too_large = False
    while True:
        while (match := (_TO_END if in_text else _TO_MARK).match(pending, at)) and (mark := match[1]):
            at = match.end()
            if mark == b'"':
                in_text = not in_text
                continue
            if depth == 1:
                # Numbers and texts.
                if is_too_large or (others := pending[begun : at - 1].strip(b", \t\r\n")):
                    found = ImportFailed(TOO_LARGE) if is_too_large else _parse(b"[" + others + b"]")
                    yield from found if isinstance(found, list) else [found]
                begun, is_too_large = at - 1, False
            depth += 1 if mark in b"[{" else -1
            if depth == 0:
                return
            if depth == 1:
                if mark in b"]}":
                    yield ImportFailed(TOO_LARGE) if is_too_large else _parse(pending[begun:at])
                begun, is_too_large = at, False
        at = match.end() if match else at
        if at - begun > LARGEST:
            begun, is_too_large = at, True
        pending, at, begun = pending[begun:], at - begun, 0
        more = file.read(max(_CHUNK, len(pending)))
        if not more:
            yield ImportFailed("this is not JSON: the file ends inside of it.")
            return
        pending += more


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    """Of one that is too large, the beginning."""
    while line := file.readline(LARGEST + 1):
        if len(line) > LARGEST:
            while (more := file.readline(_CHUNK)) and not more.endswith(b"\n"):
                pass
            line += b"\n"
        yield line


def _is_json(data: bytes) -> bool:
    return isinstance(_parse(data), dict | list)


def _is_too_large(data: bytes) -> bool:
    """Counted before it is parsed: of brackets and commas that memory is made."""
    if len(data) > LARGEST:
        return True
    # Most conversations have fewer of them, also with those in texts.
    most = sum(map(data.count, (b",", b"[", b"{")))
    begins = (found for found in _BEGINS.finditer(data) if found[0][:1] != b'"') if most > MOST_VALUES else ()
    return next(islice(begins, MOST_VALUES, None), None) is not None


def _parse(data: bytes, first_line: int = 0) -> Any:
    """The value, or what is wrong with it. ``first_line``: of the file, where that is known."""
    if _is_too_large(data):
        return ImportFailed(TOO_LARGE)
    try:
        return _loaded(data)
    except json.JSONDecodeError as error:
        line, words = error.lineno - 1, f"this is not JSON: {error.msg} at character {error.colno}."
    except (ValueError, RecursionError) as error:
        # Not UTF-8, a number that is too long, nested too deeply.
        line, words = 0, f"this cannot be read: {error}"
    return ImportFailed(f"line {first_line + line}: {words}" if first_line else words)


def _loaded(data: bytes) -> Any:
    try:
        return json.loads(data, object_pairs_hook=_object)
    except RecursionError:
        # Python 3.11 gives up at 490 messages below each other.
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(_DEEPEST)
        try:
            return json.loads(data, object_pairs_hook=_object)
        finally:
            sys.setrecursionlimit(before)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, number in Counter(key for key, _ in pairs).items() if number > 1)
        # The first would be lost without a word.
        raise ValueError(f"the key {twice[:40]!r} is there twice in one object")
    return found

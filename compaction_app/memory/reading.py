"""Messages and earlier texts as statements: an answer, a denial or a correction becomes part of what it changes."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from compaction_app.memory import word_tables as known
from compaction_app.memory.quoting import QUOTED, SEPARATOR, harmless, split_quoted
from compaction_app.memory.sentences import split_sentences
from compaction_app.memory.statements import NOBODY, ROW, Speaker, Statement, demand_of, early, is_question
from compaction_app.memory.symbols import leaves, parsed
from compaction_app.memory.words import UNSPACED_SIGN, count_words, stem
from compaction_app.messages.openai_format import attachment_line
from compaction_app.messages.transcript import calls_and_results
from compaction_app.messages.truncate import shorten
from compaction_app.values import Message, Role

#: Words of a brief reply, content words of one that means nothing without what it answers, words of a short sentence,
#: and above which one belongs to another only where it limits, takes back or has a word of what it replies to.
_BRIEF_WORDS, _BRIEF, _SHORT, _LONG = 6, 3, 9, 14
#: Words of a sentence above which what it belongs to needs it, and does not contain it.
_LONGEST_PART = 18
#: Words of a message above which nobody can tell on what in it a brief one comments.
_LENGTHY = 20
#: Characters at which a statement takes no more: what follows is one that it needs.
_FULL = 500
_RESULT_BYTES = 2_000
#: So many lines are kept of a tool's result with rows alone. With more numbered lines it may be the listing of a file.
_FIRST, _FEW = 2, 4
#: Also by their stems, as the words of a statement are.
_HEARD = known.ACKNOWLEDGEMENT | frozenset(map(stem, known.ACKNOWLEDGEMENT))
_NAME = re.compile(r"[^\w.@-]+")
#: A line of a file as tools show it.
_NUMBERED = re.compile(r"\d+(?:\W|$)")
_WORD = re.compile(r"[^\W\d_]+")
#: Beside one of these a word is part of a path, an option or an assignment.
_PART_OF_CODE = frozenset("/=+@#$\\-(")


@dataclass(slots=True)
class _MessageRead:
    """The message that is read."""

    number: int
    speaker: Speaker
    sentences: Sequence[Statement] = ()
    #: Its statements so far.
    mine: list[Statement] = field(default_factory=list)
    #: It began with no more than that something was heard.
    has_heard: bool = False
    #: Whom or what "he" and "it" speak of.
    subject: Statement | None = None


class Reader:
    """Reads messages one after the other; ``statements`` grows."""

    def __init__(self, statements: Sequence[Statement] = (), last: Statement | None = None) -> None:
        """``last``: of earlier ``statements`` the one that the first message may answer."""
        self.statements = list(statements)
        #: The message before; what only says that it was heard may stand between.
        self._before = _MessageRead(-1, last.speaker, mine=[last]) if last else None
        #: The words of those who only say that they heard, and their names.
        self._heard = _HEARD | {part.lower() for one in statements for part in one.speaker.name.split()}

    def read_messages(self, messages: Sequence[Message]) -> None:
        names = calls_and_results(messages).names
        self._heard |= {part.lower() for one in messages if one.role != Role.TOOL for part in one.name.split()}
        for number, message in enumerate(messages):
            speaker = speaker_of(message.role, names[number] if message.role == Role.TOOL else message.name)
            self._read(_MessageRead(number, speaker, list(_sentences_of(message, speaker))))

    def _read(self, turn: _MessageRead) -> None:
        said = self._before.mine[-1].text if self._before and self._before.speaker != turn.speaker else ""
        has_told = False
        for one in turn.sentences:
            is_heard = self._acknowledges(one)
            has_told = has_told or not is_heard
            if is_heard and (turn.mine or not is_question(said)):
                turn.has_heard = True
                continue
            target = self._target(turn, one)
            if target is not None and len(target.text) <= _FULL and count_words(one.text) <= _LONGEST_PART:
                target.join(turn.speaker, one.text, one.words)
                turn.mine, turn.subject = turn.mine or [target], turn.subject or target
            else:
                self._add(turn, one, target)
        if turn.mine and has_told:
            self._before = turn

    def _add(self, turn: _MessageRead, one: Statement, full: Statement | None) -> None:
        """A statement of its own; ``full`` is what it changes where that takes no more."""
        if full is not None:
            full.needs = [*full.needs, one]
        if known.PRONOUN.match(one.text, one.words.cues) is None:
            turn.subject = one
        elif turn.subject is not None:
            one.needs = [turn.subject]
        elif not turn.mine and self._before is not None:
            one.needs = [self._before.mine[-1]]
        if one.text.endswith(".") and one.text[-2:-1].isalnum():
            one.text = one.text[:-1]
        turn.mine.append(one)
        self.statements.append(one)

    def _target(self, turn: _MessageRead, one: Statement) -> Statement | None:
        """The statement that this sentence answers, denies or corrects; None if it is a statement of its own."""
        said, text, cues = turn.mine or (self._before.mine if self._before else []), one.text, one.words.cues
        if not said or turn.speaker.role == Role.TOOL or text.startswith(QUOTED) or said[-1].text.startswith(QUOTED):
            return None
        before, length, size = said[-1], count_words(text), one.size
        replies = bool(not turn.mine and self._before and self._before.speaker != turn.speaker)
        points = bool(known.POINTER.match(text, cues) or known.PRONOUN.match(text, cues))
        if is_question(text):
            # One answer may answer both; "Did you take it?" is about what was said.
            refers = points or _limits(one) or not one.words.marked
            is_about = replies and length <= _BRIEF_WORDS and size <= 2 and refers
            return before if is_about or (turn.mine and before.asks) else None
        if length > _LONG:
            speaks_of_it = replies and not one.words.content.isdisjoint(before.words.content)
            limits = early(known.LIMIT, text, cues) or early(known.REVERSAL, text, cues)
            return before if speaks_of_it or limits else None
        turns = known.REVERSAL.search(text, cues) or (length <= _SHORT and known.NEGATION.search(text, cues))
        undoes = early(known.REVERSAL, text, cues) or bool(points and turns)
        denies = early(known.LIMIT, text, cues) or early(known.NEGATION, known.IDLE.sub("-", text, cues), cues)
        is_brief = length <= _BRIEF_WORDS and 0 < size <= _BRIEF
        answers = replies and is_question(before.text)
        if turn.mine:
            # "He quit on day two."
            is_echo = (points or not one.words.marked) and not early(known.FIRST_PERSON, text, cues)
            # "1. no", "2. yes"
            belongs = denies or undoes or (is_brief and (is_echo or before.speaker != turn.speaker))
        elif answers:
            belongs = denies or undoes or size <= _BRIEF * (1 + bool(known.PRONOUN.search(text, cues)))
        else:
            # Nobody can tell which comment changes what it is about.
            said_words = sum(count_words(other.text) for other in turn.sentences)
            limits = _limits(one)
            comments = self._comments(turn, text, is_brief, limits) and (said_words <= _LONG or is_brief or limits)
            # "just pulling your leg", also where what was said before was heard.
            continues = points and not replies
            goes_on = continues or (is_brief and (points or not (replies or one.words.marked)))
            belongs = comments or denies or (undoes and size > 0) or goes_on
        is_person, refers = turn.speaker.is_person, undoes or points or answers
        if belongs and is_person and size >= 2 and not refers and demand_of(text, cues):
            # Not even "Never …" denies the statement before it: it says what to do.
            return None
        return before if belongs else None

    def _acknowledges(self, one: Statement) -> bool:
        """Whether it says no more than that something was heard: "Noted, thank you."."""
        text = one.text
        if not one.words.content <= self._heard:
            return False
        words = (match[0].lower() for match in _WORD.finditer(text))
        # What is left of Chinese without its small words is content.
        return all(word in self._heard or UNSPACED_SIGN.match(word) for word in words) and not (
            any(map(str.isdigit, text)) or text.endswith(("?", "？")) or _limits(one)
        )

    def _comments(self, turn: _MessageRead, text: str, is_brief: bool, limits: bool) -> bool:
        """Whether it speaks of what a person said right before, or a model in one sentence."""
        before = self._before
        if before is None or (turn.has_heard and not turn.speaker.is_person):
            return False
        if before.speaker == turn.speaker:
            # Sent in pieces: "i sell the blue guitar", "for 900"; "if nobody of us wants it", even after "Nice!".
            return limits or (before.number == turn.number - 1 and (is_brief or text[0].islower()))
        is_short = sum(count_words(one.text) for one in before.sentences) <= _LENGTHY
        return is_short and (before.speaker.is_person or len(before.sentences) == 1)


def read_prose(text: str) -> list[Statement]:
    """What a model wrote of earlier messages: nobody's speech, so nobody's rule."""
    parts = (harmless(part.strip()) for line, _ in split_sentences(text) for part in line.split(SEPARATOR))
    return [Statement.read("", Speaker(NOBODY), said) for said in parts if said]


def speaker_of(role: str, name: str) -> Speaker:
    return Speaker(str(role), _NAME.sub(" ", name).strip()[:40].strip())


def _sentences_of(message: Message, speaker: Speaker) -> Iterator[Statement]:
    day = message.created_at.date().isoformat() if message.created_at else ""
    if message.role == Role.TOOL:
        given = parsed(message.content)
        content = message.content if given is None else "\n".join(value for _, value in leaves(given))
        lines = [line for line, _ in split_sentences(shorten(content, _RESULT_BYTES))]
        # Rows of a file, a log or a table are symbols of the working memory and no statements.
        numbered = [_NUMBERED.match(line) is not None for line in lines]
        is_listing = sum(numbered) > max(_FEW, len(lines) // 2)
        said = [line for line, is_row in zip(lines, numbered, strict=True) if not (is_listing and is_row)]
        told = [line for line in said if speaker.weight_of(line) > ROW] or said[:_FIRST]
        yield from (Statement.read(day, speaker, text) for text in map(harmless, told) if text)
        return
    for piece, is_quoted in split_quoted(message.content):
        for raw, is_code in split_sentences(piece):
            if not (text := harmless(raw)):
                continue
            one = Statement.read(day, speaker, text, is_quoted=is_quoted or is_code)
            if day and not (is_code or is_quoted):
                one.text = _with_day(text, day, one.words.cues)
            yield one
    for attachment in message.attachments:
        # Whoever named a file said nothing by it.
        yield Statement.read(day, speaker, harmless(attachment_line(attachment)), is_quoted=True)


def _with_day(text: str, day: str, cues: int) -> str:
    """A summary outlives "tomorrow", so it says when that was said; not inside a path, an address or an option."""
    found = known.DAY.search(text, cues)
    if found is None:
        return text
    before, behind = text[: found.end()], text[found.end() :]
    is_word = not _PART_OF_CODE.intersection(before.removesuffix(found[0])[-1:] + behind[:1])
    return f"{before} (said {day}){behind}" if is_word else text


def _limits(one: Statement) -> bool:
    text, cues = one.text, one.words.cues
    denied = known.NEGATION.search(known.IDLE.sub("-", text, cues), cues)
    return bool(denied or known.REVERSAL.search(text, cues) or known.LIMIT.search(text, cues))

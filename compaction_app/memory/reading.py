"""Messages and earlier texts as statements: an answer, a denial or a correction becomes part of what it changes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date

from compaction_app.memory import word_tables as known
from compaction_app.memory.dates import NAMES_ANOTHER_DAY, resolve_dates
from compaction_app.memory.quoting import QUOTED, split_quoted
from compaction_app.memory.records import read_records
from compaction_app.memory.sentences import SEPARATOR, harmless, split_sentences
from compaction_app.memory.statements import (
    BRIEF_WORDS,
    CODE,
    NOBODY,
    OPENING,
    Speaker,
    Statement,
    decides,
    demand_of,
    early,
    ends_in_question,
    is_question,
    level_rows,
)
from compaction_app.memory.words import Words, count_words, read_words
from compaction_app.messages.openai_format import attachment_line
from compaction_app.messages.tool_calls import call_name, tool_marker
from compaction_app.messages.transcript import results_of_calls, tool_names
from compaction_app.messages.truncate import one_line, shorten
from compaction_app.values import Message, Role

#: Content words of a reply that means nothing without what it answers.
_BRIEF = 3
#: Words above which a sentence is no denial or correction of another, and those of a short one.
_LONG, _SHORT = 14, 9
#: Characters at which a statement takes no more: what follows is one that it needs.
_FULL = 500
_RESULT_BYTES = 2_000
_NAME = re.compile(r"[^\w.@-]+")
_WORD = re.compile(r"[^\W\d_]+")


@dataclass(slots=True)
class _Sentence:
    text: str
    words: Words
    weight: float
    is_quoted: bool = False


@dataclass(slots=True)
class _Turn:
    """The message that is read."""

    number: int
    speaker: Speaker
    day: str
    is_one_sentence: bool
    #: Of a few words in all.
    is_short: bool
    #: Its statements so far.
    mine: list[Statement] = field(default_factory=list)
    #: It began with no more than that something was heard.
    has_heard: bool = False
    #: "Imagine …": all that follows stands under it.
    frame: Statement | None = None
    #: Whom or what "he" and "it" speak of.
    subject: Statement | None = None


class Reader:
    """Reads messages one after the other; ``statements`` grows."""

    def __init__(self, statements: Sequence[Statement] = (), last: Statement | None = None) -> None:
        """``last``: of earlier ``statements`` the one that the first message may answer."""
        self.statements = list(statements)
        #: The message before; what only says that it was heard may stand between.
        self._before = _Turn(-1, last.speaker, last.day, False, False, [last]) if last else None
        self._names = {part.lower() for one in statements for part in one.speaker.name.split()}

    def read_messages(self, messages: Sequence[Message]) -> None:
        results, names = results_of_calls(messages), tool_names(messages)
        self._names.update(part.lower() for one in messages if one.role != Role.TOOL for part in one.name.split())
        for number, message in enumerate(messages):
            speaker = speaker_of(message.role, names[number] if message.role == Role.TOOL else message.name)
            day = message.created_at.date() if message.created_at else None
            sentences = _sentences_of(message, speaker, day)
            is_short = sum(count_words(one.text) for one in sentences) <= _LONG
            turn = _Turn(number, speaker, day.isoformat() if day else "", len(sentences) == 1, is_short)
            self._read(turn, sentences)
            for call, result in zip(message.tool_calls, results[number], strict=True):
                text, tool = harmless(one_line(tool_marker(call, result), 300)), speaker_of(Role.TOOL, call_name(call))
                words = read_words(text)
                self.statements.append(Statement(turn.day, tool, text, words, tool.weight_of(text, words)))

    def _read(self, turn: _Turn, sentences: Sequence[_Sentence]) -> None:
        heard = [self._acknowledges(one.text) for one in sentences]
        said = self._before.mine[-1].text if self._before and self._before.speaker != turn.speaker else ""
        for sentence, is_heard in zip(sentences, heard, strict=True):
            if is_heard and (turn.mine or not _answers(turn.speaker, sentence.text, said)):
                turn.has_heard = True
                continue
            target = self._target(turn, sentence)
            if target is not None and len(target.text) <= _FULL:
                target.join(turn.speaker, sentence.text, sentence.words)
                turn.mine = turn.mine or [target]
            else:
                self._add(turn, sentence, target)
        if turn.mine and not all(heard):
            self._before = turn

    def _add(self, turn: _Turn, sentence: _Sentence, full: Statement | None) -> None:
        """A statement of its own; ``full`` is what it changes where that takes no more."""
        text = QUOTED * sentence.is_quoted + re.sub(r"(?<=\w)\.$", "", sentence.text)
        one = Statement(turn.day, turn.speaker, text, sentence.words, sentence.weight)
        if full is not None:
            full.needs.append(one)
        if known.PRONOUN.match(sentence.text) is None:
            turn.subject = one
        elif turn.subject is not None:
            one.needs.append(turn.subject)
        elif not turn.mine and self._before is not None:
            one.needs.append(self._before.mine[-1])
        if turn.frame is not None:
            one.needs.append(turn.frame)
        elif turn.speaker.role != Role.TOOL and early(known.FRAME, sentence.text):
            turn.frame = one
        turn.mine.append(one)
        self.statements.append(one)

    def _target(self, turn: _Turn, sentence: _Sentence) -> Statement | None:
        """The statement that this sentence answers, denies or corrects; None if it is a statement of its own."""
        said, text = turn.mine or (self._before.mine if self._before else []), sentence.text
        before = said[-1] if said else None
        if before is None or sentence.is_quoted or turn.speaker.role == Role.TOOL or before.text.startswith(QUOTED):
            return None
        length, size = count_words(text), len(sentence.words.content)
        replies = bool(not turn.mine and self._before and self._before.speaker != turn.speaker)
        if is_question(text):
            # One answer may answer both; "Did you take it?" is about what was said.
            is_about = replies and length <= BRIEF_WORDS and size <= 2 and not sentence.words.marked
            return before if is_about or (turn.mine and before.asks) else None
        if (limits := known.CONDITION.search(text, 0, OPENING)) and not read_words(text[: limits.start()]).content:
            return before
        if length > _LONG or early(known.FRAME, text):
            return None
        points = known.POINTER.match(text) is not None or known.PRONOUN.match(text) is not None
        turns = known.REVERSAL.search(text) or (length <= _SHORT and known.NEGATION.search(text))
        undoes = early(known.REVERSAL, text) or bool(points and turns)
        denies = early(known.NEGATION, known.IDLE.sub("-", text))
        is_brief = length <= BRIEF_WORDS and 0 < size <= _BRIEF
        answers = replies and ends_in_question(before.text)
        if turn.mine:
            # "He quit on day two."
            is_echo = (points or not sentence.words.marked) and not early(known.FIRST_PERSON, text)
            # "1. no", "2. yes"
            belongs = denies or undoes or (is_brief and (is_echo or before.speaker != turn.speaker))
        elif answers and (denies or undoes or size <= _BRIEF * (1 + bool(known.PRONOUN.search(text)))):
            belongs = True
        else:
            # Nobody can tell which comment changes what it is about.
            comments = self._comments(turn, text, is_brief) and (turn.is_short or is_brief or _limits(text))
            belongs = comments or denies or (undoes and size > 0) or (is_brief and points)
            if turn.speaker.is_person and not belongs:
                # "If Mum is still ill by then we postpone."
                belongs = bool(known.LIMIT.match(text.lstrip(".… "))) or (replies and decides(before.text, text))
        if belongs and turn.speaker.is_person and size >= 2 and not (undoes or points or answers) and demand_of(text):
            # Not even "Never …" denies the statement before it: it says what to do.
            return None
        return before if belongs else None

    def _acknowledges(self, text: str) -> bool:
        """Whether it says no more than that something was heard: "Noted, thank you."."""
        words = (match[0].lower() for match in _WORD.finditer(text))
        return all(word in known.ACKNOWLEDGEMENT or word in self._names for word in words) and not (
            any(map(str.isdigit, text)) or text.endswith(("?", "？")) or _limits(text)
        )

    def _comments(self, turn: _Turn, text: str, is_brief: bool) -> bool:
        """Whether it speaks of what a person said right before, or a model in one sentence."""
        before = self._before
        if before is None or (turn.has_heard and not turn.speaker.is_person):
            return False
        if before.speaker == turn.speaker:
            # Sent in pieces: "i sell the blue guitar", "for 900", "if nobody of us wants it".
            return before.number == turn.number - 1 and (is_brief or text[0].islower())
        return before.speaker.is_person or before.is_one_sentence


def read_prose(text: str) -> list[Statement]:
    """What a model wrote of earlier messages: nobody's speech, so nobody's rule."""
    parts = ((harmless(part.strip()), code) for line, code in split_sentences(text) for part in line.split(SEPARATOR))
    return [
        Statement("", Speaker(NOBODY), said, read_words(said), weight=CODE if is_code else 1.0)
        for said, is_code in parts
        if said
    ]


def speaker_of(role: str, name: str) -> Speaker:
    return Speaker(str(role), _NAME.sub(" ", name).strip()[:40].strip())


def _sentences_of(message: Message, speaker: Speaker, day: date | None) -> list[_Sentence]:
    if message.role == Role.TOOL:
        return _of_tool(message.content)
    resolves = day is not None and not NAMES_ANOTHER_DAY.search(message.content[:4_000])
    found: list[_Sentence] = []
    for piece, is_quoted in split_quoted(message.content):
        for raw, is_code in split_sentences(piece):
            text = harmless(raw)
            if not text:
                continue
            if day is not None and resolves and not is_code and not is_quoted:
                text = resolve_dates(text, day)
            words = read_words(text)
            weight = speaker.weight_of(text, words, is_code=is_code)
            found.append(_Sentence(text, words, weight, is_quoted or is_code))
    level_rows(found)
    for attachment in message.attachments:
        text = harmless(attachment_line(attachment))
        # Whoever named a file said nothing by it.
        found.append(_Sentence(text, read_words(text), 1.0, is_quoted=True))
    return found


def _of_tool(content: str) -> list[_Sentence]:
    lines = read_records(content) or [line for line, _ in split_sentences(shorten(content, _RESULT_BYTES))]
    told = [(text, read_words(text)) for text in map(harmless, lines) if text]
    found = [_Sentence(text, words, Speaker(Role.TOOL).weight_of(text, words)) for text, words in told]
    level_rows(found)
    return found


def _answers(speaker: Speaker, text: str, said: str) -> bool:
    """Whether "sure" answers a question, or a person's "agreed" a model's proposal."""
    return ends_in_question(said) or (speaker.is_person and decides(said, text))


def _limits(text: str) -> bool:
    return any(cue.search(text) for cue in (known.NEGATION, known.REVERSAL, known.LIMIT))

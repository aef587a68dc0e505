"""What was said and what takes it back are one: "pay 900", then "wait, no", are told together or not at all.

A message that begins with an answer is joined to what it answers: to the last question of the message before, or to
the last thing that was told. The joined words are one clause from then on, in the ledger of every later summary too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from compaction_app import facts
from compaction_app.cautions import is_reply, takes_back
from compaction_app.sayings import Saying
from compaction_app.values import Role

_PAUSES = (".", "!", "?", ":", ";", ",", "…", "。", "！", "？", "：", "；")
_ASSENT = re.compile(
    r"\A\W*(?:yes|yep|yeah|yup|sure|ok|okay|ja|jawohl|oui|sí|si|sì|sim|да|نعم|是|はい|네|doch|thanks?)\b", re.IGNORECASE
)
#: A model that says this speaks of what its person wanted, and so does the answer to it.
_OBJECTS = re.compile(
    r"\b(?:advise|recommend|sure|really|better not|instead|should(?:n['’]t| not)|would(?:n['’]t| not)|risky?|dangerous|"
    r"warn|careful|abraten|wirklich|vraiment|seguro|sicuro)\b",
    re.IGNORECASE,
)
_SPOKEN = re.compile(r" \((?:user|assistant)(?: [^:()\n]{1,64})?: .{1,400}\)(?: \(said [\d to-]+\))?\Z")
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])")
#: A reply of more words is told by its speaker too.
_SHORT_SPACES = 2
#: So many messages are looked back through for what is answered.
_LOOK_BACK = 4


def join_taken_back(messages: Iterable[Sequence[Saying]]) -> list[Saying]:
    """The sayings of all messages in order, each with what the next message, or the one after it, answers to it."""
    told: list[Saying] = []
    # Where in ``told`` the last messages with a word in them begin and end.
    before: list[tuple[int, int]] = []
    for sayings in messages:
        stays = list(sayings)
        if stays and before and _answers(stays[0]):
            targets = _answered(told, before, stays[0])
            for at in targets:
                told[at] = _joined(told[at], stays[0])
            if any(told[at].speaker == stays[0].speaker for at in targets) or (
                targets and stays[0].text.count(" ") <= _SHORT_SPACES
            ):
                stays = stays[1:]
        if any(saying.role != Role.TOOL for saying in stays):
            before = [*before[1 - _LOOK_BACK :], (len(told), len(told) + len(stays))]
        told += stays
    return told


def is_answered(text: str) -> bool:
    """Whether a clause is told with what was answered to it."""
    return text.endswith(")") and _SPOKEN.search(text) is not None


def is_taken_back(text: str) -> bool:
    """Whether a clause holds what takes it back."""
    return is_answered(text) or any(map(takes_back, _SENTENCE_END.split(text)[1:]))


def _answers(saying: Saying) -> bool:
    return saying.role in (Role.USER, Role.ASSISTANT) and (is_reply(saying.text) or takes_back(saying.text))


def _answered(told: Sequence[Saying], before: Sequence[tuple[int, int]], answer: Saying) -> list[int]:
    """The places of what it answers. A "yes" answers a question, or nothing that would be turned round."""
    start, end = before[-1]
    said = [at for at in range(start, end) if told[at].role in (Role.USER, Role.ASSISTANT)]
    asked = [at for at in said if told[at].text.endswith(facts.QUESTION_MARKS)]
    assents = _ASSENT.match(answer.text) is not None
    if asked and told[asked[-1]].speaker != answer.speaker:
        own = [] if assents else _own(told, before, answer)
        return [*[at for at in own if _shares(told[at].text, told[asked[-1]].text)], asked[-1]]
    if assents:
        return []
    telling = [at for at in said if _tells(told[at].text)]
    if telling and told[telling[-1]].speaker == answer.speaker:
        return telling[-1:]
    own = _own(told, before, answer)
    if telling and not any(_OBJECTS.search(told[at].text) for at in said):
        return telling[-1:]
    return [*own, *telling[-1:]]


def _own(told: Sequence[Saying], before: Sequence[tuple[int, int]], answer: Saying) -> list[int]:
    """The last thing that the same speaker told before the message that is answered."""
    for start, end in reversed(before[:-1]):
        said = [at for at in range(start, end) if told[at].speaker == answer.speaker and _tells(told[at].text)]
        if said:
            return [at for at in said[-1:] if not told[at].text.endswith(facts.QUESTION_MARKS)]
    return []


def _tells(text: str) -> bool:
    """Whether it holds a name, a figure or an identifier, beside the capital that it begins with."""
    if facts.is_unspaced(text) or facts.find_cues(text):
        return True
    first, *others = text.split() or [""]
    return facts.has_digit(first) or any(facts.weigh(word).weight >= 1 for word in others)


def _shares(text: str, question: str) -> bool:
    words = [word.norm for word in map(facts.weigh, question.split()) if word.weight >= 1]
    return any(facts.weigh(word).norm in words for word in text.split())


def _joined(saying: Saying, answer: Saying) -> Saying:
    if saying.speaker == answer.speaker:
        pause = "。" if facts.is_unspaced(saying.text) else ". "
        pause = " " if saying.text.endswith(_PAUSES) else pause
        return saying._replace(text=f"{saying.text}{pause}{answer.text}")
    return saying._replace(text=f"{saying.text} ({answer.speaker}: {answer.text})")

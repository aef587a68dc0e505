"""What was said and what takes it back are one: "pay 900", then "wait, no", are told together or not at all.

A message that begins with an answer is joined to what it answers: to the last question of the message before, or to
the last thing that was told. The joined words are one clause from then on, in the ledger of every later summary too.

So are what a model proposes and the "fine by me" of the person who reads it: together they are a decision.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from compaction_app.retention import facts
from compaction_app.retention.cautions import is_cautioned, is_reply, takes_back
from compaction_app.retention.sayings import Saying
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
#: What a model would do, and only a "yes" is missing; some ask for that at the end. Searched in lower case.
_TAG = (
    r"(?:agreed|ok|okay|fine|deal|all right|alright|right|sounds? good|good|does that work|is that (?:ok|okay|fine)|"
    r"einverstanden|in ordnung|d['’]accord|ça va|de acuerdo|vale|d['’]accordo|va bene|akkoord|согласны?)\?"
)
_IS_TAG = re.compile(rf"\W*{_TAG}\Z")
_PROPOSES = re.compile(
    rf"[.!;,]? {_TAG}\Z|"
    r"\b(?:my|our) (?:proposal|suggestion|recommendation|advice)\b|\b(?:proposal|suggestion|recommendation): "
    r"|\bi(?:['’]d| would) (?!(?:not |never |also |just |only )?(?:know|say|like|love|be|have|need|think|guess|expect|"
    r"assume|imagine|hope|rather|want|bet|ask)\b)\w+"
    r"|\b(?:i|we) (?:suggest|propose|recommend)\b|\blet['’]s\b|\b(?:shall|should|could) we\b|\bwe (?:could|should)\b"
    r"|\bhow about\b|\bwhat about\b|\bwhy not\b"
    r"|\b(?:mein vorschlag|ich würde|ich empfehle|ich schlage|lass uns|sollen wir|wollen wir|ma proposition|je propose|"
    r"je suggère|je recommande|mi propuesta|propongo|sugiero|recomiendo|minha proposta|proponho|sugiro|recomendo|"
    r"la mia proposta|suggerisco|consiglio|mijn voorstel|ik stel voor|ik zou|laten we|предлагаю|советую|давай|"
    r"давайте)\b"
    r"|أقترح|建议|建議|提案|しましょう|제안"
)
#: Such a plain "yes" answers a question before it is taken for more. Matched in lower case.
_YES = (
    r"(?:yes|yep|yeah|yup|ja|oui|sí|sì|sim|да)"
    r"(?=\W*\Z|[.!]|,? (?:please|do|go|let|to|both|all|exactly|agreed|perfect|fine|good|sounds|use|take|bitte|gern))"
)
_AGREES = (
    r"(?:both|all(?: \w+)?|yes to (?:both|all))(?: of (?:them|those))?,? (?:yes|fine|good|agreed|accepted|ok|okay)\b"
    r"|yes to (?:both|all)\b|(?:i )?agreed?\b(?! to disagree)|accepted\b|approved\b|deal\b(?=\W*\Z|[.,!])"
    r"|(?:i['’]m |that['’]s |it['’]s )?(?:fine|ok|okay|good|all right|alright) (?:by|with|for) (?:me|us|that|it|both)\b"
    r"|fine(?=\W*\Z|[.,!])|(?:that |this |it )?(?:works|sounds|looks) (?:good|great|right|fine|for me|for us)\b"
    r"|that works\b"
    r"|go (?:ahead|for it|with (?:that|it))\b|(?:please )?do (?:that|it|so|both)\b|let['’]s do (?:that|it|so|both)\b"
    r"|(?:good|great|excellent) (?:idea|plan|thinking)\b|as you (?:propose|suggest|say)\b|make it so\b"
    r"|happy with that\b"
    r"|(?!(?:what|that|how|who|where|when|why|like|if|so|as)\b)[\w'’-]{2,} it is(?=\W*\Z|[.,!;])"
    r"|(?:einverstanden|passt|klingt gut|mach das|machen wir|gute idee|so machen wir|in ordnung|abgemacht|d['’]accord|"
    r"ça marche|ça me va|vas-y|allez-y|bonne idée|de acuerdo|me parece bien|adelante|buena idea|hazlo|de acordo|"
    r"combinado|pode ser|boa ideia|va bene|procedi|buona idea|akkoord|goed idee|doe maar|afgesproken|согласен|согласна|"
    r"договорились)\b|موافق|同意|就这样|賛成|それでお願い|동의|좋아요"
)
_ASIDE = (
    r"(?:(?:ok|okay|oh|ah|hm+|well|great|nice|cool|right|perfect|yes|yep|yeah|thanks|ja|oui|sí|sì|sim|да)\b[\s,.!-]*)"
)
_SAYS_YES = re.compile(rf"\W*{_ASIDE}{{0,2}}{_YES}")
_ACCEPTS = re.compile(rf"\W*{_ASIDE}{{0,2}}(?:{_AGREES})")
#: What is longer is an explanation; so many proposals of one message are taken for accepted.
_PROPOSAL_CHARS, _PROPOSALS = 320, 3
#: The shortest word by which a proposal is known again.
_SUBJECT_CHARS = 4
_SPOKEN = re.compile(r" \((?P<by>user|assistant)(?: [^:()\n]{1,64})?: (?P<answer>.{1,400})\)(?: \(said [\d to-]+\))?\Z")
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])")
#: A reply of more words is told by its speaker too.
_SHORT_SPACES = 2
#: So many messages are looked back through for what is answered.
_LOOK_BACK = 4


def join_taken_back(messages: Iterable[Sequence[Saying]], staying: Sequence[Saying] = ()) -> list[Saying]:
    """The sayings of all messages in order, each with what the next message, or the one after it, answers to it.

    ``staying`` is the message after them, which is told elsewhere: only its acceptance is taken from it.
    """
    told: list[Saying] = []
    # Where in ``told`` the last messages with a word in them begin and end.
    before: list[tuple[int, int]] = []
    for sayings in messages:
        # A model that writes "(user: agreed)" behind its own words speaks for nobody else.
        stays = [saying for saying in sayings if saying.role == Role.USER or not is_answered(saying.text)]
        if stays and before:
            before = _with_tag(told, before, stays[0])
            targets = _answered(told, before, stays[0]) if _answers(stays[0]) else []
            targets = targets or _accepted(told, before[-1], stays)
            for at in targets:
                told[at] = _joined(told[at], stays[0])
            if any(told[at].speaker == stays[0].speaker for at in targets) or (
                targets and stays[0].text.count(" ") <= _SHORT_SPACES
            ):
                stays = stays[1:]
        if any(saying.role != Role.TOOL for saying in stays):
            before = [*before[1 - _LOOK_BACK :], (len(told), len(told) + len(stays))]
        told += stays
    if staying and before:
        before = _with_tag(told, before, staying[0])
        for at in _accepted(told, before[-1], staying):
            told[at] = _joined(told[at], staying[0])
    return told


def is_answered(text: str) -> bool:
    """Whether a clause is told with what was answered to it."""
    return text.endswith(")") and _SPOKEN.search(text) is not None


def is_accepted(text: str) -> bool:
    """Whether a clause holds what a model proposed, and that a person wants it so."""
    found = _SPOKEN.search(text) if text.endswith(")") else None
    if found is None or found["by"] != Role.USER:
        return False
    return _accepts(found["answer"]) and _PROPOSES.search(text[: found.start()].lower()) is not None


def is_taken_back(text: str) -> bool:
    """Whether a clause holds what takes it back."""
    return is_answered(text) or any(map(takes_back, _SENTENCE_END.split(text)[1:]))


def _with_tag(told: list[Saying], before: list[tuple[int, int]], answer: Saying) -> list[tuple[int, int]]:
    """ "Agreed?" at the end of what a model said asks for what stands before it, and is told with that."""
    start, end = before[-1]
    if not _accepts(answer.text) and not is_reply(answer.text):
        return before
    if answer.role != Role.USER or end - start < 2 or end != len(told) or told[-1].role != Role.ASSISTANT:
        return before
    asked, proposed = told[-1], told[-2]
    is_open = proposed.role == Role.ASSISTANT and not is_answered(proposed.text)
    if not is_open or len(proposed.text) > _PROPOSAL_CHARS or _IS_TAG.match(asked.text.lower()) is None:
        return before
    told[-2:] = [_joined(proposed, asked)]
    return [*before[:-1], (start, end - 1)]


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


def _accepted(told: Sequence[Saying], before: tuple[int, int], answer: Sequence[Saying]) -> list[int]:
    """The places of what the model proposed in the message before, if the person who answers begins with accepting
    it and takes none of that back. A plain "yes" after a question answers that."""
    if answer[0].role != Role.USER or not _accepts(answer[0].text):
        return []
    if len(answer) > 1 and (takes_back(answer[1].text) or is_reply(answer[1].text)):
        return []
    said = [at for at in range(*before) if told[at].role == Role.ASSISTANT]
    asks = any(told[at].text.endswith(facts.QUESTION_MARKS) and not _proposes(told[at].text) for at in said)
    if asks and _ACCEPTS.match(answer[0].text.lower()) is None:
        return []
    proposed = [at for at in said if _proposes(told[at].text)][-_PROPOSALS:]
    named = _plain_words(answer[0].text)
    return [at for at in proposed if any(word in named for word in _plain_words(told[at].text))] or proposed


def _plain_words(text: str) -> list[str]:
    """The words that say what it is about: "agree on the archive" accepts nothing else."""
    words = map(facts.weigh, text.split())
    return [word.norm for word in words if word.strength >= facts.CONTENT and len(word.norm) >= _SUBJECT_CHARS]


def _accepts(text: str) -> bool:
    """Whether it begins with accepting something, and nothing in it limits or doubts that."""
    lower = text.lower()
    begins = _ACCEPTS.match(lower) or _SAYS_YES.match(lower)
    return begins is not None and not text.endswith(facts.QUESTION_MARKS) and not is_cautioned(text)


def _proposes(text: str) -> bool:
    return len(text) <= _PROPOSAL_CHARS and not is_answered(text) and _PROPOSES.search(text.lower()) is not None


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

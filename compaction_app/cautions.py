"""Which sentences may not be told in part: those in which something is denied, limited, doubted or taken back.

:mod:`meaning` knows the words that turn a clause round. Here are those besides it that make one part of a sentence
depend on another: a contrast ("but"), a limit in time ("until"), a condition, an attitude ("Jonas thinks …"), a
correction. A text with any of them is told whole or left out, and a sentence that begins with taking back what was
said ("No, never do that") belongs to the one before it. A word too many here costs room; one too few costs truth.
"""

from __future__ import annotations

import re
from functools import lru_cache

from compaction_app import facts, meaning

_CAUTIONS = frozenset(
    # English; "t" is what is left of "isn't", "n" and "jusqu" of French elisions
    "t but however although though whereas yet until till unless except excluding besides otherwise else only hold "
    "wait almost nearly merely nor or whether suppose supposed supposedly assume assumed assumes assuming provided "
    "providing think thinks thought believe believes believed claim claims claimed doubt doubts doubted guess pretend "
    "pretends pretended allege alleged allegedly rumour rumours rumor rumors wish wishes wished imagine dream dreamt "
    "dreamed suspect suspects suspected reportedly apparently seem seems seemed maybe perhaps probably possibly might "
    "would could instead rather anymore unlike despite against undo undone revert reverted reverse reversed retract "
    "retracted withdraw withdrawn withdrew forget forgot kidding joking lied lies lying outdated obsolete void expired "
    "tentatively provisionally "
    # German
    "aber sondern doch jedoch obwohl obgleich trotzdem bis außer sofern solange sonst ansonsten oder kaum keinesfalls "
    "keineswegs fast beinahe angeblich glaubt glaube glauben meint denkt denke behauptet würde würden hätte hätten "
    "könnte könnten ob statt anstatt niemand nirgends nirgendwo weder nichts nein zwar allerdings vermutlich falls "
    # French
    "n ne jusqu mais cependant pourtant toutefois quoique sauf hormis sinon autrement presque aucun aucune rien guère "
    "croit pense prétend aurait serait devrait pourrait ou "
    # Spanish, Portuguese, Italian
    "pero sino aunque embargo hasta salvo excepto menos casi apenas cree piensa habría sería podría tampoco nada nadie "
    "ningún ninguna ninguno o mas porém embora contudo até exceto quase acha acredita nenhum nenhuma ninguém seria "
    "poderia ma però tuttavia benché sebbene fino finché eccetto quasi crede pensa sarebbe potrebbe nessuno nessuna "
    "niente nulla né "
    # Dutch
    "maar echter hoewel tenzij tot totdat anders bijna nauwelijks behalve zou zouden denkt gelooft niemand niets "
    "nergens noch als indien mits "
    # Russian
    "но а однако хотя пока до иначе почти вряд едва думает считает якобы бы ли или либо никто ничего никак отнюдь "
    # Arabic
    "لكن ولكن لكنه لكنها حتى سوى غير ربما قد لو إذا ليست لست أو".split()
)
_PHRASES = re.compile(
    r"\b(?:used to|going to|should have|as if|as though|in case|as long as|apart from|other than|save for|never mind|"
    r"any more|no sooner|calls? off|called off|holds? off|held off|holds? back|"
    r"es sei denn|bien que|à moins|a menos|sin embargo|a meno che)\b"
)
_SIGNS = re.compile(
    r"但|可是|不过|不過|然而|除非|除了|直到|以前|之前|否则|否則|如果|要是|仅|僅|只|几乎|幾乎|可能|也许|也許|以为|以為|"
    r"けど|しかし|でも|まで|以外|もし|たら|かも|だけ|하지만|그러나|지만|까지|만약|제외|아마"
)
_WORD = re.compile(r"[^\W\d_]+")

_NO = r"no|nope|nah|nein|nee|non|não|nao|нет|nej|nei|لا|不|いいえ|아니요|아니오"
_YES = r"yes|yep|yeah|yup|sure|ja|jawohl|oui|sí|si|sì|sim|да|نعم|是|はい|네|doch"
_END = r"(?:\Z|\s*[,.!?;:，。！、…—–-])"
_REPLY = re.compile(rf"\A\W*(?:{_NO}|{_YES}|ok|okay)(?:{_END}|\s+(?:thanks|thank|please|danke|merci)\b)")
_BACK = re.compile(
    rf"\A\W*(?:(?:{_NO}|{_YES}|stop){_END}"
    r"|(?:wait|scratch that|never ?mind|on second thoughts?|cancel that|forget (?:it|that)|undo that|correction|"
    r"or rather|instead|otherwise|or else|or|except|unless|only (?:if|after|when|with|before)|but|however|though|"
    r"although|yet|whereas|never (?:that|this|again|so|do (?:that|this|it|so))|"
    r"aber|sondern|jedoch|allerdings|außer|es sei denn|sonst|mais|sauf|cependant|pero|salvo|excepto|ma|però|tranne|"
    r"mas|porém|exceto|maar|echter|behalve|tenzij|но|однако|кроме|иначе|لكن|ولكن|إلا)\b"
    r"|但|可是|不过|不過|除非|しかし|でも|하지만|그러나)"
)
#: "Not before Lena signs" says what was said before; "Never book a layover in Frankfurt again" stands by itself.
_FRAGMENT_WORDS = 5
_NOT = re.compile(r"\A\W*(?:not|nicht|pas|niet|не)\b")
_OPENING_CHARS = 80


def is_cautioned(text: str) -> bool:
    """Whether a part of ``text`` told without the rest could say what nobody said."""
    lower = text.lower()
    if any(map(_is_caution, _WORD.findall(lower))) or _PHRASES.search(lower):
        return True
    return not text.isascii() and (_SIGNS.search(text) is not None or meaning.turns_round(text, ()))


@lru_cache(maxsize=1 << 15)
def _is_caution(word: str) -> bool:
    return word in _CAUTIONS or facts.is_negation(word) or facts.is_reversal(word)


def takes_back(sentence: str) -> bool:
    """Whether it begins with denying, limiting or answering the sentence before it."""
    opening = sentence[:_OPENING_CHARS].lower()
    if _BACK.match(opening):
        return True
    return _NOT.match(opening) is not None and len(sentence.split()) <= _FRAGMENT_WORDS


def is_reply(clause: str) -> bool:
    """ "No", "yes, do that": says nothing, or something else, without what it replies to."""
    return _REPLY.match(clause[:_OPENING_CHARS].lower()) is not None

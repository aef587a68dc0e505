"""What lifts, cancels or brings back what was said before: "you may email Bob again" after "never email Bob".

It may be told alone, what it lifts may not: whoever reads the old rule alone keeps to it. Which of the older clauses
is meant is told by the words that they share, so nothing is let go for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise

from compaction_app.retention import facts
from compaction_app.retention.superseded import may_replace


class Lift(StrEnum):
    """What a statement does to an older one."""

    #: "You may …": lifts what forbids or limits.
    PERMISSION = "permission"
    #: "… is off": lifts anything.
    CANCELLATION = "cancellation"
    #: "We went back to …": lifts what stands in its place.
    RETURN = "return"


_PERMISSION = re.compile(
    r"\b(?:may|can|could|allowed to|free to|welcome to|(?:ok|okay|fine|alright|all right) (?:to|again|now|for)|"
    r"allowed again|"
    r"permitted|no longer (?:forbidden|necessary|needed)|need not|needn['’]t|don['’]t (?:have|need) to|"
    r"darfst|dürft|dürfen|darf|kannst|peux|pouvez|peut|puedes|puede|pueden|puoi|può|potete|podes|pode|mag je|mag|"
    r"можешь|можно|можете)\b|可以|يمكنك|يجوز|てもいい|ても良い|해도 (?:돼|된|좋)"
)
_CANCELLATION = re.compile(
    r"\b(?:cancel(?:s|led|ed)?|call(?:ed)? (?:it |that )?off|(?:is|are|was|were|['’]s) off\b|scrap(?:ped)?|"
    r"abandon(?:ed)?|"
    r"revoked?|withdraw[sn]?|withdrew|void|terminated?|no longer (?:valid|holds?|applies|needed|the case)|"
    r"(?:doesn['’]t|does not|don['’]t|do not) (?:hold|apply|count) (?:any ?more|any longer|now)|lift(?:ed)?|"
    r"drop(?:ped)? (?:the|that|this|it)|forget (?:about )?(?:the|that|about)|stop(?:ped)? \w+ing|undo|undone|"
    r"deleted?|removed?|sold|fired|resigned|returned|not happening|"
    r"abgesagt|storniert|storniere|aufgehoben|gekündigt|fällt aus|gilt nicht mehr|annulée?s?|annuler?|résilié|"
    r"n['’]a plus lieu|"
    r"cancelad[oa]s?|cancela|anulad[oa]|annullat[oa]|annulla|disdetto|cancelar|geannuleerd|opgezegd|"
    r"отмен[её]н[ао]?|отмени(?:ть)?|отменяется)\b|取消|作废|作廢|キャンセル|中止|취소|ألغ[يى]?|إلغاء|ملغ"
)
_RETURN = re.compile(
    r"\b(?:back (?:to|on|in|with)|again|after all|once more|restored?|revert(?:ed)?|reinstated?|the old one|as before|"
    r"wieder|zurück|doch|de nouveau|à nouveau|revenons|revenus?|de nuevo|otra vez|volvemos|volvimos|vuelve|di nuovo|"
    r"torniamo|"
    r"de novo|voltamos|weer|terug|снова|опять|вернулись)\b|又|恢复|恢復|回到|戻|再び|다시|مجددا|مرة أخرى"
)
#: What forbids, limits or commands.
_RULED = re.compile(
    r"\b(?:must|only|always|no|forbidden|prohibited|off[- ]limits|hands off|stop|avoid|immer|muss|müssen|verboten|nur|"
    r"toujours|interdit|doit|siempre|prohibido|debe|sempre|vietato|deve|proibido|altijd|moet|verboden|всегда|нельзя)\b"
    r"|禁止|不要|不能|不许|必须|只能|ないで|禁|必ず|금지|마세요|반드시|ممنوع|يجب|لا "
)
#: So many plain words must be the same where no name, figure or identifier is.
_SHARED = 2
_SHORTEST = 3
#: Older clauses looked back at for each word.
_LOOK_BACK = 32


def read_lift(text: str) -> Lift | None:
    """What a text that states something does to what was said before it."""
    if text.endswith(facts.QUESTION_MARKS) or text.startswith("[") or len(text) > 240:
        return None
    lower = text.lower()
    if _CANCELLATION.search(lower):
        return Lift.CANCELLATION
    if _RETURN.search(lower):
        return Lift.RETURN
    return Lift.PERMISSION if _PERMISSION.search(lower) else None


def find_lifted(texts: Sequence[str], speakers: Sequence[str], replaced: Mapping[int, int]) -> dict[int, list[int]]:
    """For the place of a text, the later ones that lift it, and the older one that came back in its place.

    ``replaced`` maps a text to what replaced it.
    """
    by_word: dict[str, list[int]] = {}
    lifted: dict[int, dict[int, None]] = {}
    for i, text in enumerate(texts):
        words = _words(text)
        if (lift := read_lift(text)) is not None:
            for j in _meant(lift, words, by_word, texts, replaced):
                at = _last(replaced, j)
                # What came back stands in the end; what was put in its place is what is lifted.
                if at < i and may_replace(speakers[i], speakers[j]):
                    lifted.setdefault(at, {}).update({j: None, i: None} if at != j else {i: None})
        for word in words:
            by_word.setdefault(word, []).append(i)
    return {at: sorted(found) for at, found in sorted(lifted.items())}


def _meant(
    lift: Lift,
    words: Mapping[str, bool],
    by_word: Mapping[str, list[int]],
    texts: Sequence[str],
    replaced: Mapping[int, int],
) -> list[int]:
    """The older texts that share enough of the telling words."""
    shared: dict[int, int] = {}
    for word, tells in words.items():
        for j in by_word.get(word, ())[-_LOOK_BACK:]:
            shared[j] = shared.get(j, 0) + (_SHARED if tells else 1)
    plain = sum(1 for tells in words.values() if not tells)
    enough = min(_SHARED, plain) if not any(words.values()) else _SHARED
    meant = [j for j, times in sorted(shared.items()) if times >= max(enough, 1)]
    return [j for j in meant if _may_be_lifted(lift, texts[j], is_replaced=j in replaced)]


def _may_be_lifted(lift: Lift, text: str, *, is_replaced: bool) -> bool:
    if text.endswith(facts.QUESTION_MARKS):
        return False
    if lift is Lift.CANCELLATION:
        return True
    lower = text.lower()
    if _RULED.search(lower) or any(facts.is_negation(facts.weigh(word).norm) for word in lower.split()):
        return True
    return is_replaced and lift is Lift.RETURN


def _words(text: str) -> dict[str, bool]:
    """The words by which a subject is known again, and whether each tells it alone: a name, a figure."""
    found: dict[str, bool] = {}
    for number, token in enumerate(text.split()):
        if facts.is_unspaced(token):
            signs = [sign for sign in token if sign.isalnum()]
            found.update({"".join(pair): False for pair in pairwise(signs)})
            continue
        word = facts.weigh(token)
        if facts.is_negation(word.norm) or _is_cue(word.norm) or len(word.norm) < _SHORTEST:
            continue
        if word.strength >= facts.TELLING and (number or facts.has_digit(token)):
            found[_stem(word.norm)] = True
        elif word.strength >= facts.CONTENT:
            found[_stem(word.norm)] = False
    return found


def _stem(norm: str) -> str:
    """One Friday is known again among Fridays."""
    return norm[:-1] if norm.endswith("s") and norm.isalpha() and len(norm) > _SHORTEST + 1 else norm


@lru_cache(maxsize=1 << 14)
def _is_cue(norm: str) -> bool:
    return any(pattern.fullmatch(norm) for pattern in (_PERMISSION, _CANCELLATION, _RETURN, _RULED))


def _last(replaced: Mapping[int, int], i: int) -> int:
    while i in replaced:
        i = replaced[i]
    return i

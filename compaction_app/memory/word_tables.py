"""The words that the engine knows: closed classes, a line a family of languages. Every other word is only compared.

In a table ``*`` ends a stem and ``_`` stands for a space. Scripts without spaces have signs for words.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache, reduce
from itertools import count, groupby
from operator import itemgetter, or_
from types import MappingProxyType

#: From Thai on, scripts have no spaces.
_UNSPACED = "\u0e00"

#: Words that tell nothing by themselves.
STOP = frozenset(
    """a an the of to in on at and or is was were are be been being am it its i me my mine you your yours he him his
    she her hers they them their theirs we us our ours this that these those as from by for with about into out up
    down over under again but if then than too very just so do does did done doing have has had having will would
    shall can could should may might not no yes what which who whom whose when where why how there here all any
    some more most much many also really get got getting go going gone went come came make made take took thing
    things something anything everything know think see seen look looks looking feel feels hear heard sound sounds
    say said tell told talk like let lets one hey hi hello yeah wow oh ah hm hmm ok okay sure thanks thank please sorry
    well great good nice awesome amazing cool glad happy love bye definitely totally super pretty quite even still
    ever always never now s t re ve ll d m don didn isn won doesn couldn wasn aren haven der die das ein eine
    einen einem einer und oder ist war sind ich du er sie es wir ihr mir mich dich sich den dem des im auf für mit
    von zu zum zur bei nicht noch schon auch aber wie dass habe haben hat wird werden kann le la les un une et ou
    est sont je tu il elle nous vous ils de au aux en dans pour avec que qui ne pas ce cette sur el los las una y
    o son yo él ella se lo con por para del al gli che di da per è sono não um uma os na em com и в на не что я ты
    он она мы вы они это как с по у за к из 知道 觉得 认为 没有 可以 可能 应该 什么 怎么 时候
    因为 所以 如果 还是 一个 一些 一下 真的 确实 非常 比较 不错 当然""".split()
)


class Cues:
    """A pattern that is tried only where the text has a word without which nothing matches it."""

    def __init__(self, pattern: str, words: Iterable[str]) -> None:
        """``words``: each match has one of them, as in a table, and whole."""
        self.pattern, self._bit = re.compile(pattern, re.IGNORECASE), next(_BITS)
        for one in words:
            # Of several words the one that fewest texts have.
            word = max(re.findall(r"[^\W_]+\*?", one), key=lambda each: (each not in STOP, len(each)), default=one)
            table = _SIGNS if one >= _UNSPACED else _STEMS if word[1:].endswith("*") else _WORDS
            table[_folded(word[:1] + word[1:].rstrip("*"))] |= self._bit

    def search(self, text: str, among: int | None = None) -> re.Match[str] | None:
        """``among``: the bits of the text's words (:func:`cues_of`), where they are known already."""
        return self.pattern.search(text) if (_cues_in(text) if among is None else among) & self._bit else None

    def match(self, text: str, among: int) -> re.Match[str] | None:
        return self.pattern.match(text) if among & self._bit else None

    def sub(self, by: str, text: str, among: int | None = None) -> str:
        return self.pattern.sub(by, text) if (_cues_in(text) if among is None else among) & self._bit else text


#: The bits of those that may match where a text has this word, a longer one, or this sign.
_WORDS, _STEMS, _SIGNS = defaultdict[str, int](int), defaultdict[str, int](int), defaultdict[str, int](int)
_BITS = (1 << number for number in count())
#: A word, and an asterisk where a text begins.
_RUN = re.compile(r"\w+|^\*")


@lru_cache(maxsize=5_000)
def _cues_in(text: str) -> int:
    return reduce(or_, map(cues_of, _RUN.findall(text)), 0)


@lru_cache(maxsize=20_000)
def cues_of(word: str) -> int:
    """A bit for each :class:`Cues` that may match where this word stands."""
    word = _folded(word)
    # No stem is longer, and a word may have any length.
    found = [_STEMS.get(word[:end], 0) for end in range(2, min(len(word), 16) + 1)]
    found += [] if word.isascii() else [bit for sign, bit in _SIGNS.items() if sign in word]
    return reduce(or_, found, _WORDS.get(word, 0))


def _folded(word: str) -> str:
    """Equal for all that a pattern which ignores case takes for equal."""
    return word.casefold().replace("ı", "i").replace("\u0307", "")


def compiled(listed: str, patterns: Mapping[str, str] = MappingProxyType({})) -> Cues:
    """Whole words of a list, signs wherever they stand, and patterns, each by the words of which a match has one."""
    told = [re.escape(one).replace(r"\*", r"\w*").replace("_", r"\s").replace("'", "['’]") for one in listed.split()]
    signs = [one for one in told if one >= _UNSPACED]
    # By their first letters: of a long list each word would be tried at each place.
    words = groupby(sorted({*told} - {*signs}), itemgetter(0))
    branches = "|".join(f"{first}(?:{'|'.join(one[1:] for one in same)})" for first, same in words)
    spaced = [rf"\b(?:{branches})(?!\w)"] if branches else []
    return Cues("|".join([*spaced, *signs, *patterns.values()]), " ".join([listed, *patterns]).split())


#: Denies or limits.
NEGATION = compiled(
    """no not never nope nah none nor cannot dont without except unless neither nobody nothing nein nicht kein* nie
    niemals außer bevor nee niet geen nooit non ne pas jamais sans aucun* sauf ni nunca sin ningún* excepto senza
    mai não sem nenhum* нет не никогда без кроме bez není inte ikke aldrig ei değil hayır yok لا لم لن ليس نه नहीं मत
    不 没 沒 别 勿 無 无 未 ない ません なし いえ いいえ 아니 않 없 못 ไม่ อย่า""",
    {"t": r"\b[a-z]+n['’]t\b"},
)
#: Takes something back or replaces it.
REVERSAL = compiled(
    """cancel* stop hold_on scratch scrap i_object nonsense kidding joking jk wrong mistake* mistaken* mixed incorrect*
    correction actually instead anymore any_more no_longer called_off is_off are_off forget_it forget_that apolog*
    my_bad never_mind nevermind revoke* withdr* reject* declin* refus* postpone* moved changed_to changed_my reverted
    undo ignore_that disregard refund* overrul* overturn* lapse* expired fell_through sold_out ran_out too_soon
    sent_back sorry, wait, oops swap* switch* skip leave_out left_out leave_it drop_it rather replace* dropped halt
    warte abgesagt fällt_aus entfällt ausgefallen storniert* verlegt Planänderung doch_nicht verschoben falsch
    stimmt_nicht statt* quatsch afgelast toch_niet annul* plutôt finalement faux reporté* décalé* cancelad* suspendid*
    aplazad* equivocad* mejor_no en_vez annullat* sbagliat* errad* отмен* ошиб* неверно вместо перенес* iptal ertelen*
    取消 改成 改到 改为 错了 錯了 作废 改期 推迟 不对 等等 キャンセル 間違 中止 延期 退了 取り消 待って 취소 잘못""",
    {"*": r"^\*(?=\w)"},
)
#: A standing rule, wish or decision, where a person says so.
RULE = compiled(
    """prefer* favour* favor* would_rather i'd_rather we'd_rather i'd_like we'd_like can't_stand fond_of hate hates
    likes decided agreed settled chose chosen picked opted voted go_with going_with went_with stay_with stick_with
    go_for it_is_then let's we'll from_now_on in_the_end should shall needs want insist adore* lean leaning dislike*
    suits ought_to lieber sollte* soll sollen entschieden vereinbart préfèr* décidé prefier* decidi* preferisc* deciso
    prefiro voorkeur besloten предпочита* решил* 决定 更喜欢 总是 希望 いつも てください 決め 항상 주세요""",
    {
        "be use keep report ask avoid make leave write give send call check speak reply answer each every all any*": (
            r"(?:^|[;:] |, so )(?:please,? )?(?:be|use|keep|report|ask|avoid|make sure|leave|write|give|send|call|"
            r"check|speak|reply|answer|each|every|all|any\w*) \w"
        )
    },
)
#: Of these, those that forbid or demand: they come before everything else.
FIRM = compiled(
    """must mustn't shouldn't should_not may_not shall_not not_to supposed_to not_allowed forbid* prohibit* banned
    hands_off off-limits off_limits no_exception* strictly mandatory require requires required deadline at_most
    at_least at_the_latest no_more no_later confidential allerg* intoleran* vegan vegetarian diabet* asthma* refuse
    insist ensure remember_to don't_forget make_sure niemals nie darf* dürfen muss müssen keinesfalls auf_keinen_Fall
    verboten spätestens höchstens mindestens immer jamais interdit* il_faut doit doivent toujours nunca prohibid*
    debe* hay_que siempre mai deve* vietat* sempre nooit moet verboden нельзя никогда должен запрещ* всегда 必须 必須
    绝对 不能 禁止 不许 不要 不得 必ず 決して てはいけ 반드시 절대 안_돼 마세요""",
    {
        # Not of what was or is: "he always came".
        "never always": (
            r"(?<!have )(?<!has )(?<!had )(?<!['’]ve )\b(?:never|always)\b"
            r"(?! (?:been|mind|said|had|was|were|is|are|\w+ed)\b)"
        ),
        # What begins a sentence or a part of one: "…, so nobody opens it", "no visitors before noon".
        "do don nobody no nothing only": (
            r"(?:^|[,;:.!–—] |\b(?:please|and|but|so) )(?:do not|don['’]t|nobody|no one|nothing|only|no \w+ \w+)\b"
            r"(?! (?:else|knows?|knew|said|saw|went|came|got|took|did|has|have|had|was|were|\w+ed)\b)"
        ),
        "before until till unless without": (
            r"(?:\b(?:no|not|never|nobody|nothing)|n['’]t) .{1,40}\b(?:before|until|till|unless|without)\b"
        ),
        "can cant cannot": (r"(?<!\bi )(?<!\bhe )(?<!\bshe )(?<!\bit )(?<!\bthey )\b(?:can['’]?t|cannot)\b"),
    },
)
#: What only looks like a rule: idioms, and comments of a model or a tool.
IDLE = Cues(
    r"\((?:assistant|tool|summary)\b[^()]*\)|\b(?:you )?must (?:have|feel|say|admit|be)\b"
    r"|\bcan['’]?t (?:believe|think|be (?:right|true|serious)|have(?=[,.]| \w+ed))\b"
    r"|\b(?:can['’]?t|don['’]t|do not|never) (?:wait|imagine|complain|say|help|tell|remember|worry|mention|know|mind|"
    r"have to|need to)\b",
    "assistant tool summary must can cant don do never".split(),
)
#: Limits what it stands beside or, at its beginning, the sentence before; above a list: its items hold together.
LIMIT = compiled(
    """only if unless except provided assuming as_long_as so_long_as as_soon_as in_case in_the_event on_condition
    conditional* depend* pending subject_to though otherwise barring other_than apart_from all_but anybody_but
    anyone_but anything_but all_of both nur wenn falls außer es_sei_denn seulement si sauf à_moins solo sólo se salvo
    tranne tenzij только если кроме 只有 如果 除非 ただし のみ 만"""
)
#: Begins a sentence about somebody, or something, of the one before.
PRONOUN = compiled(
    """he she it they his her their this these those er sie es ihr* dies* il elle ils elles cela él ella ellos esto
    eso lui lei loro ele ela eles он она оно они его её это 他 她 它 这 那 彼 それ これ 그는 그녀 그것"""
)
#: Begins a sentence that speaks of the one before, as a pronoun does.
POINTER = compiled(
    "that but and or so because then though however also only hm hmm well rather das aber und ça mais et pero y ma e но"
)
#: What people say of themselves and their own.
FIRST_PERSON = compiled(
    """i my me we us our ich mein* wir unser* ik mijn wij onze je mon mes ma nous notre nos yo mi mis nuestr* eu meu
    minha nós io mio mia noi nostro я мой моя мы наш* 我 私 僕 나는 우리 저는""",
    {"j": r"\bj['’]"},
)
#: A day that is named from the day of its message.
DAY = compiled(
    """yesterday today tonight tomorrow last_night gestern vorgestern heute übermorgen avant-hier aujourd'hui demain
    ayer anteayer hoy ontem hoje amanhã ieri oggi domani gisteren vandaag вчера позавчера сегодня завтра 昨天 今天 明天
    前天 后天 昨日 어제 오늘 내일"""
)
#: That a tool's work did not end well.
FAILURE = compiled(
    "error* fail* exception* traceback denied timeout timed_out killed rejected refused not_found cannot"
)
#: The same in Chinese: signs that are small words, between which the others stand.
STOP_SIGNS = "的了着吗呢吧啊呀哦嗯哈啦我你您他她它们是在有和与也都就还又很太更最这那哪么没不个把被给让以及或而但谁"
#: Of these words a reply is made that says nothing but that it was heard.
ACKNOWLEDGEMENT = STOP | frozenset(
    """all right alright noted understood got glad hear welcome course fine perfect exactly absolutely indeed
    true makes sense done enjoy congratulations lovely clear agreed hope so will keep mind in better sounds
    morning evening night danke dank vielen gut guten guter gute morgen tag abend nacht hallo bitte alles klar
    verstanden notiert ordnung natürlich gern gerne schön schade merci bien entendu gracias vale entendido grazie
    capito obrigado entendi спасибо хорошо понятно 好的 好 谢谢 明白 了解 记住了 知道了 记下了 我记下了 没问题
    再见 はい 了解です わかりました ありがとう 네 알겠습니다 감사합니다""".split()
)
#: A dot behind these ends no sentence.
ABBREVIATIONS = "Dr Mr Ms St Mrs Prof e.g i.e vs Nr No bzw z.B Sr Sra ca Fa Hr".split()

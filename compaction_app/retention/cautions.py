"""Which sentences may not be told in part: those in which something is denied, limited, doubted or taken back.

:mod:`meaning` knows the words that turn a clause round. Here are those besides it that make one part of a sentence
depend on another: a contrast ("but"), a limit in time ("until"), a condition, an attitude ("Jonas thinks …"), a
correction. A text with any of them is told whole or left out, and a sentence that begins with taking back what was
said ("No, never do that") belongs to the one before it. A word too many here costs room; one too few costs truth.
"""

from __future__ import annotations

import re
from functools import lru_cache

from compaction_app.retention import facts, meaning

_CAUTIONS = frozenset(
    # English; "t" is what is left of "isn't", "n" and "jusqu" of French elisions
    "t but however although though whereas yet until till unless except excluding besides otherwise else only hold "
    "wait almost nearly merely nor or whether suppose supposed supposedly assume assumed assumes assuming provided "
    "providing think thinks thought believe believes believed claim claims claimed doubt doubts doubted guess pretend "
    "pretends pretended allege alleged allegedly rumour rumours rumor rumors wish wishes wished imagine dream dreamt "
    "dreamed suspect suspects suspected reportedly apparently seem seems seemed maybe perhaps probably possibly might "
    "would could instead rather anymore unlike despite against undo undone revert reverted reverse reversed retract "
    "retracted withdraw withdrawn withdrew forget forgot kidding joking lied lies lying outdated obsolete void expired "
    "tentatively provisionally lie myth legend hearsay gossip fiction fictional hypothetical hypothetically hypothesis "
    "scenario dreams novel film movie according supposing pretending joke convinced insists insisted formerly former "
    "previously exception incorrect mistaken nonsense cancelling "
    # German
    "aber sondern doch jedoch obwohl obgleich trotzdem bis außer sofern solange sonst ansonsten oder kaum keinesfalls "
    "keineswegs fast beinahe angeblich glaubt glaube glauben meint denkt denke behauptet würde würden hätte hätten "
    "könnte könnten ob statt anstatt niemand nirgends nirgendwo weder nichts nein zwar allerdings vermutlich falls "
    "gerücht gerüchte gerüchten mythos laut zufolge angenommen roman traum falsch lüge ausnahme irrtum scherz "
    # French
    "n ne jusqu mais cependant pourtant toutefois quoique sauf hormis sinon autrement presque aucun aucune rien guère "
    "croit pense prétend aurait serait devrait pourrait ou rumeur mythe selon paraît supposons imagine imaginons rêve "
    "faux mensonge erreur blague "
    # Spanish, Portuguese, Italian
    "pero sino aunque embargo hasta salvo excepto menos casi apenas cree piensa habría sería podría tampoco nada nadie "
    "ningún ninguna ninguno o mas porém embora contudo até exceto quase acha acredita nenhum nenhuma ninguém seria "
    "poderia ma però tuttavia benché sebbene fino finché eccetto quasi crede pensa sarebbe potrebbe nessuno nessuna "
    "niente nulla né rumor mito según dicen supongamos imagina imaginemos sueño novela película falso mentira error "
    "broma boato segundo dizem suponhamos sonho romance filme piada secondo dicono supponiamo immagina sogno "
    "romanzo bugia errore scherzo "
    # Dutch
    "maar echter hoewel tenzij tot totdat anders bijna nauwelijks behalve zou zouden denkt gelooft niemand niets "
    "nergens noch als indien mits gerucht volgens stel droom roman onjuist leugen grap uitzondering "
    # Russian
    "но а однако хотя пока до иначе почти вряд едва думает считает якобы бы ли или либо никто ничего никак отнюдь "
    "говорят слух слухи слухам словам согласно допустим предположим представь представьте сон фильме романе неверно "
    "ложь ошибка шутка "
    # Arabic
    "لكن ولكن لكنه لكنها حتى سوى غير ربما قد لو إذا ليست لست أو يقال يزعم إشاعة شائعة حسب افترض "
    "تخيل حلم فيلم رواية خطأ كذب كذبة مزحة".split()
)
_PHRASES = re.compile(
    r"\b(?:used to|going to|should have|as if|as though|in case|as long as|apart from|other than|save for|never mind|"
    r"any more|no sooner|calls? off|called off|holds? off|held off|holds? back|(?:is|are|was) off|let['’]s say|"
    r"under the (?:old|previous|original)|told every(?:one|body)|(?:people|they|some|he|she) says?|"
    r"in (?:the|a|my|his|her|this|that|our) (?:book|story|tale|play|game|episode|chapter|series|exercise|exam|example|"
    r"poem)|soll (?:angeblich )?(?:sein|haben)|on dit|se dice|si dice|naar verluidt|stell dir vor|d['’]après|"
    r"es sei denn|bien que|à moins|a menos|sin embargo|a meno che)\b"
)
_SIGNS = re.compile(
    r"但|可是|不过|不過|然而|除非|除了|直到|以前|之前|否则|否則|如果|要是|仅|僅|只|几乎|幾乎|可能|也许|也許|以为|以為|"
    r"据说|據說|听说|聽說|谣言|謠言|传闻|傳聞|假设|假設|想象|想像|小说|小說|电影|電影|"
    r"けど|しかし|でも|まで|以外|もし|たら|かも|だけ|らしい|という噂|によると|によれば|仮に|小説|映画|違い|間違|"
    r"하지만|그러나|지만|까지|만약|제외|아마|소문|따르면|가정"
)
_WORD = re.compile(r"[^\W\d_]+")

_NO = r"no|nope|nah|nein|nee|non|não|nao|нет|nej|nei|لا|不|いいえ|아니요|아니오"
_YES = r"yes|yep|yeah|yup|sure|ja|jawohl|oui|sí|si|sì|sim|да|نعم|是|はい|네|doch"
_END = r"(?:\Z|\s*[,.!?;:，。！、…—–-])"
_REPLY = re.compile(rf"\A\W*(?:{_NO}|{_YES}|ok|okay)(?:{_END}|\s+(?:thanks|thank|please|danke|merci)\b)")
_BACK = re.compile(
    rf"\A\W*(?:(?:{_NO}|{_YES}|stop){_END}"
    r"|(?:wait|scratch that|scrap (?:that|it)|never ?mind|on second thoughts?|cancel that|"
    r"forget (?:it|that|what|everything)|undo that|correction|"
    r"or rather|instead|otherwise|or else|or|except|unless|provided|subject to|as long as|on condition|"
    r"only (?:if|after|when|with|before)|but|however|though|"
    r"although|yet|whereas|never (?:that|this|again|so|do (?:that|this|it|so))|"
    r"aber|sondern|jedoch|allerdings|außer|es sei denn|sonst|mais|sauf|cependant|pero|salvo|excepto|ma|però|tranne|"
    r"mas|porém|exceto|maar|echter|behalve|tenzij|но|однако|кроме|иначе|لكن|ولكن|إلا)\b"
    r"|但|可是|不过|不過|除非|しかし|でも|하지만|그러나)"
)
_IT = (
    r"(?:that|this|it|these|those|they|he|she|all (?:of )?(?:that|this|it)|everything|"
    r"the (?:first|last|latter|former) (?:one|part))"
)
#: What says of what stands before it that it does not hold. Searched in lower case, in short sentences only.
_RETRACTION = re.compile(
    r"\A\W*(?:(?:oh|ah|hm+|ok|okay|well|and|but|sorry|actually|hey|halt|stop)\b\W+)*(?:"
    rf"(?P<of>{_IT})(?:['’](?:s|re)| (?:\w+ )?(?:is|are|was|were|has been|isn['’]?t|wasn['’]?t|aren['’]?t))\b"
    r"[^.!?]{0,30}\b"
    r"(?:wrong|false|untrue|incorrect|true|right|correct|lies?|mistake|error|cancell?ed|off|nonsense|rubbish|joke|test|"
    r"outdated|exception|void|obsolete|myth|made up|fake|no longer|over)\b"
    r"|(?:just|only|was|i was|i am|i['’]m) (?:kidding|joking|testing)\b|just a (?:joke|test)\b|wait\b|hold on\b"
    r"|i (?:take|took) (?:that|this|it|everything|all of that) back\b|i (?:mixed|messed) up\b"
    r"|i was (?:wrong|mistaken)\b|scrap (?:that|it)\b"
    r"|my (?:mistake|bad|error)\b|i (?:apologi[sz]e|made (?:a|an) (?:mistake|error))\b|(?:my )?apologies\b"
    r"|i (?:meant|mean|said)\b|make (?:that|it)\b|change of plans?\b|on reflection\b|on second thoughts?\b"
    r"|i (?:never|did not|didn['’]t|do not|don['’]t|have not|haven['’]t) (?:say|said|did|do|done|wrote|mean|meant|"
    r"delete|deleted|send|sent|pay|paid|agree|agreed|want) ?(?:that|this|it|so|anything|any of)\b"
    r"|i object\b|(?:nonsense|rubbish)\b|(?:provided|as long as|subject to|on condition)\b"
    r"|i['’]d rather not\b|(?:rather|better|please|surely|certainly|absolutely) not\b"
    r"|(?:wrong|false|incorrect)(?=\W*\Z|[,.!:;])|there is (?:one|an) exception\b"
    r"|(?:keep|leave) (?:it|them|that)\b|you(?:['’]re| are) right, (?:leave|keep|stop|i)\b"
    r"|das (?:nehme ich zurück|stimmt nicht|ist (?:falsch|gelogen|nicht wahr|abgesagt|ein irrtum|ein scherz))"
    r"|(?:stimmt nicht|falsch|doch nicht|lieber nicht|besser nicht|quatsch|unsinn|ausnahme|entschuldigung, ich|"
    r"ich meinte|warte|das war (?:nur )?ein (?:scherz|test|irrtum))\b"
    r"|(?:c['’]est (?:faux|une erreur|annulé|une blague)|ce n['’]est pas (?:vrai|ça)|"
    r"c['’]était (?:une erreur|pour rire)|faux|surtout pas|plutôt pas|pardon|je plaisante|"
    r"je me suis trompée?|attends|attendez|finalement non)\b"
    r"|(?:eso (?:no es (?:cierto|verdad|así)|es (?:falso|mentira))|es (?:mentira|falso)|no es (?:cierto|verdad)|falso|"
    r"perdón|ni hablar|mejor no|me equivoqué|era broma|espera|se canceló|è falso|non è vero|mi sono sbagliat[oa]|scusa|"
    r"meglio (?:di )?no|aspetta|scherzavo|isso não é verdade|é mentira|é falso|me enganei|desculpe|melhor não|"
    r"dat klopt niet|dat is (?:niet waar|onwaar|fout)|toch niet|liever niet|grapje|"
    r"это (?:неправда|ложь|ошибка|шутка)|неправда|неверно|я ошиб(?:ся|лась)|лучше не надо|подожди)\b"
    r"|(?:هذا )?خطأ|هذا غير صحيح|بل |لا داعي|كنت أمزح"
    r"|不对|不對|错了|錯了|算了|先别|先別|我说错|我說錯|不是真的|开玩笑|"
    r"違います|違う|間違え|やっぱり|やめて|嘘です|冗談|아니에요|틀렸|취소|잘못)"
)
_THAT_THING = re.compile(
    r"\A\W*(?P<of>that|this|the(?: (?:whole|first|last|second))?) "
    r"(?:number|date|name|code|price|amount|figure|address|time|order|plan|meeting|answer|statement|trip|deal|offer|"
    r"story|thing) (?:is|was|has been) (?:not |no longer )?"
    r"(?:wrong|false|incorrect|true|right|correct|off|cancell?ed|outdated|void|valid|a (?:joke|lie|test|mistake))\b"
)
_EXCEPTION = re.compile(r"\bis (?:the|an|the only|one) exception\b|\bis excepted\b|\bist die ausnahme\b")
_STARRED = re.compile(r"\A\*\s?\w")
_RETRACTION_WORDS, _RETRACTION_CHARS = 24, 120
#: "That's true" takes nothing back.
_HOLDS = re.compile(r"\b(?:true|right|correct|valid)\b")
_DENIED = re.compile(r"\b(?:not|no|never|longer)\b|n['’]?t\b")
#: "Not before Lena signs" says what was said before; "Never book a layover in Frankfurt again" stands by itself.
_FRAGMENT_WORDS = 5
#: "First make a backup" comes before what was asked for.
_FIRST = re.compile(
    r"\A\W*(?:first|zuerst|erst|d['’]abord|primero|prima|eerst|сначала)\b(?!\W*(?:of all|name|class))|\A先"
)
_NOT = re.compile(r"\A\W*(?:not(?! ok\b)|nicht|pas|niet|не)\b")
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
    if _BACK.match(opening) or retracts(sentence):
        return True
    return len(sentence.split()) <= _FRAGMENT_WORDS and (_NOT.match(opening) or _FIRST.match(opening)) is not None


def retracts(sentence: str) -> bool:
    """Whether it says, shortly, that what was said before does not hold: "It's cancelled", "I mixed up the digits"."""
    if sentence.endswith(facts.QUESTION_MARKS) or sentence.count(" ") >= _RETRACTION_WORDS:
        return False
    opening = sentence[:_RETRACTION_CHARS].lower()
    found = _RETRACTION.match(opening) or _THAT_THING.match(opening)
    if found:
        # Only where something is denied is "true" no assent.
        holds = found["of"] and _HOLDS.search(found.group())
        return not holds or _DENIED.search(found.group()) is not None
    return _EXCEPTION.search(opening) is not None or _STARRED.match(opening) is not None


def is_reply(clause: str) -> bool:
    """ "No", "yes, do that": says nothing, or something else, without what it replies to."""
    return _REPLY.match(clause[:_OPENING_CHARS].lower()) is not None

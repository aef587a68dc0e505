"""Which words tell: facts, negations and the cues of rules, decisions and preferences.

Shortening a sentence is a question of which words may go. Every word has a strength, from filler (first to
go) to telling (never goes while its sentence stays), and a weight, which is what keeping it is worth. Both
follow from the word itself and its neighbours, not from statistics of the text around it: a clause that was
shortened once is judged the same when it is read again, so that a summary of a summary does not drift.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

#: Strengths. A text shortened to level n keeps the words of strength n and more.
FILLER, FUNCTION, CONTENT, NEAR, BOUND, TELLING = range(6)


class Word(NamedTuple):
    strength: int
    weight: float
    #: What it is compared by: lower case, without the punctuation around it.
    norm: str


NEGATIONS = frozenset(
    "not no never none nothing nobody nowhere neither nor without cannot cant dont wont isnt arent "
    "wasnt doesnt didnt shouldnt wouldnt couldnt mustnt hasnt havent unless except nicht kein keine "
    "keinen keiner nie niemals ohne pas jamais sans ni nunca jamás sin não nem sem mai senza non niet "
    "geen nooit ikke ingen aldri inte aldrig ei eikä не нет ни никогда без нельзя لا لم لن ليس بدون nie "
    "bez nigdy żaden nikdy ne nesmí nelze nikdo nic žádný žádná žádné není değil yok asla hiç hiçbir sakın "
    "δεν δε μη μην ποτέ όχι χωρίς không đừng chưa chẳng cấm לא אל אין בלי אסור نه نباید هرگز هیچ نیست "
    "नहीं मत कभी बिना نہیں کبھی بغیر tidak jangan bukan tanpa belum älä ilman utan uden uten aldrig icke "
    "ні ніколи nem soha niciodată fără".split()
)

#: Words that turn round what stands beside them without being negations: a shortened sentence may not lose
#: them, nor what they are said of.
_REVERSALS = frozenset(
    "if only hardly barely scarcely rarely seldom instead rather except unable impossible avoid avoids lack lacks "
    "refuse refuses refused deny denies denied reject rejects rejected forbid forbids forbidden prohibited banned "
    "cancel cancels canceled cancelled revoked withdrawn stop stops stopped fail fails failed false wrong untrue "
    "wenn falls nur statt außer verboten abgesagt seulement sauf interdit annulé solo salvo prohibido cancelado "
    "cancelada proibido tranne vietato annullato behalve verboden если только кроме запрещено отменён отменен "
    "отменена فقط إلا ممنوع".split()
)

#: Words without which a sentence claims more than was said: conditions and doubts.
_RESERVATIONS = frozenset(
    "if only maybe perhaps probably possibly might wenn falls nur vielleicht wahrscheinlich peut-être "
    "si seulement quizás solo forse если только может".split()
)

#: Words that bound what they stand with. Losing one turns a rule into another rule.
_BOUNDS = frozenset(
    "must mustn't rather always every under over below above before after until till by max maximum min "
    "minimum least most than less more exactly except instead now anymore longer should shall muss "
    "müssen soll immer mindestens höchstens doit doivent toujours debe siempre deve sempre должен "
    "должна всегда يجب دائما فقط".split()
)

#: By language: where none of these is met, nobody can tell which words of a sentence may go.
_SMALL_WORDS = {
    "en": "a an the this that these those there here it its it's i i'm i've i'd i'll me my mine myself you "
    "you're you've you'd you'll your yours he she him her his hers we we're we've we'd we'll us our "
    "ours they they're they've them their theirs who whom whose which what's that's there's here's is "
    "are was were be been being am do does did done have has had having will would can could may of to "
    "in on at for with from as into onto about and so also too very just then than such some any each "
    "both all own same other another again further once because while where when how what why get gets "
    "got getting sure let let's lets make makes",
    "de": "der das und ist ein eine einen einem einer zu mit auf für von dem den im wir ich sie es sind wird auch",
    "fr": "le la les un une des et est du de que qui dans pour sur avec ce cette je vous nous il elle",
    "es": "el los las una un la de que y en del con por para se lo su al es o",
    "pt": "os um uma do da dos das em na o a de que para",
    "it": "il gli di che per è sono la le un una del con",
    "nl": "het een van en is dat op te de in",
    "ru": "и в на с по это к у о из за для что как а но я мы вы он она они",
    "ar": "و في من على إلى أن",
}
_FUNCTION = frozenset(word for words in _SMALL_WORDS.values() for word in words.split())
_LANGUAGES_OF: dict[str, list[str]] = {}
for _language, _words in _SMALL_WORDS.items():
    for _word in dict.fromkeys(_words.split()):
        _LANGUAGES_OF.setdefault(_word, []).append(_language)

_FILLER = frozenset(
    "well okay ok great thanks thank please actually basically really quite simply literally honestly "
    "certainly definitely absolutely obviously hello hi hey hmm um uh oh ah wow yeah yep alright glad "
    "happy hope course kind sort bit lot feel free essentially generally typically overall additionally "
    "furthermore moreover however therefore thus hence indeed anyway".split()
)

_NAME_WEIGHT = 1.5
#: Words whose judgement is remembered: most of a text are words that it had before.
_KNOWN_WORDS = 1 << 15
_DIGIT = re.compile(r"[\d²³¹⁰⁴-⁹₀-₉①-⑨]")

_PUNCTUATION = " \t\n.,;:!?…\"'“”‘’„«»()[]{}<>|*~。！？｡，、；：؟۔।॥「」『』（）《》【】·•–—-"
_IDENTIFIER = re.compile(
    r"[/\\@_#=]|://|\w\.\w|[a-z][A-Z]|\(\)|^--?[a-z]|^[A-Z][A-Z0-9]+-\d|^[0-9a-f]{7,40}$|\w-\d|\d[A-Za-z]\d|->|::"
)
_CONTRACTION = re.compile(r"n['’]t$", re.IGNORECASE)
_UNSPACED = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
#: Scripts without spaces whose cue words are known: Chinese, Japanese, Korean.
_KNOWN_SIGNS = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]")
#: Letters of languages whose small words are not known: Czech, Polish, Turkish, Vietnamese; Ukrainian, Serbian;
#: Persian, Urdu. A word that begins with a capital may be a name, and is not looked at.
_FOREIGN_LETTERS = re.compile(
    r"(?<!\w)[a-zà-öø-ÿа-яё\u0600-\u06ff]*[\u0100-\u0151\u0154-\u017f\u01a0-\u01b0\u1e00-\u1effіїєґўјљњћђѓќپچژگکیےٹڈڑںہ]"
)
_UNSPACED_TELLING = re.compile(
    r"[0-9A-Za-z０-９\u30a1-\u30fa「」『』《》]|[不没沒无無非别別勿未]|必须|必須|禁止|只|ない|ません|決|决|预算|予算|안|않|못|없|금지"
)

_MONTHS = (
    "jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)? "
    "|oct(?:ober)?|"
    "nov(?:ember)?|dec(?:ember)?"
)
#: What is told by several words together, and is worth nothing in part: quotations, code, dates, amounts.
SPANS = re.compile(
    r"`[^`\n]{1,200}`"
    r'|"[^"\n]{2,160}"|“[^”\n]{2,160}”|«[^»\n]{2,160}»|„[^“”\n]{2,160}[“”]'
    r"|(?<!\w)'[^'\n]{2,80}'(?!\w)|(?<!\w)‘[^’\n]{2,80}’(?!\w)"
    rf"|\b\d{{1,2}}(?:st|nd|rd|th)?(?: of)? (?:{_MONTHS})\b\.?(?:,? \d{{4}})?"
    rf"|\b(?:{_MONTHS})\.? \d{{1,2}}(?:st|nd|rd|th)?\b(?:,? \d{{4}})?"
    r"|(?<![\d.,])\d[\d.,]*(?: (?:%|[€$£¥₹])| (?:thousand|million|billion)\b(?: \w+)?)"
    r"|[€$£¥₹] ?\d[\d.,]*",
    re.IGNORECASE,
)
_SPAN_HINT = re.compile(r"[`\"“«„'‘\d€$£¥₹]")

_RULE = (
    r"\b(?:must|mustn['’]t|never|always|forbidden|prohibited|not allowed|off[- ]limits|from now on|"
    r"under no circumstances|no more than|no later than|at most|at least|make sure|constraints?|allergic|"
    r"allergy|intolerant|vegetarian|vegan|deadline|due (?:on|by)|budget|(?:max|min)imum|"
    r"(?:shall|may|is|are) not (?:to )?(?:exceed|be used|be altered|be changed|be shared)|shall not|"
    r"only (?:use|if|when|after|before|on|in|with)|cannot|can['’]t|avoid|without|insist)\b"
    r"|(?:\A|[,;:.] |\b(?:please|you|we|and|but|also|so|just) )(?:do not|don['’]t) "
    r"|\bi (?:do not|don['’]t|won['’]t|will not|never) "
    r"(?!know|think|understand|see|remember|get|believe|mean)"
)
_DECISION = (
    r"\b(?:decided|decision|agreed|settled on|chose|chosen|picked|opted|approved|rejected|confirmed|booked|"
    r"(?:going|went) with|stick(?:ing)? (?:with|to)|switch(?:ed|ing)? to|no longer|"
    r"let['’]s (?:use|go|keep|take|call|stick)|we(?:['’]ll| will) (?:use|go|keep|take|call))\b"
)
_PREFERENCE = (
    r"\b(?:prefers?|preferred|preference|favou?rite|rather|call me|my name|"
    r"i (?:really )?(?:love|hate|dislike)|"
    r"please (?:use|keep|write|answer|reply|call|always|stick|format))\b"
)
#: What must be done by when, or else: a constraint without "must".
_DUE = (
    r"\b(?:has|have|needs?) to\b"
    r"(?=[^.;!?]{0,100}\b(?:before|by|until|till|otherwise|or else|every|each|at all times)\b)"
    r"|\b(?:has|needs) to (?:be|stay|remain|stand|sit|run|match|fit|keep|contain|include)\b"
    r"|(?<=[,;:–—-] )(?:otherwise|or else)\b|\bat the (?:latest|earliest)\b"
    r"|\b(?:not|non)[- ]negotiable\b"
    r"|\b(?:should|may|can|gets?)\b(?=[^.,;:!?]{1,60},? but (?:no|not)\b)"
)
#: How somebody wants to be answered, which is said without any "prefer".
_ANSWERS = (
    r"\b(?:short|shorter|brief|concise|terse|crisp|longer|detailed|plain) "
    r"(?:answers?|replies|explanations?|responses?)\b"
    r"|(?:\A|[,;:.!(–—-] |\b(?:please|always|just|only|and|you) )(?:answer|reply|respond|explain)"
    r"(?: to me| me)? (?:in|with|without|briefly|shortly)\b"
    r"|(?:\A|[,;:(] |\band )(?:the )?(?:code|answer|result|conclusion|summary|numbers?|figures?|diff|gist) first"
    r"(?= *(?:[.,;:!)–—-]|please\b|\Z))"
    r"|\bkeep (?:it|them|(?:your |the )?(?:answers?|replies|explanations?|responses?)) "
    r"(?:short|brief|concise|simple|terse|plain)\b"
    r"|\b(?:no|without|skip the) (?:emojis?|bullets?|bullet points?)\b"
    r"|\b(?:in|use|as|want|like) (?:short )?bullet(?:s| points?| lists?)\b"
)
_ANSWERS_IN_OTHER_WORDS = (
    r"\bkurze antwort(?:en)?\b|\bantworte (?:bitte )?(?:auf|in|kurz|knapp)\b|\bfasse? dich kurz\b"
    r"|\bréponses? (?:courtes?|brèves?)\b|\bréponds?(?:-moi)? en\b|\brépondez(?:-moi)? en\b"
    r"|\brespuestas? (?:cortas?|breves?)\b|\bresp[oó]nde(?:me)? en\b|\brespostas? (?:curtas?|breves?)\b"
    r"|\bresponda em\b|\brispost[ae] brev[ei]\b|\brispondi(?:mi)? in\b|\bkorte antwoorden\b"
    r"|\bantwoord (?:kort|in het)\b|\bкоротки[ей] ответы?\b|\bотвечай(?:те)? (?:на|коротко|кратко)\b"
    r"|简短回答|簡短回答|用中文回答|短く答え|短い回答|짧게 (?:대답|답)"
)
#: What is settled in the end: "Celery it is", "let's say 25 March"; not "what it is".
_SETTLED = (
    r"\bit is(?=(?: then)?(?: *[.,;:!)]|\Z))(?<=\w it is)"
    + "".join(
        rf"(?<!{word} it is)"
        for word in "what that ever how where who when why than like because and but think believe know knows says "
        "said sure though while since yes then as so if is".split()
    )
    + r"|\blet['’]s (?:say|make it|do) (?=[^.,;:!?]{0,20}\d)"
)
#: These are rarer than they are slow to look for: a text without any of the words before them need not be searched.
_RARER = (
    (
        ("has to", "have to", "need", "otherwise", "or else", "e latest", "e earliest", "negotiable", "but no"),
        re.compile(_DUE),
    ),
    (("answer", "repl", "respon", "expla", " first", "keep ", "bullet", "emoji"), re.compile(_ANSWERS)),
    (("antwo", "resp", "rispo", "kurz"), re.compile(_ANSWERS_IN_OTHER_WORDS)),
    (("it is", "let's "), re.compile(_SETTLED)),
)
#: … and in a text with other letters.
_RARER_ABROAD = (
    *_RARER[:2],
    ((*_RARER[2][0], "répon", "отве", "回答", "答え", "짧게"), _RARER[2][1]),
    ((*_RARER[3][0], "let’s "), _RARER[3][1]),
)
_PLAIN = re.compile(f"{_ANSWERS}|{_ANSWERS_IN_OTHER_WORDS}|{_SETTLED}")
_OTHER_WORDS = (
    r"spätestens|frühestens|au plus tard|au plus tôt|a más tardar|tiene que|hay que|de lo contrario|o mais tardar|"
    r"tem que|caso contrário|al più tardi|bisogna|uiterlijk|не позднее|"
    r"niemals|nie|immer|auf keinen fall|keinesfalls|darf nicht|dürfen nicht|verboten|muss|müssen|"
    r"bitte nicht|entschieden|bevorzuge|lieber|"
    r"jamais|toujours|interdit|il faut|doit|décidé|préfère|"
    r"nunca|siempre|prohibido|debe|decidido|decidimos|prefiero|proibido|prefiro|"
    r"mai|sempre|vietato|deve|deciso|preferisco|nooit|altijd|moet|"
    r"никогда|всегда|нельзя|запрещено|должен|должна|решили|предпочитаю|"
    # Czech, Polish, Turkish, Greek, Vietnamese, Hebrew, Indonesian, Swedish, Norwegian, Danish, Finnish, Ukrainian
    r"nikdy|vždy|nesmí|nesmíš|nesmíte|musí|musíš|musíte|zakázáno|rozhodli jsme|domluvili jsme se|raději|"
    r"nigdy|zawsze|nie wolno|musi|musisz|zabronione|zdecydowaliśmy|postanowiliśmy|wolę|"
    r"asla|sakın|hiçbir zaman|her zaman|daima|mutlaka|yasak|yasaktır|zorunda|gerek|karar verdik|tercih ederim|"
    r"ποτέ|πάντα|απαγορεύεται|πρέπει|μην|αποφασίσαμε|προτιμώ|"
    r"không bao giờ|không được|đừng|luôn|luôn luôn|phải|cấm|quyết định|thích hơn|"
    r"לעולם לא|לעולם אל|אף פעם|תמיד|אסור|חייב|חייבת|חייבים|החלטנו|מעדיף|מעדיפה|"
    r"jangan|tidak boleh|dilarang|selalu|harus|wajib|memutuskan|lebih suka|"
    r"aldrig|alltid|måste|får inte|förbjudet|bestämde|föredrar|aldri|alltid|må ikke|forbudt|bestemte|foretrekker|"
    r"altid|besluttede|foretrækker|"
    r"älä koskaan|ei koskaan|aina|pitää|täytyy|kielletty|päätimme|"
    r"ніколи|завжди|не можна|заборонено|повинен|повинна|вирішили"
)
#: … and signs of scripts where \b ends no word.
_OTHER_SIGNS = (
    r"يجب|ممنوع|دائما|أبدا|قررنا|أفضل|لا ت"
    # Persian, Urdu, Hindi: written with marks that end a word for \b, so without it.
    r"|هرگز|هیچ ?وقت|همیشه|نباید|باید|ممنوع|تصمیم گرفتیم|ترجیح می"
    r"|کبھی|ہمیشہ|ضرور|لازمی|منع ہے|فیصلہ کیا"
    r"|कभी|हमेशा|मत |ज़रूर|ज़रूरी|चाहिए|मना है|निषिद्ध|फैसला|फ़ैसला|तय किया|पसंद"
    r"|وإلا|最晚|最迟|最遲|遅くとも|늦어도"
    r"|必须|必須|不要|不能|不许|不可|禁止|只能|决定|決定|偏好|喜欢|喜歡|预算|預算|截止"
    r"|予算|締め切り|絶対|しないで|てはいけ|なければ|好き"
    r"|반드시|절대|금지|하지 마|결정|선호|예산|마감"
)
# Searched in lower case: ignoring case while searching takes twice as long.
_FIRM = re.compile(rf"{_RULE}|{_DECISION}|{_PREFERENCE}|\b(?:{_OTHER_WORDS})\b|{_OTHER_SIGNS}")
# Most texts have ASCII letters only, and are searched in half the time by the words that have no others.
_ASCII_WORDS = "|".join(filter(str.isascii, _OTHER_WORDS.split("|")))
_FIRM_ASCII = re.compile(rf"{_RULE}|{_DECISION}|{_PREFERENCE}|\b(?:{_ASCII_WORDS})\b", re.ASCII)
_AGREED = re.compile(
    r"\b(?:(?:we|you|i)(?:['’]ve| have)? "
    r"(?:decided|agreed|chose|settled|picked|booked|confirmed|approved|rejected)|"
    r"decision (?:is|was)|(?:we|i)(?:['’]ll| will) (?:use|go with|keep|call|stick))\b",
    re.IGNORECASE,
)


#: What a question ends with.
QUESTION_MARKS = ("?", "？", "؟")
#: Small words inside names: "University of Turku", "Casa do Lago".
NAME_LINKS = frozenset(
    "of the de do da dos das del della di la le du des van von der den ten al el bin ibn y e & zu".split()
)


def find_cues(text: str) -> list[tuple[int, int]]:
    """Where a rule, prohibition, constraint, decision or preference shows itself."""
    lower = text.lower()
    is_ascii = text.isascii()
    found = [match.span() for match in (_FIRM_ASCII if is_ascii else _FIRM).finditer(lower)]
    for hints, cues in _RARER if is_ascii else _RARER_ABROAD:
        for hint in hints:
            if hint in lower:
                found += [match.span() for match in cues.finditer(lower)]
                break
    return sorted(found) if len(found) > 1 else found


def is_agreement(text: str) -> bool:
    """A decision that somebody took, not advice on how to take one: all that a model's "always" and "must"
    are."""
    return _AGREED.search(text) is not None


def is_plainly_wanted(text: str) -> bool:
    """How somebody wants to be answered, or what is settled in the end: to be kept to, however short it is."""
    return _PLAIN.search(text.lower()) is not None


def find_spans(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in SPANS.finditer(text)] if _SPAN_HINT.search(text) else []


@lru_cache(maxsize=_KNOWN_WORDS)
def is_negation(norm: str) -> bool:
    return norm in NEGATIONS or _CONTRACTION.search(norm) is not None


def is_reversal(norm: str) -> bool:
    return norm in _REVERSALS


def has_digit(text: str) -> bool:
    return _DIGIT.search(text) is not None


def is_unspaced(text: str) -> bool:
    return _UNSPACED.search(text) is not None


def has_known_signs(text: str) -> bool:
    """Whether the script without spaces is one whose rules and negations are known."""
    return _KNOWN_SIGNS.search(text) is not None


def most_small_words(norms: Sequence[str]) -> int:
    """How many of the words are small ones of the same language, at most."""
    found: dict[str, int] = {}
    for norm in norms:
        for language in _LANGUAGES_OF.get(norm.replace("’", "'"), ()):
            found[language] = found.get(language, 0) + 1
    return max(found.values(), default=0)


def has_foreign_letters(text: str) -> bool:
    return not text.isascii() and _FOREIGN_LETTERS.search(text) is not None


def is_name(token: str, word: Word) -> bool:
    """Written like a name: a capital and nothing else to tell it from the first word of a sentence."""
    return word.weight == _NAME_WEIGHT and word.norm.isalpha() and not bare(token)[1:2].isupper()


def bare(token: str) -> str:
    """Without the punctuation around it: all that :func:`weigh` looks at."""
    return token.strip(_PUNCTUATION)


def weigh(token: str) -> Word:
    """The strength and weight of one word, whatever stands around it."""
    core = bare(token)
    norm = core.lower()
    if not core:
        return Word(FUNCTION, 0.0, "")
    if norm in NEGATIONS or (norm.endswith("t") and _CONTRACTION.search(norm)):
        return Word(TELLING, 0.4, norm)
    if norm in _RESERVATIONS:
        return Word(TELLING, 0.3, norm)
    if len(core) == 1 and core.isupper() and core not in "AI":
        # "plan B", "blood type O"; "A" and "I" are words of their own far more often.
        return Word(TELLING, 1.0, norm)
    if norm in _BOUNDS:
        return Word(BOUND, 0.3, norm)
    if norm in _FILLER:
        return Word(FILLER, 0.0, norm)
    if norm.replace("’", "'") in _FUNCTION:
        return Word(FUNCTION, 0.02, norm)
    if core.isalpha() and core.islower() and core.isascii():
        return Word(CONTENT, 0.3, norm)
    return _weigh_unusual(core, norm)


def _weigh_unusual(core: str, norm: str) -> Word:
    if _UNSPACED.search(core):
        # A run without spaces is several words: it weighs by its length, and goes only as a whole.
        return Word(TELLING if _UNSPACED_TELLING.search(core) else NEAR, min(0.12 * len(core), 3.0), norm)
    if _IDENTIFIER.search(core):
        # An address costs many tokens and is worth nothing in part.
        return Word(TELLING, min(2.0 + 0.1 * len(core), 6.0), norm)
    if has_digit(core):
        return Word(TELLING, 1.5 if len(core) == 1 else 3.0, norm)
    if core[0].isupper():
        return Word(TELLING, _NAME_WEIGHT, norm)
    return Word(CONTENT, 0.3, norm)

"""The words that the engine knows, a line a family of languages. Every other word is only compared.

In a table ``*`` ends a stem and ``_`` stands for a space. Signs are for scripts without spaces.
"""

from __future__ import annotations

import re


def table(words: str, signs: str = "") -> str:
    """A pattern for whole words of a list, and for signs wherever they stand."""
    alternatives = "|".join(re.escape(word).replace(r"\*", r"\w*").replace("_", r"\s") for word in words.split())
    return rf"\b(?:{alternatives})(?!\w)" + (f"|{signs}" if signs else "")


def compiled(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


#: Denies or limits.
NEGATION = compiled(
    r"\b[a-z]+n['’]t\b",
    table(
        "no not never nope nah none nor cannot dont without except unless until neither nobody nothing "
        "nein nicht kein* nie niemals außer bevor nee niet geen nooit "
        "non ne pas jamais sans aucun* sauf ni nunca sin ningún* excepto senza mai não sem nenhum* "
        "нет не никогда без кроме nie bez ne není inte ikke aldrig ei değil لا لم لن ليس نه नहीं मत",
        "不|没|沒|别|勿|無|无|未|ない|ません|なし|아니|않|없|못|ไม่|อย่า",
    ),
)
#: Takes something back or replaces it.
REVERSAL = compiled(
    table(
        "cancel* stop hold_on scratch scrap i_object nonsense kidding joking wrong mistake* mistaken* mixed "
        "incorrect* correction actually instead anymore any_more no_longer "
        "called_off is_off are_off forget_it forget_that never_mind nevermind revoke* withdr* reject* declin* refus* "
        "postpone* moved changed_to changed_my reverted undo ignore_that disregard sorry, wait, oops "
        "halt warte abgesagt doch_nicht verschoben falsch stimmt_nicht statt* quatsch afgelast toch_niet "
        "annul* plutôt finalement faux reporté* cancelad* equivocad* mejor_no en_vez annullat* sbagliat* errad* "
        "отмен* ошиб* неверно вместо перенес*",
        "取消|改成|改到|改为|错了|錯了|作废|不对|等等|キャンセル|間違|中止|取り消|待って|취소|잘못",
    ),
    # "*6 May"
    r"^\*(?=\w)",
)
#: A standing rule, wish or decision, where a person says so.
RULE = compiled(
    r"^(?:please,? )?(?:never|always|do not|don['’]t|no \w+ \w+|only|nobody|use|keep|report|ask|make sure|avoid|"
    r"stick)\b",
    r"\b(?:must|shall)(?:n['’]t)?\b(?! (?:have|be|feel)\b)|\b(?:must|shall) (?:not|never|only|always)\b",
    r"\b(?:never|not|don['’]t|without) (?:ever )?(?:exceed|push|touch|share|call|use|send|run|delete|ask|contact|"
    r"mention)\w*\b",
    r"\b(?:never|always) (?!(?:been|thought|knew|know|seen|heard|had|said|liked|loved|wanted|felt|was|were|is|"
    r"are)\b)[a-z]+",
    r"\bprefer\w*|\b(?:i|we) (?:want|need|insist)\b(?! to (?:know|see|hear|say|ask|go|thank)\b)|\ballergic\b|"
    r"\bdeadline\b",
    r"\b(?:decided|agreed|settled)\b(?! (?:with|by)\b)|\b(?:under no circumstances|at (?:most|least|the latest))\b",
    r"\b(?:is|are) (?:not allowed|forbidden|required|off[- ]limits)\b|\bno (?:more|less|fewer|later|earlier) than\b",
    r"\b(?:is|are|may|can)(?: not|n['’]t) \w+ (?:\w+ )?(?:before|until|unless|without)\b",
    r"\bnext (?:step|up)\b|\bawaiting\b|\bgoing with\b|\bgo with\b|\bon no account\b|"
    r"\bhas? to\b(?= \w+ (?:before|first|by))",
    table(
        "niemals darf* muss müssen immer bevorzug* entschieden vereinbart lieber auf_keinen_Fall keinesfalls "
        "il_faut doit doivent jamais toujours préfèr* décidé interdit nunca debe* siempre prefier* decidi* prohibid* "
        "deve* sempre mai_più prefer* moet mag_niet altijd nooit нельзя должен должны всегда никогда предпочита* "
        "решил* "
        "يجب ممنوع musí mora måste må_ikke",
        "必须|必須|不要|绝对|不能|禁止|不许|决定|更喜欢|总是|永远|必ず|決して|いつも|てください|반드시|절대|항상",
    ),
)
#: Of these, those that forbid or demand: they come before everything else.
FIRM = compiled(
    r"\b(?:never|always|must|mustn['’]t|forbidden|not allowed|off[- ]limits|on no account|under no circumstances)\b",
    r"^(?:please,? )?(?:do not|don['’]t|only|nobody|no one)\b|\b(?:without|before) (?:asking|checking|approval|"
    r"permission)",
    r"\b(?:allerg\w+|at most|at least|no (?:more|less|fewer|later|earlier) than|deadline)\b|\bask (?:me|"
    r"us) (?:first|before)\b",
    table(
        "niemals darf* muss müssen keinesfalls auf_keinen_Fall jamais interdit il_faut nunca prohibid* mai_più "
        "nooit mag_niet нельзя никогда должен",
        "必须|必須|绝对|不能|禁止|不许|不要|必ず|決して|반드시|절대",
    ),
)
#: What only looks like a rule: idioms and what is said of the past.
IDLE = compiled(
    r"\bmust (?:have|be|feel)\b|\bnever mind\b|\bcan['’]?t wait\b|\balways (?:wanted|loved|liked|been|thought|"
    r"knew|a pleasure)\b",
    r"\bnever (?:thought|knew|been|seen|heard|had|gets? old)\b|\b(?:i|we) (?:totally |completely |"
    r"fully )?agree\b|\bi must (?:say|admit)\b",
    r"\bnobody knows\b|\bdon['’]t (?:worry|mention it|know|think|mind)\b|\bno (?:problem|worries|idea|doubt|"
    r"wonder)\b|\bonly (?:wish|hope|if you want)\b",
)
#: Makes a statement less than certain.
HEDGE = compiled(
    table(
        "if unless whether think thought guess maybe perhaps probably possibly might could hope suppose* "
        "allegedly rumour* "
        "heard unsure wenn falls vielleicht glaube angeblich si peut-être quizá* tal_vez talvez se forse если может "
        "возможно",
        "如果|要是|可能|也许|もし|たぶん|かもしれ|만약|아마",
    ),
)
#: In the line above a list: its items hold together.
LIMIT = compiled(
    table(
        "only if unless except provided all_of both nur wenn falls außer seulement si solo sólo se только если",
        "只有|如果|除非|のみ|만",
    )
)
#: Begins what is not so: all that follows in the message stands under it.
FRAME = compiled(
    table(
        "imagine suppose pretend hypothetical* what_if let's_say in_the_story in_this_scenario for_the_exam "
        "angenommen stell_dir_vor imaginons supposons imagina supongamos immagina представь",
        "假设|假如|想象|仮に|가정",
    ),
)
#: Begins a sentence about somebody, or something, of the one before.
PRONOUN = compiled(
    r"^(?:"
    + table(
        "he she it they his her their this these those er sie es ihr* dies* il elle ils elles cela él ella ellos "
        "esto eso "
        "lui lei loro ele ela eles он она оно они его её это",
    )
    + r"|他|她|它|这|那|彼|それ|これ|그는|그녀|그것)",
)
#: How a tool's work ended, and what it changed.
OUTCOME = compiled(
    table(
        "error* fail* pass passed exception* traceback fixed succe* warning* denied timeout timed_out killed commit* "
        "deploy* created wrote written edited updated deleted removed moved merged exit rejected refused not_found",
    )
)
#: A brief answer that makes somebody else's proposal one's own.
ACCEPTANCE = compiled(
    table(
        "yes agreed agree good_idea accept* deal approved yes_please do_that do_it go_ahead go_with sounds_good "
        "fine_by_me works_for_me "
        "let's_do einverstanden abgemacht machen_wir d'accord de_acuerdo d'accordo договорились согласен",
        "同意|就这样|賛成|それで|동의",
    )
)
#: What a model proposes, so that it can be accepted.
PROPOSAL = compiled(
    table(
        "would should shall will could let's i'd i'll suggest* propos* recommend* plan* option* würde sollte schlage "
        "propongo propose* debería sugiero предлагаю",
        "建议|提案|하겠",
    )
)
#: Begins a sentence that speaks of the one before.
POINTER = compiled(
    table(
        "it that this he she they those these but and or so because then though however also only "
        "es das er sie aber und il elle cela ça mais et pero y eso ma e isso mas это но он она",
    )
)
#: What people say of themselves and their own.
FIRST_PERSON = compiled(
    table(
        "i my me we us our ich mein* wir unser* ik mijn wij onze je mon mes ma nous notre nos yo mi mis nuestr* "
        "eu meu "
        "minha nós io mio mia noi nostro я мой моя мы наш*",
        "我|私|僕|나는|우리|저는",
    ),
    r"\b(?:i|we)['’](?:m|ve|d|ll|re)\b|\bj['’]",
)
#: Words that tell nothing by themselves.
STOP = frozenset(
    "a an the of to in on at and or is was were are be been being am it its i me my mine you your yours he him "
    "his she her "
    "hers they them their theirs we us our ours this that these those as from by for with about into out up down "
    "over "
    "under again but if then than too very just so do does did done doing have has had having will would shall "
    "can could "
    "should may might not no yes what which who whom whose when where why how there here all any some more most "
    "much many "
    "also really get got getting go going gone went come came make made take took thing things something anything "
    "everything know think see seen look looks looking feel feels hear heard sound sounds say said tell told "
    "talk like let "
    "lets one hey hi hello yeah wow oh ah ok okay sure thanks thank please sorry well great good nice awesome "
    "amazing cool "
    "glad happy love bye definitely totally super pretty quite even still ever always never now s t re ve ll d m "
    "don didn "
    "isn won doesn couldn wasn aren haven "
    "der die das ein eine einen einem einer und oder ist war sind ich du er sie es wir ihr mir mich dich sich "
    "den dem des im "
    "auf für mit von zu zum zur bei nicht noch schon auch aber wie dass habe haben hat wird werden kann "
    "le la les un une et ou est sont je tu il elle nous vous ils de au aux en dans pour avec que qui ne pas ce "
    "cette sur du "
    "el los las una y o son yo él ella se lo con por para del al gli che di da per è sono não um uma os na no em "
    "para com "
    "и в на не что я ты он она мы вы они это как с по у за к из".split()
)
#: Before these a dot ends no sentence.
ABBREVIATIONS = ("Dr", "Mr", "Ms", "St", "Mrs", "Prof", "e.g", "i.e", "vs", "Nr", "No", "bzw", "z.B", "Sr", "Sra", "ca")

"""The words that the engine knows, a line a family of languages. Every other word is only compared.

In a table ``*`` ends a stem and ``_`` stands for a space. Scripts without spaces have signs for words.
"""

from __future__ import annotations

import re
from itertools import groupby
from operator import itemgetter

#: The first character of the scripts without spaces.
FIRST_UNSPACED = "\u0e00"


def compiled(listed: str, *patterns: str) -> re.Pattern[str]:
    """Whole words of a list, signs wherever they stand, and patterns."""
    told = [re.escape(one).replace(r"\*", r"\w*").replace("_", r"\s").replace("'", "['’]") for one in listed.split()]
    signs = [one for one in told if one >= FIRST_UNSPACED]
    # By their first letters: of a long list each word would be tried at each place.
    words = groupby(sorted({*told} - {*signs}), itemgetter(0))
    branches = "|".join(f"{first}(?:{'|'.join(one[1:] for one in same)})" for first, same in words)
    found = [rf"\b(?:{branches})(?!\w)" if branches else "", *signs, *patterns]
    return re.compile("|".join(filter(None, found)), re.IGNORECASE)


#: Denies or limits.
NEGATION = compiled(
    """no not never nope nah none nor cannot dont without except unless neither nobody nothing nein nicht kein* nie
    niemals außer bevor nee niet geen nooit non ne pas jamais sans aucun* sauf ni nunca sin ningún* excepto senza
    mai não sem nenhum* нет не никогда без кроме bez není inte ikke aldrig ei değil لا لم لن ليس نه नहीं मत 不 没
    沒 别 勿 無 无 未 ない ません なし 아니 않 없 못 ไม่ อย่า""",
    r"\b[a-z]+n['’]t\b",
)
#: Takes something back or replaces it.
REVERSAL = compiled(
    """cancel* stop hold_on scratch scrap i_object nonsense kidding joking jk wrong mistake* mistaken* mixed
    incorrect* correction actually instead anymore any_more no_longer called_off is_off are_off forget_it
    forget_that never_mind nevermind revoke* withdr* reject* declin* refus* postpone* moved changed_to changed_my
    reverted undo ignore_that disregard sorry, wait, oops swap* switch* skip leave_out left_out leave_it drop_it
    rather replace* dropped halt warte abgesagt doch_nicht verschoben falsch stimmt_nicht statt* quatsch afgelast
    toch_niet annul* plutôt finalement faux reporté* cancelad* equivocad* mejor_no en_vez annullat* sbagliat*
    errad* отмен* ошиб* неверно вместо перенес* 取消 改成 改到 改为 错了 錯了 作废 不对 等等 キャンセル 間違 中止
    退了 取り消 待って 취소 잘못""",
    r"^\*(?=\w)",
)
#: A standing rule, wish or decision, where a person says so.
RULE = compiled(
    """prefer* favour* favor* would_rather i'd_rather we'd_rather i'd_like we'd_like can't_stand fond_of favourite
    favorite hate hates likes decided agreed settled chose chosen picked opted voted go_with going_with went_with
    stay_with stick_with go_for it_is_then let's we'll from_now_on in_the_end should shall needs want insist
    adore* lean leaning dislike* suits lieber sollte* soll sollen entschieden vereinbart préfèr* décidé prefier*
    decidi* preferisc* deciso prefiro voorkeur besloten предпочита* решил* 决定 更喜欢 总是 希望 いつも てください
    決め 항상 주세요""",
    r"(?:^|[;:] |, so )(?:please,? )?(?:be|use|keep|report|ask|avoid|make sure|leave|write|give|send|call|check|speak|"
    r"reply|answer|each|every|all|any\w*) \w",
    r"\b(?:has|have|ought) to\b",
)
#: Of these, those that forbid or demand: they come before everything else.
FIRM = compiled(
    """must mustn't shouldn't should_not may_not shall_not not_to supposed_to not_allowed not_permitted forbid*
    prohibit* banned taboo hands_off off-limits off_limits no_exception* on_no_account under_no_circumstance*
    strictly mandatory compulsory require requires required at_all_costs deadline at_most at_least at_the_latest
    no_more no_later no_earlier limited_to confidential allerg* intoleran* vegan vegetarian diabet* asthma* refuse
    insist ensure remember_to don't_forget make_sure without_my niemals nie darf* dürfen muss müssen keinesfalls
    auf_keinen_Fall verboten spätestens höchstens mindestens immer jamais interdit* il_faut doit doivent toujours
    nunca prohibid* debe* hay_que siempre mai deve* vietat* sempre nooit moet verboden нельзя никогда должен
    запрещ* всегда 必须 必須 绝对 不能 禁止 不许 不要 不得 必ず 決して てはいけ 반드시 절대 안_돼 마세요""",
    # Not of what was or is: "he always came".
    r"(?<!have )(?<!has )(?<!had )(?<!['’]ve )\b(?:never|always)\b(?! (?:been|mind|said|had|was|were|is|are|\w+ed)\b)",
    # What begins a sentence or a part of one: "…, so nobody opens it", "no visitors before noon".
    r"(?:^|[,;:.!–—] |\b(?:please|and|but|so) )(?:do not|don['’]t|nobody|no one|nothing|only|no \w+ \w+)\b"
    r"(?! (?:else|knows?|knew|said|saw|went|came|got|took|did|had|was|were|\w+ed)\b)",
    r"(?:\b(?:no|not|never|nobody|nothing)|n['’]t) .{1,40}\b(?:before|until|till|unless|without)\b",
    r"(?<!\bi )(?<!\bhe )(?<!\bshe )(?<!\bit )(?<!\bthey )\b(?:can['’]?t|cannot)\b",
    r"\b(?:keep|kept|stays?|leave)\b.{0,30}\b(?:away|off|out|alone|closed|locked|secret|private|untouched|as is)\b",
)
#: What only looks like a rule: idioms, and comments of a model or a tool.
IDLE = compiled(
    """let's_go_on let's_see have_to_run don't_have_to doesn't_have_to don't_need_to no_problem no_worries no_idea
    no_doubt no_wonder no_thanks no_rush no_way no_longer not_yet not_really not_sure not_bad not_at_all""",
    r"\((?:assistant|tool|summary)\b(?:[^()]|\(\d{4}(?:-\d\d){0,2}\))*\)",
    r"\b(?:you )?must (?:have|feel|say|admit|be)\b",
    r"\bcan['’]?t (?:wait|believe|imagine|complain|say|help|tell|remember)\b",
    r"\b(?:don['’]t|do not|never) (?:worry|mention it|know|think|mind|believe|remember)\b",
)
#: Makes a statement less than certain.
HEDGE = compiled(
    """if unless whether think thought guess maybe perhaps probably possibly might could hope suppose* allegedly
    rumour* heard unsure wenn falls vielleicht glaube angeblich si peut-être quizá* tal_vez talvez se forse если
    может возможно 如果 要是 可能 也许 もし たぶん かもしれ 만약 아마""",
)
#: Limits what it stands beside; in the line above a list: its items hold together.
LIMIT = compiled(
    """only if unless except provided all_of both nur wenn falls außer seulement si solo sólo se только если 只有
    如果 除非 のみ 만""",
)
#: Begins what holds only for the sentence before.
CONDITION = compiled(
    """only_if only_when only_after only_until only_with only_for only_from but_only unless except other_than
    apart_from provided anybody_but anyone_but anything_but all_but as_long_as not_before not_until not_without
    depends_on subject_to assuming nur_wenn nur_falls nur_mit nur_nach außer es_sei_denn nicht_ohne nicht_vor
    seulement_si sauf à_moins pas_sans pas_avant solo_si sólo_si salvo a_menos_que no_sin solo_se tranne non_senza
    tenzij только_если кроме 只有 除非 ただし""",
)
#: Begins a sentence about somebody, or something, of the one before.
PRONOUN = compiled(
    """he she it they his her their this these those er sie es ihr* dies* il elle ils elles cela él ella ellos esto
    eso lui lei loro ele ela eles он она оно они его её это 他 她 它 这 那 彼 それ これ 그는 그녀 그것""",
)
#: The same inside a sentence: "Never paint it before Monday."
OBJECT = compiled("it them him ihn ihm ihnen")
#: Begins a question, where no mark ends it.
QUESTION = compiled(
    "",
    r"^(?:can|could|may|shall|should|do|does|did|will|would|is|are|was|were|have|has) (?:i|we|you|he|she|they|it|"
    r"there|anybody|anyone|somebody|someone)\b",
    r"^(?:what|when|where|who|whom|why|which|how)(?: one| about| many| much| long| often)? (?:is|are|was|were|do|"
    r"does|did|can|could|shall|should|will|would|may|have|has) (?:i|we|you|he|she|they|it|the|my|our|your|this|"
    r"that|there)\b",
)
#: How a tool's work ended, and what it changed.
OUTCOME = compiled(
    """error* fail* pass passed exception* traceback fixed succe* warning* denied timeout timed_out killed commit*
    deploy* created wrote written edited updated deleted removed moved merged exit rejected refused not_found""",
    r"^\+\+\+ (?=\w)",
)
#: That it did not end well.
FAILURE = compiled(
    "error* fail* exception* traceback denied timeout timed_out killed rejected refused not_found cannot"
)
#: Begins a brief answer that makes somebody else's proposal one's own.
ACCEPTANCE = compiled(
    """yes agreed agree good_idea accept* deal approved yes_please do_that do_it go_ahead go_with sounds_good
    let's_do works_for_me einverstanden abgemacht machen_wir d'accord de_acuerdo d'accordo договорились согласен
    同意 賛成 동의""",
)
#: What a model proposes, so that it can be accepted.
PROPOSAL = compiled(
    """would should shall will could may can let's i'd i'll suggest* propos* recommend* plan* würde sollte schlage
    propongo propose* debería sugiero предлагаю 建议 提案 하겠""",
)
#: Begins a sentence that speaks of the one before, as a pronoun does.
POINTER = compiled(
    "that but and or so because then though however also only hm hmm well rather das aber und ça mais et pero y ma e но"
)
#: What people say of themselves and their own.
FIRST_PERSON = compiled(
    """i my me we us our ich mein* wir unser* ik mijn wij onze je mon mes ma nous notre nos yo mi mis nuestr* eu meu
    minha nós io mio mia noi nostro я мой моя мы наш* 我 私 僕 나는 우리 저는""",
    r"\b(?:i|we)['’](?:m|ve|d|ll|re)\b|\bj['’]",
)
#: What people paste, where they say so and it is not their own; what they say of it; what they ask about it afterwards.
PASTED = compiled(
    """邮件 郵件 メール""",
    r"(?<!my )(?<!our )\b(?:(?:e-?)?mails?|letter|messages?|logs?|readme|article|post|ticket|output|transcript|tweet|"
    r"comment|review|contract|story|poem|sms|newsletter|advert|leaflet|nachricht|brief|artikel|courriel|lettre|"
    r"correo|carta|lettera|письмо)\b",
)
PASTES = compiled("translate summari* proofread shorten explain check says said wrote writes sent got received")
OWN_WORDS = compiled(
    """i i'm i’m we what is are please can could should shall how why do does did was would tell help reply answer
    ich wie ist bitte je que est-ce qué es cosa что как"""
)
#: Words that tell nothing by themselves.
STOP = frozenset(
    """a an the of to in on at and or is was were are be been being am it its i me my mine you your yours he him his
    she her hers they them their theirs we us our ours this that these those as from by for with about into out up
    down over under again but if then than too very just so do does did done doing have has had having will would
    shall can could should may might not no yes what which who whom whose when where why how there here all any
    some more most much many also really get got getting go going gone went come came make made take took thing
    things something anything everything know think see seen look looks looking feel feels hear heard sound sounds
    say said tell told talk like let lets one hey hi hello yeah wow oh ah ok okay sure thanks thank please sorry
    well great good nice awesome amazing cool glad happy love bye definitely totally super pretty quite even still
    ever always never now s t re ve ll d m don didn isn won doesn couldn wasn aren haven der die das ein eine
    einen einem einer und oder ist war sind ich du er sie es wir ihr mir mich dich sich den dem des im auf für mit
    von zu zum zur bei nicht noch schon auch aber wie dass habe haben hat wird werden kann le la les un une et ou
    est sont je tu il elle nous vous ils de au aux en dans pour avec que qui ne pas ce cette sur el los las una y
    o son yo él ella se lo con por para del al gli che di da per è sono não um uma os na em com и в на не что я ты
    он она мы вы они это как с по у за к из""".split()
)
#: Of these words a reply is made that says nothing but that it was heard.
ACKNOWLEDGEMENT = STOP | frozenset(
    """all right alright noted understood got glad hear welcome course fine perfect exactly absolutely hmm indeed
    true makes sense done enjoy congratulations lovely clear agreed hope so will keep mind in better sounds
    morning evening night danke dank vielen gut guten guter gute morgen tag abend nacht hallo bitte alles klar
    verstanden notiert ordnung natürlich gern gerne schön schade merci bien entendu gracias vale entendido grazie
    capito obrigado entendi спасибо хорошо понятно 好的 好 谢谢 明白 了解 记住了 知道了 记下了 我记下了 没问题
    再见 はい 了解です わかりました ありがとう 네 알겠습니다 감사합니다""".split()
)
#: A dot behind these ends no sentence; nor behind a number that follows one of these, or stands before one of these.
ABBREVIATIONS = "Dr Mr Ms St Mrs Prof e.g i.e vs Nr No bzw z.B Sr Sra ca Fa Hr".split()
ORDINAL_ARTICLES = "im am zum vom der den dem des".split()
MONTHS = "(?i:jan|feb|mär|mar|apr|mai|maj|jun|jul|aug|sep|okt|nov|dez|des)"
#: Words of a language that gives every noun a capital.
CAPITALIZES = re.compile(r"\b(?:der|das|und|ist|nicht|ich|wir|ein|eine|einen|den|dem|mit|auf|für|vom|zum|wird|sind)\b")

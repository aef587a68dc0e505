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
    niemals außer bevor nee niet geen nooit non ne pas jamais sans aucun* sauf ni nunca sin ningún* excepto senza mai
    não sem nenhum* нет не никогда без кроме bez není inte ikke aldrig ei değil لا لم لن ليس نه नहीं मत 不 没 沒 别 勿
    無 无 未 ない ません なし 아니 않 없 못 ไม่ อย่า""",
    r"\b[a-z]+n['’]t\b",
)
#: Takes something back or replaces it.
REVERSAL = compiled(
    """cancel* stop hold_on scratch scrap i_object nonsense kidding joking jk wrong mistake* mistaken* mixed incorrect*
    correction actually instead anymore any_more no_longer called_off is_off are_off forget_it forget_that never_mind
    nevermind revoke* withdr* reject* declin* refus* postpone* moved changed_to changed_my reverted undo ignore_that
    disregard sorry, wait, oops swap* switch* skip leave_out left_out leave_it drop_it rather replace* dropped halt
    warte abgesagt doch_nicht verschoben falsch stimmt_nicht statt* quatsch afgelast toch_niet annul* plutôt finalement
    faux reporté* cancelad* equivocad* mejor_no en_vez annullat* sbagliat* errad* отмен* ошиб* неверно вместо перенес*
    取消 改成 改到 改为 错了 錯了 作废 不对 等等 キャンセル 間違 中止 退了 取り消 待って 취소 잘못""",
    r"^\*(?=\w)",
)
#: Bounds what is allowed or demanded: with a denial it is a firm rule, in whatever words.
BOUND = compiled(
    """only before after until any* ever either first approv* permission consent signed nur vor nach bis zuerst avant
    après seulement antes después solo prima dopo depois voor alleen до после только 之前 以前 以后 只 まで 前に 以外
    だけ 전에 만""",
)
#: A standing rule, wish or decision, where a person says so.
RULE = compiled(
    """prefer* favour* favor* would_rather i'd_rather we'd_rather i'd_like we'd_like i'd_love we'd_love would_love
    can't_stand cannot_stand fond_of keen_on keenest fan_of fancy fancies happiest partial_to hates favourite favorite
    ideal* to_my_taste up_to_me suits works_best easier_for sick_of rather_have likes decided agreed settled chose
    chosen picked opted voted final definitive* plumped go_with going_with went_with stay_with stick_with sticking_with
    go_for going_for it_is_for it_is_then going_to_be we'll we_will let's in_favour_of it's_a_deal done_deal
    end_of_discussion from_now_on from_here_on as_of_today as_of_now made_up in_the_end on_second_thought* should shall
    adore* suits_me lean leaning appeal* soft_spot would_be_nice would_be_great would_be_lovely would_be_good
    would_be_welcome wouldn't_mind dislike* better_for_me beats my_taste i'd_pick i'd_take gefällt am_liebsten concluded
    resolved my_choice changed_my_mind verdict consensus elected endorsed accepted awarded went_for landed_on my_pick
    gave_up we_took i'll_take zugestimmt geeinigt nehmen_wir choisi acordado bevorzug* entschieden vereinbart lieber
    sollte* soll sollen préfèr* décidé prefier* decidi* preferisc* deciso prefiro decidimos voorkeur besloten
    предпочита* решил* يجب ممنوع musí mora måste 决定 更喜欢 总是 永远 希望 いつも てください 決め 항상 주세요""",
    r"(?:^|[;:] |, so )(?:please,? )?(?:never|always|do not|don['’]t|no \w+ \w+|only|nobody|use|keep|report|ask|avoid|"
    r"make sure|stick|leave|write|give|send|call|check|be|speak|reply|answer|hold|wear|retain|feed|spend|cite|quote|"
    r"exclude|hide|mask|treat)\b",
    r"\b(?:i|we) (?:want|need|insist|like|love|hate|take|accept|approve)\b(?! to (?:know|see|hear|say|ask|go|"
    r"thank)\b)|\bwe(?:['’]re| are) (?!(?:not|all|in|on|at|the|a|so|now|here|there|talking|looking)\b)\w+",
    r"^(?:each|every|all|any|anyone|anybody|whoever|wherever) (?=\w+ \w)(?!(?:right|good|best|day|time|i|in|of|the|my|"
    r"four|three|news|idea|luck)\b)(?!.*\b(?:was|were|had|did|\w+ed (?:the|a|in|at|to))\b)",
    r"\b(?:has|have|needs?|ought) to\b",
)
#: Of these, those that forbid or demand: they come before everything else.
FIRM = compiled(
    """must mustn't shouldn't need_not may_not shall_not should_not had_better is_to_be are_to_be not_to_be supposed_to
    forbid* prohibit* ban bans banned taboo hands_off not_allowed not_permitted not_acceptable not_negotiable
    non-negotiable off-limits off_limits off_the_table out_of_bounds out_of_the_question no-go on_no_account by_no_means
    under_no_circumstance* in_no_case in_no_way no_exception* no_matter_what no_matter_who at_no_time at_no_point
    strictly exclusively solely mandatory obligatory compulsory require requires required whatever_happens read-only
    read_only at_all_costs at_any_cost at_all_times deal-breaker essential vital crucial imperative paramount sacrosanct
    by_law illegal full_stop end_of_story i_mean_it not_even even_if whatsoever ensure see_to_it every_time
    every_single_time if_in_doubt when_in_doubt don't_forget do_not_forget remember_to remember_that be_careful
    careful_with watch_out bear_in_mind keep_in_mind promise_me need_you_to want_you_to expect_you_to trust_you_to
    won't_have won't_accept won't_tolerate can't_have can't_accept can't_allow not_a_word my_ok my_okay my_go-ahead
    my_say-so my_approval my_sign-off my_permission my_consent allerg* intoleran* vegan vegetarian kosher halal diabet*
    coeliac celiac asthma* epilep* poison* toxic lethal fatal hazard* flammable capped_at limited_to limit_is
    reserved_for restricted_to confidential classified under_wraps embargo* eyes_only anything_but not_an_option
    nobody's_business beware refrain avoid deadline at_most at_least at_the_latest barred hard_cap ceiling
    zero_tolerance insist insists refuse demand not_authori* nowhere_else verbatim penalty sign-off i_forbid hay_que
    niemals nie darf* dürfen muss müssen keinesfalls auf_keinen_Fall verboten spätestens höchstens mindestens jamais
    interdit* il_faut doit doivent au_plus_tard nunca jamás prohibid* debe* siempre mai_più deve* vietat* proibid* nooit
    mag_niet moet verboden нельзя никогда должен должны запрещ* всегда immer toujours sempre altijd 必须 必須 绝对 不能
    禁止 不许 不要 不得 不可 必ず 決して てはいけ ないで 반드시 절대 안_돼 마세요""",
    r"(?<!['’]d )(?<!['’]ve )(?<!has )(?<!have )(?<!had )\b(?:never|always)\b(?! (?:have|been|mind|said|had|was|were|"
    r"is|are|knew|thought|went|came|got|felt|saw|heard|made|took|\w+ed|\w+[^s]s)\b)",
    # What begins a sentence or a part of one: "…, so nobody opens it", "no visitors before noon", "and ask me first".
    r"(?:^|[,;:.!–—] |\b(?:please|and|but|so|also) )(?:(?:do not|don['’]t|never|nobody|no one|none of|nothing|"
    r"not (?:a|an|one)|neither)\b(?! (?:else|knew|said|saw|went|came|got|took|did|had|was|were|under|\w+ed)\b)|"
    r"no \w+\W*$|no (?:\w+[ -]){1,3}?(?:in|on|at|for|to|from|of|with|without|before|after|until|till|unless|near|"
    r"during|while|by|into|over|is|are|may|can|goes|gets?|leaves?|enters?|ever|either)\b|"
    r"(?:get|have|wait|show|verify|test|read|back up|see|ask|check|talk|speak|clear|confirm|call|ring|warn|tell|inform|"
    r"consult|notify)\b.{0,40}\b(?:first|before|beforehand|until|till)\b|"
    r"(?:go|come|run|pass|route|refer|forward|direct|leave|send|bring)\b.{0,30}\b(?:through|past|to|by|via|with) "
    r"(?:me|us)\b)|\b(?:goes|must go|run (?:it|this|that|them|everything)) (?:through|past|by)\b",
    r"\b(?:keep|kept|keeps|stays?|stand|steer|leaves?|holds?|remains?|lock)\b.{0,30}\b(?:away|off|out|clear|alone|back|"
    r"closed|locked|shut|sealed|secret|private|confidential|quiet|put|inside|indoors|apart|separate|untouch\w*|"
    r"unchanged|up|between us|as (?:it|they) (?:is|are)|as is|under|below|within|between|above)\b",
    r"\b(?:may|can|is|are|goes?|allowed|works?|valid|open) only\b|\bonly (?:with|if|when|after|from|by|in|at|on|for|"
    r"to|once|during|between|where|through|via)\b|\bonly\W*$|\bonly (?:\w+ ){1,3}(?:may|can|must|is|are|has)\b",
    # A verb in the present behind these is still to come: "till the lab says so", "before you do anything".
    r"\b(?:until|till|unless|before) (?:you|any\w*|(?:\w+ ){1,4}?(?:has|have|is|are|says?|signs?|gives?|approves?|"
    r"confirms?|agrees?|okays?|knows?|clears?|checks?|comes?|goes|reviews?))\b(?! (?:\w+ )?(?:\w+ed|was|were|had|got|"
    r"went|came|did|said|knew|left)\b)",
    r"\bwithout (?:\w+['’]s|\w+) (?:\w+ ){0,2}?(?:ok(?:ay)?|go[- ]ahead|say[- ]so|blessing|sign[- ]?off|approval|"
    r"permission|consent|knowledge|agreement|signature|number|word|nod|supervision|review)\b",
    r"\b(?:make|be|making|being) (?:very |absolutely )?(?:sure|certain)\b(?! (?:i|we)\b)",
    r"\b(?:everyone|everybody|anyone|anybody|who|you|he|she|they|it|each|every \w+|the \w+|all \w+) (?:(?!will\b)\w+ )"
    r"{0,3}?(?:has|have|needs?|ought) to\b",
    r"(?<!\bi )(?<!\bhe )(?<!\bshe )(?<!\bit )(?<!\bthey )\b(?:can['’]?t|cannot) (?!be (?:true|right|so)\b)",
    r"\b(?:is|are|isn['’]t|aren['’]t|['’]re)(?: not)? to (?!the\b|my\b|a\b)(?<!plan is to )(?<!goal is to )\w+",
    r"\b(?:do not|does not|don['’]t|doesn['’]t) (?:go|get|leave|allow|accept|eat|drink|permit|tolerate|enter|touch)\b",
    r"^(?!(?:made|got|had|has|have|there|saw|is|was|felt|found|i|we|you|he|she|they|it)\b)\w+ (?:nothing|no|none of)\b",
    r"\bneeds? (?:\S+ ){0,3}?(?:ok(?:ay)?|sign-?off|permission|approval|consent|signature|go-ahead|certificate)\b",
    r"\b(?:no|not|nothing|never) (?:more|less|fewer|later|earlier|longer|higher|lower|over|above|below|beyond|under|"
    r"sooner|bigger|larger|heavier|shorter)\b|\b(?:max|min)(?:imum)?\.? (?:of )?\d|(?<!\S)(?=\S*\d)\S+ (?:max|tops)\b|"
    r"\b(?:not|never) exceed\b",
)
#: What only looks like a rule: idioms, what people say of themselves and of the past, and comments of a model or tool.
IDLE = compiled(
    """let's_go_on let's_move_on let's_see have_to_run it_must_be_said always_a_pleasure always_nice always_good
    always_fun don't_have_to doesn't_have_to don't_need_to doesn't_need_to didn't_have_to nobody_knows before_i_forget
    only_wish only_hope only_if_you_want every_time_i every_time_we no_end_in_sight no_problem no_worries no_idea
    no_doubt no_wonder no_thanks no_thank_you no_rush no_hurry no_way no_luck no_news no_clue no_longer not_now not_yet
    not_really not_sure not_bad not_at_all not_too""",
    r"\((?:assistant|tool|summary)\b(?:[^()]|\(\d{4}(?:-\d\d){0,2}\))*\)",
    r"\b(?:he|she|they|it|my \w+)(?:['’]\w+)? (?:\w+ )?(?:never|always)\b|\byou must be\b|\byou (?:never|always) "
    r"(?:say|said|told)\b|^must\b|\bmust (?:have|feel|say|admit|confess|run|go now|dash|look|be (?:the|a|an|so|very|"
    r"nice|hard|great|fun|special|kidding|joking|wonderful|tough|amazing|exciting|exhaust\w+))\b",
    r"\bcan['’]?t (?:wait|believe|imagine|complain|say|help|tell|remember|sleep|decide)\b|\b(?:don['’]t|do not|not|"
    r"never) (?:worry|mention it|know|think|mind|believe|remember|get me wrong|be (?:silly|sorry|afraid))\b",
)
#: Makes a statement less than certain.
HEDGE = compiled(
    """if unless whether think thought guess maybe perhaps probably possibly might could hope suppose* allegedly rumour*
    heard unsure wenn falls vielleicht glaube angeblich si peut-être quizá* tal_vez talvez se forse если может возможно
    如果 要是 可能 也许 もし たぶん かもしれ 만약 아마""",
)
#: In the line above a list: its items hold together.
LIMIT = compiled(
    """only if unless except provided all_of both nur wenn falls außer seulement si solo sólo se только если 只有 如果
    除非 のみ 만""",
)
#: Begins what holds only for the sentence before.
CONDITION = compiled(
    """only_if only_when only_after only_until only_with only_for only_on only_in only_at only_from but_only unless
    except other_than apart_from aside_from provided anybody_but anyone_but anything_but everybody_but everyone_but
    all_but as_long_as not_before not_until not_without not_unless depends_on subject_to assuming nur_wenn nur_falls
    nur_mit nur_nach außer es_sei_denn nicht_ohne nicht_vor seulement_si sauf à_moins pas_sans pas_avant solo_si sólo_si
    salvo a_menos_que no_sin no_antes solo_se tranne non_prima non_senza a_não_ser tenzij alleen_als только_если кроме
    只有 除非 ただし""",
)
#: Begins what is not so: all that follows in the message stands under it.
FRAME = compiled(
    """imagine suppose pretend hypothetical* what_if let's_say in_the_story in_this_scenario for_the_exam angenommen
    stell_dir_vor imaginons supposons imagina supongamos immagina представь 假设 假如 想象 仮に 가정""",
)
#: Begins a sentence about somebody, or something, of the one before.
PRONOUN = compiled(
    """he she it they his her their this these those er sie es ihr* dies* il elle ils elles cela él ella ellos esto eso
    lui lei loro ele ela eles он она оно они его её это 他 她 它 这 那 彼 それ これ 그는 그녀 그것""",
)
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
#: A brief answer that makes somebody else's proposal one's own.
ACCEPTANCE = compiled(
    """yes agreed agree good_idea accept* deal approved yes_please do_that do_it go_ahead go_with sounds_good fine_by_me
    works_for_me let's_do einverstanden abgemacht machen_wir d'accord de_acuerdo d'accordo договорились согласен 同意
    就这样 賛成 それで 동의""",
)
#: What a model proposes, so that it can be accepted.
PROPOSAL = compiled(
    """would should shall will could may can let's i'd i'll suggest* propos* recommend* plan* option* würde sollte
    schlage propongo propose* debería sugiero предлагаю 建议 提案 하겠""",
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
    """i i'm i’m we what is are please can could should shall how why do does did was would tell help reply answer ich
    wie ist bitte je que est-ce qué es cosa что как"""
)
#: Words that tell nothing by themselves.
STOP = frozenset(
    """a an the of to in on at and or is was were are be been being am it its i me my mine you your yours he him his she
    her hers they them their theirs we us our ours this that these those as from by for with about into out up down over
    under again but if then than too very just so do does did done doing have has had having will would shall can could
    should may might not no yes what which who whom whose when where why how there here all any some more most much many
    also really get got getting go going gone went come came make made take took thing things something anything
    everything know think see seen look looks looking feel feels hear heard sound sounds say said tell told talk like
    let lets one hey hi hello yeah wow oh ah ok okay sure thanks thank please sorry well great good nice awesome amazing
    cool glad happy love bye definitely totally super pretty quite even still ever always never now s t re ve ll d m don
    didn isn won doesn couldn wasn aren haven der die das ein eine einen einem einer und oder ist war sind ich du er sie
    es wir ihr mir mich dich sich den dem des im auf für mit von zu zum zur bei nicht noch schon auch aber wie dass habe
    haben hat wird werden kann le la les un une et ou est sont je tu il elle nous vous ils de au aux en dans pour avec
    que qui ne pas ce cette sur el los las una y o son yo él ella se lo con por para del al gli che di da per è sono não
    um uma os na em com и в на не что я ты он она мы вы они это как с по у за к из""".split()
)
#: Of these words a reply is made that says nothing but that it was heard.
ACKNOWLEDGEMENT = STOP | frozenset(
    """all right alright noted understood got glad hear welcome course fine perfect exactly absolutely hmm indeed true
    makes sense done enjoy congratulations lovely clear agreed hope so will keep mind in better sounds morning evening
    night danke dank vielen gut guten guter gute morgen tag abend nacht hallo bitte alles klar verstanden notiert
    ordnung natürlich gern gerne schön schade merci bien entendu gracias vale entendido grazie capito obrigado entendi
    спасибо хорошо понятно 好的 好 谢谢 明白 了解 记住了 知道了 记下了 我记下了 没问题 再见 はい 了解です わかりました
    ありがとう 네 알겠습니다 감사합니다""".split()
)
#: A dot behind these ends no sentence; nor behind a number that follows one of these, or stands before one of these.
ABBREVIATIONS = "Dr Mr Ms St Mrs Prof e.g i.e vs Nr No bzw z.B Sr Sra ca Fa Hr".split()
ORDINAL_ARTICLES = "im am zum vom der den dem des".split()
MONTHS = "(?i:jan|feb|mär|mar|apr|mai|maj|jun|jul|aug|sep|okt|nov|dez|des)"
#: Words of a language that gives every noun a capital.
CAPITALIZES = re.compile(r"\b(?:der|das|und|ist|nicht|ich|wir|ein|eine|einen|den|dem|mit|auf|für|vom|zum|wird|sind)\b")

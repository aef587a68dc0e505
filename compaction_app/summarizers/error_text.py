"""Recognizes an error or a refusal that a gateway or a model returned as an ordinary reply, with status 200. Pure.

A summary may speak of errors, so the form counts: a JSON object that reports an error, a page of HTML, or a short text
without a heading that *begins* as an error message or as a refusal. A summary is asked for headings and speaks of the
user; an error message does neither. Only a refusal to do the very task counts whatever else it says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

#: A longer text, or one with a heading, is a summary: summarizers are asked for headings.
_LONGEST = 1_500
#: A request to try again is an error message only in a text of at most this many characters.
_LONGEST_NOTICE = 400
_CODE_FENCE = re.compile(r"\A```[a-zA-Z]*\n(.*?)\n?```\Z", re.DOTALL)
#: How a stream of events begins that a gateway returned as text.
_STREAM = re.compile(r"\A(?:event: ?\w+\s+)?data: ?(?=[{\[])")
_PAGE = re.compile(
    r"<!doctype html|<html\b[^>]*>\s*<(?:head|body|title)|<html\b.*</(?:html|head|body|title)>"
    r"|<(?:head|title)>.*</title>|<\?xml\b.*</\w",
    re.IGNORECASE | re.DOTALL,
)
#: Keys of a JSON object that only says why there is no answer.
_SAYING = ("message", "msg", "detail", "reason", "error_description")
_ERROR_KEYS = ("error", "errors", "error_code", "error_message", "errormessage", "fault")
_HEADING = re.compile(r"^#{1,6} ", re.MULTILINE)
#: Above an apology a model writes the heading that it was asked for.
_FIRST_HEADINGS = re.compile(r"\A(?:#{1,6} [^\n]*\n+)+")
_NOTHING = re.compile(r"(?:(?:null|none|nil|undefined|nan|n/a)\W*)+", re.IGNORECASE)
#: Characters that a JSON object holds beside its error where it is a summary.
_CONTENT_BESIDE = 200
_SPEAKS_OF_THE_USER = re.compile(
    r"\b(?:the|our) users?\b|\bnutzer|\bbenutzer|\butilisat(?:eur|rice)|\busu[aá]ri[oa]|\bl['\u2019]utente\b"
    r"|пользовател|用户(?!额度)|用戶|使用者|利用者|ユーザー|사용자|المستخدم|użytkowni|\bgebruiker|kullanıcı|उपयोगकर्ता",
    re.IGNORECASE,
)


def _beginning(*patterns: str) -> re.Pattern[str]:
    """One of the patterns, after quotes, brackets, emphasis marks, or signs such as a warning triangle."""
    return re.compile(r"[^\w<{]*+(?:" + "|".join(patterns) + ")", re.IGNORECASE)


_SORRY = (
    r"(?:(?:oh|well|hmm),? )?(?:i(?:['\u2019]m| am) (?:very |so |really |truly )?(?:sorry|afraid)|sorry"
    r"|(?:my |our )?apologies|(?:i|we) apologi[sz]e|unfortunately|regrettably)"
)
_UNABLE = (
    "(?:(?:i(?:['\u2019]m| am)|we(?:['\u2019]re| are)) (?:not (?:able|allowed|permitted|comfortable)|unable)"
    "|(?:i|we) (?:can(?:not|['\u2019]?t| not)|won['\u2019]?t|will not|could(?: not|n['\u2019]?t)"
    "|(?:must|have to|need to) (?:\\w+ )?decline"
    "|do(?: not|n['\u2019]?t) (?:have|see|feel comfortable)))"
)
#: "I" is the model itself: a summary calls the user "the user", and the assistant "you".
_REFUSAL = _beginning(
    rf"(?:{_SORRY}\b.{{0,60}}?)?\b{_UNABLE}\b.{{0,40}}?\b(?:help|assist|summar|compl[yi]|fulfil|provide|process|answer"
    r"|respond|continue|creat|generat|discuss|engage|do (?:that|this)|access|conversation|request|content|messages?\b)",
)
_STATUS = (
    "(?:bad request|unauthori[sz]ed|payment required|forbidden|access denied|permission denied|request time-?out"
    "|payload too large|too many requests|internal (?:server )?error|bad gateway"
    "|service (?:temporarily |is |currently )?unavailable|gateway time-?out|overloaded)"
)
_ERROR_WORD = "(?:error|fehler|erreur|erro|errore|fout|hata|błąd|ошибка)"
_THING = (
    r"(?:(?:the|that|this|your|our|an?) )?(?:\w+ )?"
    "(?:request|response|prompt|completion|output|content|message|connection|operation|model|server|engine|service"
    "|backend|api|account|subscription|api key)"
)
#: How error messages of servers, gateways and libraries begin.
_ERROR = _beginning(
    # "API Error: 500", "Error code: 429", "Erreur 503", "Error 1015:"
    rf"(?:\w+ ){{0,2}}{_ERROR_WORD}(?: code| message| response)?[\])]?\s*[:#-]*\s*(?:http )?"
    r"(?:[45]\d\d\b|\d{3,5}\s?:)",
    # "Error: …", "[ERROR] …", "Upstream error: …"
    rf"(?:\w+ ){{0,2}}{_ERROR_WORD}(?:\]|\)?\s?[:\u2014\uff1a-])\s",
    # "openai.RateLimitError: …", "java.io.IOException: …"
    r"(?-i:(?:\w+\.)*[A-Z]\w+(?:Error|Exception)|(?:\w+\.)+[A-Z]\w+|(?:\w+\.)+\w*(?:error|exception)):\s",
    r"traceback \(most recent call last\)",
    # "HTTP 502: Bad Gateway"; "Service Unavailable" as a sentence or line of its own
    rf"(?:http(?:/[\d.]+)? ?)?(?:status (?:code )?)?[45]\d\d[:,. -]+\(?{_STATUS}(?=\W*(?:\Z|\n|[.:;!)]))",
    rf"{_STATUS}(?=\W*(?:\Z|\n|[.:;!]))",
    r"request failed with status",
    "upstream (?:connect error|request timeout)",
    "no healthy upstream",
    "this model'?s maximum context length",
    r"(?:cuda|gpu|torch)?\W*out of memory\b",
    # "The request timed out", "The AI model encountered an issue", "Your account has been suspended"
    rf"{_THING} (?:[`'\"][^`'\"\n]{{1,80}}[`'\"] )?(?:has |was |is |had |have |been |currently |temporarily )*"
    r"(?:timed out|failed\W*(?:\Z|\n|[.:;!]|please|with|due|because)"
    r"|(?:blocked|filtered|rejected|denied|flagged|refused)\b|overloaded|unavailable|busy|loading|suspended|disabled"
    r"|deactivated|unable|encountered|an error|does not exist|not (?:found|available|supported)|cancel+ed due)",
    r"(?:content|response|output) (?:filter|filtered|blocked)\b",
    r"(?:failed|unable) to (?:generate|process|complete|connect|get|fetch|create|parse|load|provide|reach|summari)",
    r"(?:prohibited|disallowed|unsafe|harmful) content\b|finish_reason|no endpoints found",
    r"(?:task|job|run|worker(?: process)?) (?:was |has )?(?:cancel+ed|aborted|killed|died)\b",
    r"no (?:response|completion|output) (?:was |is )?(?:received|generated|returned|from the)\b",
    r"there (?:was|is|has been|were) (?:an? )?(?:\w+ )?(?:error|problem|issue)s?\b",
    r"(?:\w+ )?(?:provider|upstream|backend|server) returned\b",
    r"time-?out (?:waiting|while|after|exceeded)|(?:read|connect|operation) timed out|deadline exceeded",
    r"connection (?:reset|refused|aborted|closed|timed out)\b",
    r"(?:empty|invalid|malformed|unexpected) (?:response|request|reply|completion)(?: from\b| body\b|:|\W*\Z)",
    r"authentication (?:failed|error|required)|budget (?:has been )?exceeded|exceeded\w*:",
    r"panic: |segmentation fault|fatal(?: error)?: ",
    r"this (?:content|request|prompt|conversation) (?:may|might|could|appears to|seems to) violate",
    r"(?:the |your |api )?(?:rate|usage|request|token|quota|credit)s?(?: limit)?\w* (?:has been |was |is )?"
    r"(?:reached|exceeded|hit|exhausted)",
    r"(?:\w+ ){1,3}limit (?:has been |was |is )?(?:reached|exceeded)\W*(?:\Z|\n|[.:;!]|for (?:this|your))",
    r"you(?:['\u2019]ve| have)? (?:exceeded|reached|hit|run out of) (?:your|free|all) .{0,30}?"
    r"\b(?:quota|limit|usage|rate|credit|plan|cap|messages|requests|tokens)",
    r"(?:an? )?(?:unexpected |internal |unknown )*error (?:has )?occurred",
    r"(?:o+ps\W+|uh[- ]oh\W+)?(?:something went wrong|looks like we)",
    r"we(?:['\u2019]re| are) (?:currently )?(?:experiencing|having (?:trouble|issues|problems|difficult))\b",
    r"(?:incorrect|invalid|missing) api key(?: provided| supplied| given)?\W*(?:\Z|\n|[.:;!])",
    "(?:insufficient|out of|not enough) (?:quota|credits?|balance|funds)",
    # In other languages.
    r"error (?:interno|del servidor|de conexión)|(?:se ha producido|ha ocurrido|ocurrió|se produjo) un error",
    "erreur (?:interne|du serveur)|une erreur (?:s['\u2019]est produite|est survenue|inattendue)",
    "(?:serverfehler|interner fehler|zeitüberschreitung)|es ist ein (?:\\w+ )?fehler",
    "(?:(?:der )?dienst|(?:die )?anfrage|(?:das )?modell)\\b.{0,20}?nicht (?:verfügbar|verarbeitet|bearbeitet)",
    "(?:le |el |o |il )?(?:service|servicio|serviço|servizio|modèle|modelo|modello)\\b.{0,30}?(?:in|no )?dispon",
    "(?:lo lamento|lo sentimos)\\b.{0,40}?(?:no (?:es posible|podemos)|error)|ha ocurrido un",
    "błąd serwera|przekroczono limit|(?:サービス|サーバー).{0,12}?(?:ご利用いただけません|利用できません|停止)",
    "(?:서비스|서버|요청)[를을가이]? .{0,8}?수 없습니다|对不起.{0,6}?我(?:还)?没有",
    "si è verificato un errore|ocorreu um erro|er is een fout|wystąpił błąd|bir hata oluştu|đã xảy ra lỗi",
    "произошла (?:\\w+ )?ошибка|حدث خطأ|(?:发生|出现)(?:了)?(?:\\w{0,4})?(?:错误|异常)|एक त्रुटि",
    "(?:服务器?|系统|网络|请求|模型|当前).{0,12}?(?:错误|异常|失败|超时|繁忙|频繁|过载|饱和|不可用)",
    "用户额度不足",
    "(?:サーバー|システム|内部|ネットワーク)?エラー(?:が発生|です|:)",
    "(?:서버|내부|시스템)?\\s?오류(?:가 발생|입니다|:)",
)
#: How models and gateways excuse themselves.
_APOLOGY = _beginning(
    rf"{_SORRY}\b.{{0,80}}?\b(?:{_UNABLE}|an? error|try again|went wrong|no (?:response|answer)|decline)",
    r"(?:as|i(?:['\u2019]m| am)) (?:just |only )?an (?:ai|artificial|language)\b[^.]{0,60}?\bi\b",
    r"(?:i|we) (?:must|have to|need to) decline\b",
    r"(?:my|our) (?:\w+ )?(?:guidelines|policy|policies|rules)\b.{0,40}?\b(?:allow|prevent|prohibit|forbid|permit)",
    r"(?:that|this)(?:['\u2019]s| is) not something (?:i|we)\b",
    r"(?:it (?:seems|looks like|appears)\b.{0,30}?)?\b(?:there (?:is|are|was|were) no|no) "
    r"(?:conversation|messages?|content|transcript)\b.{0,30}?(?:to summari[sz]e|provided|found|given)",
    r"(?:sure\W+|of course\W+|i(?:['\u2019]d| would) be happy to .{0,40}?)?(?:please|could you|can you) "
    r"(?:provide|share|paste|send) .{0,30}?(?:conversation|messages?|transcript|text|content)",
    r"(?:es tut mir leid|tut mir leid|entschuldigung|leider)\b.{0,60}?\bkann ich\b",
    r"ich kann\b.{0,60}?\bnicht (?:weiter)?"
    r"(?:helfen|beantworten|bearbeiten|zusammenfassen|antworten|entsprechen|fortfahren)",
    r"(?:je suis )?(?:désolée?|malheureusement)\b.{0,60}?\bje ne (?:peux|suis)",
    r"je ne (?:peux|suis) (?:pas|malheureusement) "
    r"(?:vous|t['\u2019]|en mesure|répondre|aider|résumer|traiter|faire|fournir|continuer)",
    r"(?:je regrette\b.{0,20}?)?il m['\u2019]est impossible",
    r"(?:lo siento\b.{0,60}?\bno puedo\b|no puedo (?:ayudar|hacer|responder|procesar|resumir|continuar|cumplir))",
    r"(?:mi dispiace\b.{0,60}?\bnon posso\b|non posso (?:aiutar|far|risponder|elaborar|riassumer|continuar))",
    r"(?:(?:desculpe|sinto muito|lamento)\b.{0,60}?\bnão (?:posso|consigo)\b"
    r"|não (?:posso|consigo) (?:ajudar|fazer|responder|processar|resumir|continuar))",
    r"(?:het spijt me|sorry|helaas)\b.{0,60}?\bkan ik\b.{0,60}?\bniet\b",
    r"(?:(?:przepraszam|przykro mi|niestety)\b.{0,60}?\bnie mogę\b|nie mogę (?:pomóc|tego|odpowiedzieć|streścić))",
    r"(?:üzgünüm|maalesef)\b.{0,60}?(?:amıyorum|emiyorum|amam|emem)\b",
    r"(?:извините|к сожалению|простите)\b.{0,60}?\bне могу",
    "(?:عذر|آسف|أعتذر).{0,60}?(?:لا أستطيع|لا يمكنني)",
    "(?:क्षमा|माफ़|माफ).{0,60}?नहीं",
    "(?:很?抱歉|对不起|抱歉)[，,。!！ ].{0,40}?(?:无法|不能|未能)",
    "我(?:无法|不能)(?:协助|帮助|帮您|帮你|提供|处理|回答|满足|总结|完成|继续)",
    "申し訳(?:ございません|ありません|ない(?:です|のですが)).{0,60}?(?:できません|いたしかねます|できかねます)",
    "죄송(?:합니다|하지만|해요).{0,60}?(?:없습니다|어렵습니다|없어요)",
)
#: Wherever it is in a short text: nobody asks the reader of a summary to try again.
_TRY_AGAIN = re.compile(
    r"\bplease (?:try again|retry|slow down|wait (?:a|and|for)|contact (?:us|support))"
    r"|\btry again (?:later|in (?:a|\d))|\bbitte versuchen sie|\bréessaye[rz]\b|\b(?:inténtelo|intente|inténtalo) "
    r"|\btente novamente|\briprova(?:re)? più tardi|повторите попытку|попробуйте (?:позже|ещё|еще)"
    r"|请(?:稍后)?(?:再试|重试)|請稍後再試|vui lòng thử lại|يرجى المحاولة|lütfen (?:tekrar|daha sonra)"
    r"|(?:もう一度|後で)お試し|다시 시도해",
    re.IGNORECASE,
)


def is_error_text(text: str) -> bool:
    """Whether ``text``, stripped, is an error message, a refusal or a gateway's page instead of a summary."""
    fenced = _CODE_FENCE.match(text)
    body = _STREAM.sub("", fenced[1].strip() if fenced else text)
    if _PAGE.match(body) or _reports_error(body):
        return True
    if len(body) > _LONGEST or _NOTHING.fullmatch(body):
        return len(body) <= _LONGEST
    if _HEADING.search(body):
        below = _FIRST_HEADINGS.sub("", body)
        is_short = (
            len(below) <= _LONGEST_NOTICE and not _HEADING.search(below) and not _SPEAKS_OF_THE_USER.search(below)
        )
        return bool(is_short and (_REFUSAL.match(below) or _APOLOGY.match(below)))
    if _REFUSAL.match(body):
        return True
    if _SPEAKS_OF_THE_USER.search(body):
        return False
    is_notice = len(body) <= _LONGEST_NOTICE and _TRY_AGAIN.search(body)
    return bool(is_notice or _ERROR.match(body) or _APOLOGY.match(body))


def _reports_error(text: str) -> bool:
    """Whether the text is one JSON object with an error in it, as OpenAI, FastAPI, Ollama and Google send them."""
    if text[:1] not in ("{", "["):
        return False
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    return isinstance(value, Mapping) and _is_error({key.lower(): item for key, item in value.items()})


def _content_beside(value: Mapping[str, Any]) -> int:
    """Characters of text under keys that no error has."""
    own = {*_SAYING, *_ERROR_KEYS, "title", "type", "trace", "traceback", "stack", "help", "documentation_url"}
    return sum(len(item) for key, item in value.items() if isinstance(item, str) and key not in own)


def _is_error(value: Mapping[str, Any]) -> bool:
    """By the keys: an ``error``, or nothing but a message with a code or a status."""
    if any(key.endswith("summary") for key in value) or _content_beside(value) > _CONTENT_BESIDE:
        return False
    if any(value.get(key) and not _NOTHING.fullmatch(str(value[key])) for key in _ERROR_KEYS):
        return True
    says = " ".join(item for key in (*_SAYING, "title") if isinstance(item := value.get(key), str))
    if not says or _SPEAKS_OF_THE_USER.search(says):
        return False
    status = str(value.get("code") or value.get("status") or value.get("status_code") or "")
    return (
        "error" in (value.get("type"), value.get("object"), value.get("status"))
        or value.get("success") is False
        or (status[:1] in ("4", "5") and status.isdigit())
        or set(value) <= {*_SAYING, "type", "__type", "code", "status", "request_id", "requestid"}
    )

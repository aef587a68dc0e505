"""Whether a text reckons time from its own day: in a letter of 1941 "tomorrow" is a day of 1941. Pure.

What was said on another day, or is quoted from a letter, a log or a mail, has a day of its own that nothing here can
tell for certain. In doubt a text counts as one of these: its relative words stay as they were said.
"""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache

_MONTHS = (
    "jan(?:uary|uar|vier|eiro)?|feb(?:ruary|ruar|braio)?|f[ée]vr(?:ier)?|febrero|fevereiro|mar(?:ch|s|zo|ço)|märz|"
    "apr(?:il|ile)?|avril|abril|may|mai|mayo|maio|maggio|june?|juni|juin|junio|junho|giugno|july?|juli|juillet|julio|"
    "julho|luglio|aug(?:ust)?|août|agosto|sep(?:t|tember|tembre)?|septiembre|setembro|settembre|o[ck]t(?:ober|obre)?|"
    "octubre|outubro|ottobre|nov(?:ember|embre|iembre|embro)?|de[cz](?:ember)?|d[ée]cembre|diciembre|dezembro|dicembre"
)
_DATE = (
    r"(?:\d{4}-\d\d-\d\d|\d{1,2}[./]\d{1,2}[./](?:\d{2,4})?"
    rf"|\d{{1,2}}(?:st|nd|rd|th|\.|º)?[ ](?:of |de )?(?:{_MONTHS})\b\.?(?:,?[ ](?:de )?\d{{4}})?"
    rf"|(?:{_MONTHS})\b\.?[ ]\d{{1,2}}(?:st|nd|rd|th)?\b(?:,?[ ]\d{{4}})?|(?:{_MONTHS})[ ]\d{{4}}|(?:1[0-9]|20)\d\d)"
)
#: "On 3 February", "back in 2019", "of 14 November 1941". "In May" alone may be the next one.
_DATED = rf"\b(?:on|in|of|from|dated|since|am|im|vom|von|le|en|du|el|del|de|em|no|il|nel|op)[ ](?:the |den )?{_DATE}"
_REPORTS = (
    r"\b(?:said|told|wrote|writes|written|announced|reported|promised|claimed|noted|asked|answered|replied|stated|"
    r"warned|mentioned|emailed|texted|posted|predicted|planned|meant|thought|heard|sagte|schrieb|erzählte|meinte|"
    r"versprach|fragte|kündigte|hieß|gesagt|geschrieben|a dit|a écrit|disait|écrivait|a annoncé|dijo|escribió|"
    r"anunció|prometió|disse|escreveu|scrisse|ha detto|ha scritto|zei|schreef|letter|logbook|diary|journal|log|"
    r"minutes|entry|brief|tagebuch|logbuch|protokoll|lettre|carta|diario)\b"
)
_ANY_REPORT = re.compile(rf"{_REPORTS}|\b(?:story|film|movie|novel|tale|game|play|dream)\b", re.IGNORECASE)
_REPORTED = re.compile(
    # What is said of a date is no date of saying: "told me that on 3 May …".
    rf"{_DATED}[^\n!?]{{0,80}}?{_REPORTS}|{_REPORTS}(?:(?!\b(?:that|dass|que|che)\b)[^\n!?,:]){{0,30}}?{_DATED}"
    r"|\bin (?:the|this|a|her|his|my|our) (?:story|film|movie|novel|tale|game|play|dream)\b",
    re.IGNORECASE,
)
#: Characters of a message that may be a message; what is longer is a document, and has a day of its own.
LONGEST = 50_000
_LONG_AGO = re.compile(rf"\bback in (?:the \d|\d{{4}}|{_MONTHS})|\b(?:in|anno) (?:1\d|20[01])\d\d\b", re.IGNORECASE)
_PAST = (
    r"\b(?:yesterday|last (?:night|week|month|year|[a-z]+day)|ago|gestern|vorgestern|hier|avant-hier|ayer|ontem|ieri)\b"
)
_SHIFTED = re.compile(rf"{_PAST}.{{0,60}}{_REPORTS}|{_REPORTS}.{{0,30}}{_PAST}", re.IGNORECASE | re.DOTALL)
#: A log, a diary or a mail: lines that begin with their day, headers, ">" before what is quoted.
_LOG_LINE = re.compile(
    rf"^[ \t]*(?:[-*#>•|]{{1,3}}[ \t]*)?[\[(]?(?:\w{{2,10}}\.?,? )?(?P<day>{_DATE})[^\w\n]{{0,3}}"
    r"(?:\d{1,2}[:.]\d\d[^\n]|[:–—\-|]|\n|\Z)",
    re.IGNORECASE | re.MULTILINE,
)
_MAIL = re.compile(
    r"^[ \t>]*(?:date|sent|datum|gesendet|envoyé|fecha|enviado|data|inviato|日期|发件时间|送信日時)[ \t]?[:：][ \t]*"
    r"(?:\w{2,10}\.?,?[ ])?\d"
    r"|\b(?:wrote|schrieb|a écrit|escribió|escreveu|ha scritto|schreef)[ \t]?:[ \t]*$|^[ \t]*>[ \t]?\w",
    re.IGNORECASE | re.MULTILINE,
)
#: Between two sentences, not inside "3. Februar".
_SENTENCE_END = re.compile(r"(?<=[^\W\d_]{2}[.!?])\s+|(?<=\d{4}[.!?])\s+|(?<=[。！？])")


def is_shifted(before: str) -> bool:
    """Whether a clause, as far as ``before``, tells what was said on a past day, or of a year long ago."""
    return bool(_LONG_AGO.search(before) or _SHIFTED.search(before))


@lru_cache(maxsize=2)
def reckons_from(text: str, today: date) -> bool:
    """Whether relative words of ``text``, a message of ``today``, count from that day."""
    if len(text) > LONGEST or _MAIL.search(text):
        return False
    if any(line["day"] != today.isoformat() for line in _LOG_LINE.finditer(text)):
        return False
    dated = (sentence for sentence in _SENTENCE_END.split(text) if _ANY_REPORT.search(sentence))
    return not any(_REPORTED.search(sentence) for sentence in dated)

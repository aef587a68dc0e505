"""``redact_secrets``: a ``REDACTOR`` for the key formats that people and tools paste into chats. Pure.

``COMPACTION = {"REDACTOR": "compaction_app.redaction.redact_secrets"}``

The list is short: private keys, the keys of model providers, AWS, GitHub and Slack, and JWTs, recognized anywhere by
their form. Any other secret is recognized by its context: after ``Bearer``, between a URL's colon and its at sign, as
the value of a name like ``DB_PASSWORD`` or of ``--password``, after ``password is`` if it has a digit. A quoted value
ends at the closing quote; an unquoted one at the first blank, because the rest of the sentence follows. A host adds the
forms that its users paste with a redactor of its own, which may call this one: the documentation shows how, and lists
what is not found because nothing here understands meaning.

**Linear in the text**: each pattern begins with a literal, repeats possessively or within a bound, and cannot start
again inside what another start has scanned. **Idempotent**: a match takes every character that a key may consist of,
and no pattern matches the replacement.
"""

import re
from typing import NamedTuple

#: Characters that keys consist of.
_KEY = "A-Za-z0-9_-"
#: No letter or digit before: ``task-9`` does not contain ``sk-9``.
_APART = "(?<![A-Za-z0-9])"
#: No key character before: for formats of several parts, whose first part must not be tried at every position.
_ALONE = f"(?<![{_KEY}])"
#: A digit among the first sixty: ``sk-learn-is-a-library`` is a name.
_WITH_DIGIT = "(?=[A-Za-z_./+~-]{0,60}[0-9])"
_NOT_REMOVED_YET = r"(?!\[secret removed: )"


class SecretFormat(NamedTuple):
    """One kind of secret. Its pattern is only tried on texts with one of the keywords, which are in lower case.

    The group ``keep``, where the pattern has one, stays in front of the replacement.
    """

    kind: str
    keywords: tuple[str, ...]
    pattern: re.Pattern[str]


def _prefixed(
    kind: str, *prefixes: str, tail: str = f"[{_KEY}]{{20,}}", keywords: tuple[str, ...] = ()
) -> SecretFormat:
    """A key recognized by its prefix. ``prefixes`` are patterns, and the keywords where none are given."""
    pattern = re.compile(f"{_APART}(?:{'|'.join(prefixes)}){tail}")
    return SecretFormat(kind, keywords or tuple(prefix.lower() for prefix in prefixes), pattern)


_DASHES = "-----"
#: Up to the END line, or if that is cut off, as many lines of base64 as follow. No possessive repetition of a group:
#: before Python 3.11.5 a group with alternatives loses its position.
_PRIVATE_KEY = re.compile(
    rf"{_DASHES}BEGIN[A-Z0-9 ]{{0,40}}PRIVATE KEY(?: BLOCK)?{_DASHES}"
    rf"(?:[^-]*+(?:-(?!----)[^-]*+)*{_DASHES}END[A-Z0-9 ]{{0,40}}PRIVATE KEY(?: BLOCK)?{_DASHES}"
    r"|(?:(?:\s|\\[nr])*[A-Za-z0-9+/=]{16,}+)*)"
)
_JWT = re.compile(rf"{_ALONE}eyJ[{_KEY}]{{8,}}+\.eyJ[{_KEY}]{{8,}}+\.[{_KEY}]*+(?:\.[{_KEY}]++)*")
_SLACK_URL = re.compile(r"(?P<keep>hooks\.slack\.com/(?:services|workflows|triggers)/)[A-Za-z0-9/_+-]{20,}+")
_HEADER_CHARACTERS = r"[A-Za-z0-9._~+/-]"
_BEARER = re.compile(
    rf"(?P<keep>[bB](?i:earer)[ \t]{{1,4}}){_NOT_REMOVED_YET}{_WITH_DIGIT}{_HEADER_CHARACTERS}{{16,}}+=*+"
)
_AUTHORIZATION = re.compile(
    r"(?P<keep>authorization[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?"
    r"(?:Basic|Bearer|Token|ApiKey|Digest|Negotiate|AWS4-HMAC-SHA256)[ \t]{1,4})"
    rf"{_NOT_REMOVED_YET}[^\s\"'<>\[\]]{{4,}}+",
    re.IGNORECASE,
)
_URL_PASSWORD = re.compile(r"(?P<keep>://[^\s/?#@:\"'<>]{0,128}:)[^\s/\"'<>]{1,256}(?=@)")

# A pattern that begins with a set of characters is many times faster to search than one that begins with words in
# either case, so each name is its first letter and then the rest. PWD alone is a shell's current folder.
_LOGIN_NAME = "[pP](?i:ass(?:word|wd|phrase)|(?<=[_;]p)wd)"
_KINDS_OF_KEY = "api access secret private signing encryption account master service auth shared".split()
_SOME_KEY = "|".join(f"(?<={kind}k)ey|(?<={kind}[_-]k)ey" for kind in _KINDS_OF_KEY)
_CREDENTIAL_NAME = f"[sStTcCkK](?i:(?<=s)ecret|(?<=t)oken|(?<=c)redential|{_SOME_KEY})"
#: ``DB_PASSWORD_2``, ``API_KEY_PROD``; not ``PASSWORD_MIN_LENGTH``, not ``max_tokens``.
_NAME_END = r"(?:_?[0-9]{1,3}|_(?i:prod|production|staging|dev|test|live))?"
# With the backslashes of JSON inside JSON.
_SETS = r"\\{0,3}[\"'`]?[ \t]{0,4}(?::=|=>|=|:)[ \t]{0,4}"
#: What names a value instead of being one: ``${PASSWORD}``, ``<your key>``, ``{{ secret }}``, ``getenv(…)``.
_NO_PLACEHOLDER = r"(?!\$?[{(]|\$[A-Z_][A-Z0-9_]{0,60}\b|<|%[({]|[A-Za-z_.]{1,60}[(\[])"
_NO_MARKER = r"\[(?!secret removed: )"
_QUOTE = r"(?P<quote>(?P<escaped>\\{1,3})?[\"'])"
# Inside JSON inside JSON a backslash ends the value, elsewhere it escapes a character of it.
_QUOTED, _SPACED = (
    rf"(?:(?(escaped)[^{blank}\"'`\\\[]|(?:[^{blank}\"'`\\\[]|\\.))|{_NO_MARKER})" for blank in (r"\s", r"\n")
)
# A line of a .env file: the name shows that the value is secret, whatever it looks like.
_ENV_NAME = (
    r"(?<![A-Za-z0-9])(?:[A-Z0-9]{1,20}_){0,6}"
    r"(?:PASSWORD|PASSWD|PASSPHRASE|(?<=_)PWD|SECRET|TOKEN|CREDENTIALS?"
    r"|(?:API|ACCESS|SECRET|PRIVATE|SIGNING|ENCRYPTION|ACCOUNT|MASTER|SERVICE|AUTH)_?KEY(?:_ID)?)"
    r"(?:_?[0-9]{1,3}|_(?:PROD|PRODUCTION|STAGING|DEV|TEST|LIVE))?"
)
_OPTION = (
    r"(?<![\w-])--(?:[a-z]{1,20}-){0,3}(?:password|passwd|passphrase|token|secret|(?:api|access|secret|private)-key)"
)
# After a blank instead of an equals sign the value must look like one, or be quoted: a word may belong to the sentence.
_ASSIGNED = re.compile(
    rf"(?P<keep>(?:{_ENV_NAME}(?:=|[ \t]{{1,4}}(?={_WITH_DIGIT}[A-Za-z0-9/+_=-]{{16}}))"
    rf"|{_OPTION}(?:=|[ \t]{{1,4}}(?!-)(?=[\"']|[A-Za-z_./~-]{{0,60}}[0-9!@#%^&*+=])))(?P<quote>[\"'])?)"
    # Not possessive: up to Python 3.11.4 a possessive group that looks ahead matches less than it should.
    rf"{_NO_PLACEHOLDER}(?:(?(quote)(?:(?!(?P=quote))[^\n\[]|{_NO_MARKER}){{3,256}}(?=(?P=quote))|(?!))"
    rf"|(?:[^\s\"'`\[]|{_NO_MARKER}){{4,}}+)"
)
# Elsewhere a name alone proves less: JSON, YAML and code mention passwords without containing them. A value with blanks
# is a passphrase, unless it ends like a sentence.
_QUOTED_PASSWORD = re.compile(
    rf"(?P<keep>(?:{_LOGIN_NAME}|[sS](?i:ecret)){_NAME_END}{_SETS}{_QUOTE}){_NO_PLACEHOLDER}"
    rf"(?:{_QUOTED}{{3,256}}+|{_SPACED}{{3,96}}+(?<![.!?…:]))(?=(?P=quote))"
)
_QUOTED_TOKEN = re.compile(
    rf"(?P<keep>{_CREDENTIAL_NAME}{_NAME_END}{_SETS}{_QUOTE}){_NO_PLACEHOLDER}{_WITH_DIGIT}{_QUOTED}{{8,4096}}+(?=(?P=quote))"
)
# In prose only a digit distinguishes "password is hunter2" from "is required".
_SAYS = r"[ \t]{1,4}(?i:is|was)[ \t]{0,4}:?[ \t]{1,4}[\"'`]?"
_BARE = r"(?=[A-Za-z_./+~!@#$%^&*-]{0,60}[0-9])[A-Za-z0-9_./+~!@#$%^&*=-]{6,}+"
_BARE_PASSWORD = re.compile(rf"(?P<keep>{_LOGIN_NAME}(?:{_NAME_END}{_SETS}|{_SAYS})){_NO_PLACEHOLDER}{_BARE}")
_BARE_TOKEN = re.compile(rf"(?P<keep>{_CREDENTIAL_NAME}{_NAME_END}{_SETS}){_NO_PLACEHOLDER}{_BARE}")

_PASSWORD_NAMES = ("passw", "passphrase", "pwd")
_TOKEN_NAMES = ("secret", "token", "credential", "key")

#: In the order in which they are tried: formats with a prefix before those recognized by context.
FORMATS: tuple[SecretFormat, ...] = (
    SecretFormat("private key", ("private key",), _PRIVATE_KEY),
    _prefixed("Anthropic key", "sk-ant-"),
    _prefixed("OpenAI key", "sk-", tail=rf"{_WITH_DIGIT}[{_KEY}]{{20,}}"),
    _prefixed("AWS key", "AKIA", "ASIA", "ABIA", "ACCA", tail=f"[A-Z2-7]{{16}}[{_KEY}]*"),
    _prefixed("AWS key", "ABSK", tail="[A-Za-z0-9+/=]{100,}", keywords=("absk",)),
    _prefixed("GitHub token", "gh[pousr]_", tail=f"[{_KEY}]{{30,}}", keywords=("ghp_", "gho_", "ghu_", "ghs_", "ghr_")),
    _prefixed("GitHub token", "github_pat_"),
    _prefixed("Slack token", r"xox[a-z](?:\.xox[a-z])?-", "xapp-", tail=f"[{_KEY}]{{10,}}", keywords=("xox", "xapp-")),
    SecretFormat("Slack webhook", ("hooks.slack.com/",), _SLACK_URL),
    _prefixed(
        "model provider key", "AIza", "hf_", "gsk_", "xai-", "pplx-", "r8_", tail=f"{_WITH_DIGIT}[{_KEY}]{{30,}}"
    ),
    SecretFormat("JWT", ("eyj",), _JWT),
    SecretFormat("authorization", ("authorization",), _AUTHORIZATION),
    SecretFormat("authorization", ("bearer",), _BEARER),
    SecretFormat("URL password", ("://",), _URL_PASSWORD),
    SecretFormat("value", _PASSWORD_NAMES + _TOKEN_NAMES, _ASSIGNED),
    SecretFormat("value", (*_PASSWORD_NAMES, "secret"), _QUOTED_PASSWORD),
    SecretFormat("value", _TOKEN_NAMES, _QUOTED_TOKEN),
    SecretFormat("value", _PASSWORD_NAMES, _BARE_PASSWORD),
    SecretFormat("value", _TOKEN_NAMES, _BARE_TOKEN),
)


def redact_secrets(text: str) -> str:
    """``text`` with every recognized secret replaced by ``[secret removed: kind]``; the rest as it was."""
    lowered = text.lower()
    for secret in FORMATS:
        if any(keyword in lowered for keyword in secret.keywords):
            kept = r"\g<keep>" if "keep" in secret.pattern.groupindex else ""
            text = secret.pattern.sub(f"{kept}[secret removed: {secret.kind}]", text)
    return text

"""What of a model's answer is its summary: without what it thought aloud, and without tags that it copied. Pure.

Servers without a parser for a model's reasoning leave it in the reply, between the model's own marks, or before the
closing one alone where the prompt ended with the opening one. Marks and tags in code are spoken of and stay.
"""

import re
from dataclasses import replace

from compaction_app.messages.transcript import cut_leaks, leaks_wrapper, without_code
from compaction_app.values import SummaryDraft

_NAMES = r"(?:\w{1,9}:)?(?:think|thinking|thoughts?|reasoning|reflection|analysis|scratchpad|antthinking|longcat_think)"
#: Of most models; Mistral's; Kimi's; Cohere's; Gemma's; those of gpt-oss, also where a server left out their signs.
_MARK = re.compile(
    rf"(?i)(?P<opens><{_NAMES}>|\[THINK\]|◁think▷|<\|START_THINKING\|>|<\|channel>thought|\A(?-i:analysis(?=[A-Z]))"
    r"|<\|channel\|>(?!final)[^<\n]{0,80}<\|message\|>)"
    rf"|</{_NAMES}>|\[/THINK\]|◁/think▷|<\|END_THINKING\|>|<channel\|>|assistantfinal"
    r"|(?:<\|start\|>assistant)?<\|channel\|>final(?:<\|message\|>)?"
)
#: Signs of a model's format before and after its answer.
_SIGNS = r"(?:<\|[a-zA-Z_]{1,20}\|>|<end_of_turn>|</?s>)"
_EDGES = re.compile(rf"\A{_SIGNS}+|{_SIGNS}+\Z")
#: In what models like to put a whole answer.
_WRAPPED = re.compile(
    r"(?s)<(answer|summary|response|output|final|assistant|message)>(?P<tagged>.*)</\1>"
    r"|```(?:markdown|md|text)?\n(?P<fenced>(?:(?!```).)*)```"
)


def mended(draft: SummaryDraft) -> SummaryDraft:
    """The draft with the answer alone. An extract quotes the conversation, so all of it is kept."""
    if draft.is_extract:
        return draft
    text = _EDGES.sub("", _without_thinking(draft.text.strip()).strip()).strip()
    while wrapped := _WRAPPED.fullmatch(text):
        text = (wrapped["tagged"] or wrapped["fenced"] or "").strip()
    if leaks_wrapper(text, ""):
        # Where nothing else is left it was no answer, and is refused as what it is.
        text = cut_leaks(text) or text
    return replace(draft, text=text)


def _without_thinking(text: str) -> str:
    """An opening mark counts at the beginning of the answer or of a line, a closing one wherever thought may end."""
    prose = without_code(text)
    marks = list(_MARK.finditer(prose))
    last_end = max((mark.start() for mark in marks if not mark["opens"]), default=-1)
    kept, start, is_thinking = list[str](), 0, False
    for mark in marks:
        before = prose[mark.start() - 1 : mark.start()] if mark.start() else "\n"
        if mark["opens"]:
            if not is_thinking and (mark.start() == 0 or (before == "\n" and mark.start() < last_end)):
                kept.append(text[start : mark.start()])
                is_thinking = True
        elif is_thinking or not (before == " " and prose[mark.end() : mark.end() + 1] == " "):
            kept = kept if is_thinking else []
            start, is_thinking = mark.end(), False
    return "".join(kept) + ("" if is_thinking else text[start:])

"""Sends bundles to another model, endpoint or summarizer, or with another prompt, and compares the answers.

Each bundle is sent once: a draft that the app would refuse is reported with its code and not requested again. Which
code runs is up to the caller, never to a bundle: bundles are files that may come from anywhere.
"""

import difflib
from dataclasses import dataclass, replace
from typing import Any

from compaction_app.exceptions import BundleError, SummarizerError
from compaction_app.memory.extractive import read_replaced
from compaction_app.memory.score import Told, share_kept
from compaction_app.messages.transcript import largest_saving_summary, leaks_wrapper
from compaction_app.messages.validation import make_storable
from compaction_app.summarizers.base import Summarizer, run_summarizer
from compaction_app.summarizers.drafts import prose_draft, refuse_draft
from compaction_app.tokens import Count
from compaction_app.transfer.bundles import OUTPUT, Bundle
from compaction_app.values import ErrorCode


@dataclass(frozen=True, kw_only=True, slots=True)
class Scores:
    """What can be counted of a summary's quality."""

    #: Of its text, by this app's counter.
    tokens: int
    #: Tokens ÷ target: 1.0 is on target, over 1.5 is refused.
    share_of_target: float
    #: The share of the facts that the text tells, 0–1.
    retention: float
    #: Whether it contains tags of the wrapper, or the marker.
    leaks: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Replay:
    """What came of a bundle; its fields are those of ``--json``."""

    model: str
    #: Why the draft would be refused: a :class:`values.ErrorCode`, "" if it would be accepted.
    code: str
    #: The failure's detail, if there was no draft.
    detail: str = ""
    target_tokens: int
    #: Of the stored summary, without its ledger.
    before: Scores
    #: None if there was no draft.
    after: Scores | None = None
    text: str = ""
    #: The old text to the new, as a unified diff; empty without a draft.
    diff: tuple[str, ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0


def with_prompt(bundle: Bundle, text: str) -> Bundle:
    """The bundle with another wording of how to write, as ``PROMPT`` would replace it.

    The rules of how to read the material, the policy's line and the size are kept.
    """
    system, end = bundle.request.system, bundle.writing_characters
    if system[end : end + 2] != "\n\n":
        raise BundleError(f"{bundle.folder}: the system prompt was edited, so the end of its wording is unknown.")
    request = replace(bundle.request, system=text.strip() + system[end:])
    return replace(bundle, request=request)


def replay(bundle: Bundle, summarizer: Summarizer, count: Count) -> Replay:
    """Send a bundle again and compare the answers."""
    asked: dict[str, Any] = {"target_tokens": bundle.target_tokens, "before": score(bundle, bundle.written, count)}
    try:
        # Nothing judges it, so nothing is requested twice.
        answer = run_summarizer(summarizer, bundle.request)
    except SummarizerError as error:
        code = error.error_code if error.error_code in ErrorCode.__members__.values() else ErrorCode.PROVIDER_ERROR
        return Replay(**asked, model=error.model, code=code, detail=str(error))
    draft = prose_draft(answer, bundle.request.previous_ledger)
    # A draft with a lone surrogate is refused, and can be neither counted nor written as it is.
    text = make_storable(draft.text)
    # The target that its run had, also where the request asked for less.
    judged = replace(bundle.request, target_tokens=bundle.target_tokens)
    most = largest_saving_summary(bundle.replaced_tokens, bundle.min_saving_ratio)
    old, new = bundle.written.splitlines(), text.splitlines()
    return Replay(
        **asked,
        model=draft.model,
        code=refuse_draft(draft, judged, most, count) or "",
        after=score(bundle, text, count),
        text=text,
        diff=tuple(difflib.unified_diff(old, new, OUTPUT, draft.model or "replay", lineterm="")),
        input_tokens=draft.input_tokens,
        output_tokens=draft.output_tokens,
    )


def score(bundle: Bundle, text: str, count: Count) -> Scores:
    tokens = count([text])[0]
    return Scores(
        tokens=tokens,
        share_of_target=round(tokens / max(1, bundle.target_tokens), 3),
        # As a run measures it.
        retention=round(share_kept(read_replaced(bundle.request).statements, Told([text])), 3),
        leaks=leaks_wrapper(text, bundle.request.nonce),
    )

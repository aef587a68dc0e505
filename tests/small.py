"""A small world for tests with exact numbers: a token a word, a window of 10,000 with 2,000 reserved."""

from compaction_app import chat
from compaction_app.tokens import count_messages
from compaction_app.values import Branch, Message
from tests.builders import WordTokenCounter, openai_messages
from tests.trees import summarize

SMALL = {
    "CONTEXT_WINDOW": 10_000,
    "RESERVED_TOKENS": 2_000,
    "TOKEN_COUNTER": "tests.builders.WordTokenCounter",
    "COOLDOWN_SECONDS": 0,
    # Explicitly: MODE "deterministic" would choose another one.
    "SUMMARIZER": "default",
}
FAKE = "tests.fake_summarizer.FakeSummarizer"


def small(*, asked=None, **overrides):
    """``asked``: what differs in the default entry of ``SUMMARIZERS``; with ``MODELS`` it asks them."""
    backend = {} if "MODELS" in (asked or {}) else {"BACKEND": FAKE}
    return {**SMALL, **asks(**{**backend, **(asked or {})}), **overrides}


def asks(**entry):
    """The default summarizer, as a part of ``COMPACTION``."""
    return {"SUMMARIZERS": {"default": entry}}


def anchored_summary(anchor, cutoff, *, content="what was said before", pinned=None, tokens=30, extract=""):
    """A summary written straight into the tree, for tests of reading."""
    return summarize(anchor, cutoff, content=content, pinned_message=pinned, token_count=tokens, extract=extract)


def shown_ids(tip):
    """Ids of what a context shows, system prompt aside, in order."""
    return [message.message_id for message in chat.get_context(tip).messages if message.message_id]


def talk(session, parent=None, turns=60):
    """A branch in real words; of sixty turns one over the threshold of a window of 4,000."""
    messages = []
    for number in range(turns):
        tables = (
            f"The harbour office keeps the tide tables for {number}, and Ida wrote the number {number} on the board. "
        )
        messages.append({"role": "user", "content": tables * 2})
        messages.append({"role": "assistant", "content": f"Noted: {number} is on the board."})
    return chat.append_messages(session, parent, messages)


def tool_call(call_id="c1", arguments="{}", name="look", **more):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def turns_with_results(*results):
    """A turn for each result: the question, the call, the result, the answer."""
    messages = []
    for number, result in enumerate(results):
        messages += [
            {"role": "user", "content": f"question {number}"},
            {"role": "assistant", "tool_calls": [tool_call(f"c{number}")]},
            {"role": "tool", "content": result, "tool_call_id": f"c{number}"},
            {"role": "assistant", "content": f"answer {number}"},
        ]
    return messages


def messages_of(shorthand, *, first_id=1, first_depth=1):
    """Return a chain of message values with ascending ids and depths."""
    written = openai_messages(shorthand)
    sizes = count_messages(written, WordTokenCounter())
    return [
        Message(
            id=first_id + offset,
            depth=first_depth + offset,
            role=message["role"],
            tokens=tokens,
            content=f"message {first_id + offset}",
            tool_calls=tuple(message.get("tool_calls", ())),
            tool_call_id=message.get("tool_call_id", ""),
        )
        for offset, (message, tokens) in enumerate(zip(written, sizes, strict=True))
    ]


def branch_of(tail, base=None, *, already_compacted=False):
    """Return a branch value with this tail."""
    last = tail[-1] if tail else None
    return Branch(
        tip_id=last.id if last else 0,
        tip_depth=last.depth if last else 0,
        tip_path_tokens=sum(message.tokens for message in tail),
        base=base,
        tail=tuple(tail),
        already_compacted=already_compacted,
    )

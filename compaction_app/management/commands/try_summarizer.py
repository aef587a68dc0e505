"""``manage.py try_summarizer [NAME]``: one small real request to each model, and what it tells of the settings."""

from __future__ import annotations

import math
import secrets
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any

from django.core.management.base import BaseCommand
from django.utils.module_loading import import_string

from compaction_app.conf import Settings, get_settings, get_token_counter
from compaction_app.context import windows
from compaction_app.context.budget import window_of
from compaction_app.exceptions import ConfigurationError, SummarizerError
from compaction_app.management.console import FAILED, WrongCall, at_least, printable, with_entry, with_model, write_some
from compaction_app.messages.transcript import largest_saving_summary
from compaction_app.models.words import WHY_IT_FAILED
from compaction_app.summarizers import OpenAISummarizer
from compaction_app.summarizers.base import make_summarizer
from compaction_app.summarizers.drafts import refuse_draft
from compaction_app.summarizers.openai import Candidate, ModelEntry
from compaction_app.summarizers.prompts import Prompt, count_request
from compaction_app.tokens import Count, count_messages
from compaction_app.transfer.replay import ask_for_draft
from compaction_app.values import CompactionPlan, ErrorCode, Message, Role, SummaryDraft

#: What is summarized: a paragraph each of the user and the assistant in turn. The last two stay verbatim.
CONVERSATION = """\
I want to plan the allotment for next year. Plot 14 at the Mill Lane site, 8 by 12 metres, and the water is shut off
from November to March. I can be there on Saturdays only. Please never suggest slug pellets: our dog eats everything.

Noted: plot 14, 96 square metres, Saturdays, no slug pellets because of the dog. For watering once a week, mulch and
deep-rooted crops are best. I suggest a quarter of the plot for each of potatoes, beans, squash and brassicas, moved on
by one quarter each year.

Good, but no brassicas: the plot had clubroot in 2023, says the committee. What else could go there? And the budget is
180 euros, of which I have spent 42.50 on a water butt of 210 litres.

Then leave brassicas out for seven years after 2023, so until 2030. Put onions and chard into the fourth quarter. 137.50
euros are left. Seed potatoes (Charlotte, 5 kg) are about 14 euros, and a roll of mulch fabric is 39 euros.

I ordered the Charlotte potatoes, order A-20817, delivery in week 9. I decided against the fabric: it sheds plastic. Is
straw all right?

Straw is fine at 10 cm, but wait until the soil is warm in May, or it keeps the frost in. Four bales are enough; the
farm shop at Alder Cross sells them at 6 euros each, so 24 euros. That leaves 99.50 euros after the potatoes.

I called the farm shop: they close on Saturdays at noon and keep four bales for me until 9 May under my name, Hanneke
Vos. The lid of the water butt broke on delivery, and they refuse a refund without the receipt, which I lost.

Ask the bank for a copy of the card payment; that usually counts as a receipt. I noted: four bales at Alder Cross until
9 May, in the name of Hanneke Vos, Saturday before noon. Open: the refund for the lid.

The bank sent it. What should I do first on Saturday?

Take the bank's copy to the shop for the refund of the lid, then set up the water butt before the water is shut off in
November."""
TARGET_TOKENS = 250
#: How many times as fast a model reads as it writes: on a processor alone ten times, on a graphics card more.
READS_FASTER = 10
#: A time-out is this much longer than the longest request would take.
MARGIN = 1.5
LEAST_TIMEOUT = 30
#: What takes less was answered by no model that must be waited for: an extract, a cache, a server of a test.
LEAST_SECONDS = 0.1


class Command(BaseCommand):
    help = (
        "Send one small conversation, which is part of this command, to every model of a summarizer, and print how "
        "fast it answers, how it counts, its window, the TIMEOUT that its longest request needs, and whether its draft "
        "would become a summary. Stores nothing in the database. Exit code 0: every model wrote a summary; 1: one did "
        "not; 2: wrong call."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", nargs="?", metavar="NAME", help="an entry of SUMMARIZERS (default: SUMMARIZER)")
        parser.add_argument(
            "--timeout", type=at_least(1), metavar="SECONDS", help="for each call (default: that of the settings)"
        )

    def handle(self, *, name: str | None, timeout: int | None, **options: Any) -> None:
        try:
            settings = with_entry(get_settings(), name)
            codes = [self._try_out(alone, get_token_counter()) for alone in _models_of(settings, timeout)]
        except ConfigurationError as error:
            raise WrongCall(error) from error
        if not codes or any(codes):
            raise SystemExit(FAILED)

    def _try_out(self, settings: Settings, count: Count) -> ErrorCode | None:
        """Ask a summarizer of one model, or of none, and print what its answer tells; why that is no summary."""
        plan = plan_of(settings, count)
        request = Prompt(settings).request(plan, secrets.token_hex(8))
        summarizer, size = make_summarizer(settings), count_request(request, count)
        started = time.monotonic()
        answer = ask_for_draft(summarizer, request)
        seconds = time.monotonic() - started
        if isinstance(answer, SummarizerError):
            code: ErrorCode | None = ErrorCode(answer.error_code)
        else:
            code = refuse_draft(answer, request, plan.most_tokens, count)
        summarizer.learn(str(code or ""))
        entry = None
        # The speed of an instant answer says nothing.
        is_timed = seconds >= LEAST_SECONDS
        told = {"seconds": f"{seconds:.1f}" if is_timed else f"under {LEAST_SECONDS}"}
        if isinstance(answer, SummaryDraft) and answer.input_tokens:
            ratio = answer.input_tokens / size
            told["tokens read"] = f"{answer.input_tokens:,}, {ratio:.2f} × the {size:,} of our count"
            speed = f", {answer.output_tokens / seconds:.1f} a second, reading included" if is_timed else ""
            told["tokens written"] = f"{answer.output_tokens:,}{speed}"
        if isinstance(summarizer, OpenAISummarizer):
            # With what was learned of its window.
            [candidate] = summarizer.candidates
            entry = candidate.entry
            told["window"] = _window(candidate, settings)
        if entry and isinstance(answer, SummaryDraft) and answer.output_tokens:
            told["TIMEOUT"] = f"{_timeout(entry, answer, seconds, size)} for its longest request"
        told["verdict"] = self.style.SUCCESS("accepted")
        if code:
            told["verdict"] = self.style.ERROR(f"refused: {code}, {WHY_IT_FAILED[code]}")
        if isinstance(answer, SummarizerError):
            told["detail"] = printable(str(answer))
        where = f"{entry.model} at {windows.endpoint_of(entry.url)}" if entry else type(summarizer).__name__
        self.stdout.write(self.style.MIGRATE_HEADING(printable(where)))
        for name, text in told.items():
            self.stdout.write(f"  {name:15} {text}")
        if isinstance(answer, SummaryDraft):
            write_some(self.stdout.write, [f"| {printable(line)}" for line in answer.text.strip().splitlines()])
        if code == ErrorCode.TIMEOUT:
            self.stdout.write("  Try again with more time: --timeout 600.")
        return code


def _models_of(settings: Settings, timeout: int | None) -> Iterator[Settings]:
    """For each model of the entry the settings with that model alone, since the next one would answer if it fails."""
    entry = settings.summarizer_entry
    if not issubclass(import_string(entry.backend), OpenAISummarizer):
        yield settings
        return
    for asked in entry.models or entry.chat_models:
        yield with_model(settings, asked.model_copy(update={"timeout": timeout or asked.timeout}))


def plan_of(settings: Settings, count: Count) -> CompactionPlan:
    texts = [" ".join(text.split()) for text in CONVERSATION.split("\n\n")]
    roles = [(Role.USER, Role.ASSISTANT)[n % 2] for n in range(len(texts))]
    tokens = count_messages([{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)], count)
    rows = enumerate(zip(roles, texts, tokens, strict=True), start=1)
    messages = tuple(Message(id=n, depth=n, role=role, content=text, tokens=size) for n, (role, text, size) in rows)
    covered, kept = messages[:-2], messages[-2:]
    return CompactionPlan(
        covered=covered,
        lookahead=kept,
        kept=kept,
        base=None,
        turn_request=None,
        cutoff=covered[-1],
        anchor_id=kept[-1].id,
        anchor_depth=kept[-1].depth,
        target_tokens=TARGET_TOKENS,
        replaced_tokens=sum(tokens[:-2]),
        most_tokens=largest_saving_summary(sum(tokens[:-2]), settings.min_saving_ratio),
    )


def _window(candidate: Candidate, settings: Settings) -> str:
    entry = candidate.entry
    if learned := candidate.learned or windows.learned_at(*entry.place)[1].capacity:
        return f"{learned.window:,}, as the server said"
    # CONTEXT_WINDOW is that of the chat model.
    settings = settings.but(context_window=None)
    known = window_of(entry.model, settings)
    return f"{known:,}" if known else f"{settings.default_context_window:,}, assumed: name it in MODELS"


def _timeout(entry: ModelEntry, draft: SummaryDraft, seconds: float, size: int) -> int:
    """Seconds for the longest request of this model."""
    # Both in tokens as they are written.
    done = max(0, draft.input_tokens - draft.cached_tokens) / READS_FASTER + draft.output_tokens
    ratio = max(1.0, draft.input_tokens / size)
    longest = entry.max_input_tokens * ratio / READS_FASTER + entry.max_output_tokens
    return max(LEAST_TIMEOUT, math.ceil(MARGIN * seconds * longest / done / 10) * 10)

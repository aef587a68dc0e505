"""``manage.py try_summarizer [NAME]``: one small real request, and the settings that follow from the answer."""

from __future__ import annotations

import json
import math
import secrets
import time
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.management.base import BaseCommand

from compaction_app.conf import AskedModel, Choice, Settings, get_settings, get_token_counter, load
from compaction_app.context import windows
from compaction_app.context.budget import window_of
from compaction_app.exceptions import ConfigurationError
from compaction_app.management.console import FAILED, WrongCall, at_least, printable, write_some
from compaction_app.messages.transcript import largest_saving_summary
from compaction_app.models.words import WHY_IT_FAILED
from compaction_app.summarizers import OpenAISummarizer
from compaction_app.summarizers.base import Failure, Summarizer, make_summarizer
from compaction_app.summarizers.drafts import refuse_draft
from compaction_app.summarizers.openai import ModelEntry
from compaction_app.summarizers.prompts import count_request, request_for
from compaction_app.tokens import Count, count_messages
from compaction_app.transfer.replay import ask_summarizer
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """What one model of an entry answered, or a summarizer that asks none."""

    summarizer: Summarizer
    #: As the settings name it.
    asked: AskedModel | None
    answer: SummaryDraft | Failure
    #: Why the answer is no summary.
    code: ErrorCode | None
    seconds: float
    #: Tokens of the request, by our count.
    size: int

    @property
    def entry(self) -> ModelEntry | None:
        """With what was learned of its window."""
        return self.summarizer.entries[0] if isinstance(self.summarizer, OpenAISummarizer) else None

    def window(self, entry: ModelEntry) -> tuple[int, str]:
        """Tokens of its window, and from where they are known."""
        assert isinstance(self.summarizer, OpenAISummarizer)
        if learned := self.summarizer.learned.get(entry.place) or windows.recall([entry.place]).get(entry.place):
            return learned.input_tokens + learned.output_tokens, "learned from the server"
        settings = self.summarizer.settings.but(context_window=None)
        if not (found := window_of(entry.model, settings)):
            return settings.default_context_window, "assumed: name it"
        is_named = found != window_of(entry.model, settings.but(models={}))
        return found, "as the settings name it" if is_named else "known by the model's name"

    def timeout(self, entry: ModelEntry) -> int | None:
        """Seconds for the longest request of this model; None where nothing was measured."""
        draft = self.answer
        if isinstance(draft, Failure) or not draft.output_tokens:
            return None
        # Both in tokens as they are written.
        done = max(0, draft.input_tokens - draft.cached_tokens) / READS_FASTER + draft.output_tokens
        ratio = max(1.0, draft.input_tokens / self.size)
        longest = entry.max_input_tokens * ratio / READS_FASTER + entry.max_output_tokens
        return max(LEAST_TIMEOUT, math.ceil(MARGIN * self.seconds * longest / done / 10) * 10)


def try_out(settings: Settings, asked: AskedModel | None, count: Count) -> Trial:
    plan = plan_of(count)
    request = request_for(plan, settings, nonce=secrets.token_hex(8))
    summarizer = make_summarizer(settings)
    started = time.monotonic()
    answer = ask_summarizer(summarizer, request)
    seconds = time.monotonic() - started
    if isinstance(answer, Failure):
        code: ErrorCode | None = answer.code
    else:
        most = largest_saving_summary(plan.replaced_tokens, settings.min_saving_ratio)
        code = refuse_draft(answer, request, most, count)
    summarizer.learn(str(code or ""))
    return Trial(
        summarizer=summarizer,
        asked=asked,
        answer=answer,
        code=code,
        seconds=seconds,
        size=count_request(request, count),
    )


def plan_of(count: Count) -> CompactionPlan:
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
        pinned=None,
        cutoff=covered[-1],
        anchor_id=kept[-1].id,
        anchor_depth=kept[-1].depth,
        target_tokens=TARGET_TOKENS,
        replaced_tokens=sum(tokens[:-2]),
    )


class Command(BaseCommand):
    help = (
        "Send one small conversation, which is part of this command, to every model of a summarizer, and print how "
        "fast it answers, how it counts, whether its draft would become a summary, and the settings that follow. "
        "Stores nothing in the database. Exit code 0: every model wrote a summary; 1: one did not; 2: wrong call."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", nargs="?", metavar="NAME", help="an entry of SUMMARIZERS (default: SUMMARIZER)")
        parser.add_argument(
            "--timeout", type=at_least(1), metavar="SECONDS", help="for each call (default: that of the settings)"
        )

    def handle(self, *, name: str | None, timeout: int | None, **options: Any) -> None:
        try:
            settings = get_settings()
            if name:
                if name not in settings.summarizers:
                    raise WrongCall(f"NAME must be one of {', '.join(settings.summarizers)}, not {name!r}.")
                settings = settings.but(summarizer=Choice.model_validate({"NAME": name}))
            trials = []
            for trial in _trials(settings, timeout):
                self._print(trial)
                trials.append(trial)
        except ConfigurationError as error:
            raise WrongCall(error) from error
        if lines := _as_settings(settings, trials):
            self.stdout.write("\n" + "\n".join(lines))
        if not trials or any(trial.code for trial in trials):
            raise SystemExit(FAILED)

    def _print(self, trial: Trial) -> None:
        entry, answer = trial.entry, trial.answer
        where = f"{entry.model} at {windows.endpoint_of(entry.url)}" if entry else type(trial.summarizer).__name__
        told = {"seconds": f"{trial.seconds:.1f}"}
        if isinstance(answer, SummaryDraft) and answer.input_tokens:
            ratio = answer.input_tokens / trial.size
            told["tokens read"] = f"{answer.input_tokens:,}, {ratio:.2f} × the {trial.size:,} of our count"
            speed = answer.output_tokens / max(trial.seconds, 0.001)
            told["tokens written"] = f"{answer.output_tokens:,}, {speed:.1f} a second, reading included"
        if isinstance(answer, SummaryDraft):
            told["finish reason"] = printable(str(answer.finish_reason or "none"))
        if entry:
            tokens, origin = trial.window(entry)
            told["window"] = f"{tokens:,}, {origin}"
        told["verdict"] = self.style.SUCCESS("accepted")
        if trial.code:
            told["verdict"] = self.style.ERROR(f"refused: {trial.code}, {WHY_IT_FAILED[trial.code]}")
        if isinstance(answer, Failure):
            told["detail"] = printable(answer.detail)
        self.stdout.write(self.style.MIGRATE_HEADING(printable(where)))
        for name, text in told.items():
            self.stdout.write(f"  {name:15} {text}")
        if isinstance(answer, SummaryDraft):
            write_some(self.stdout.write, [f"| {printable(line)}" for line in answer.text.strip().splitlines()])
        if trial.code == ErrorCode.TIMEOUT:
            self.stdout.write("  Try again with more time: --timeout 600.")


def _trials(settings: Settings, timeout: int | None) -> Iterator[Trial]:
    entry, count = settings.summarizer_entry, get_token_counter()
    if not issubclass(load(entry.backend), OpenAISummarizer):
        yield try_out(settings, None, count)
        return
    for asked in entry.models or entry.chat_models:
        one = asked.model_copy(update={"timeout": timeout}) if timeout else asked
        alone = entry.model_copy(update={"models": (one,), "chat_models": ()})
        only = settings.but(summarizers={**settings.summarizers, settings.summarizer.name: alone})
        yield try_out(only, asked, count)


def _as_settings(settings: Settings, trials: Sequence[Trial]) -> list[str]:
    """The lines to paste, of the models that answered; other keys of the entry stay."""
    answered = [(one.asked, entry, one) for one in trials if one.asked and (entry := one.entry) and one.timeout(entry)]
    if not answered:
        return []
    name = "MODELS" if settings.summarizer_entry.models else "CHAT_MODELS"
    lines = ["COMPACTION = {", '    "SUMMARIZERS": {', f"        {json.dumps(settings.summarizer.name)}: {{"]
    lines.append(f'            "{name}": [')
    for asked, _, _ in answered:
        # A time-out of its own would count instead of the entry's.
        lines.append(f"                {json.dumps(asked.model_dump(exclude_none=True, exclude={'timeout'}))},")
    longest = max(trial.timeout(entry) or 0 for _, entry, trial in answered)
    lines += ["            ],", f'            "TIMEOUT": {longest},', "        },", "    },", '    "MODELS": {']
    for _, entry, trial in answered:
        tokens, origin = trial.window(entry)
        lines.append(f'        {json.dumps(entry.model)}: {{"window": {tokens:_}}},  # {origin}')
    return [*lines, "    },", "}"]

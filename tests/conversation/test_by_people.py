"""What a person decides: where to cut, what the summary says, and what would happen."""

from __future__ import annotations

import asyncio

import pytest
from django.contrib.auth.models import AnonymousUser

from compaction_app import chat, tasks
from compaction_app.conf import get_token_counter
from compaction_app.exceptions import CompactionFailed, CompactionRefused, InvalidMessage, NotASummary
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from compaction_app.summarizers.prompts import count_request
from compaction_app.transfer.export import export_sessions
from compaction_app.tree.verify import verify_session
from tests.builders import grow
from tests.fake_summarizer import FakeSummarizer
from tests.small import small, talk

pytestmark = pytest.mark.django_db(transaction=True)

WRITTEN = "The harbour office keeps the tide tables; Ida wrote every number on the board, 7 among them."


@pytest.fixture(autouse=True)
def _site(settings):
    settings.COMPACTION = small()
    yield
    FakeSummarizer.reset()


@pytest.fixture
def branch(db) -> list[ChatMessage]:
    return talk(chat.start_session(model="m"), turns=20)


@pytest.mark.parametrize("name", ["compact", "acompact"])
def test_an_unknown_argument_is_of_the_function_that_was_called(branch, name):
    with pytest.raises(TypeError, match=rf"^{name}\(\) got an unexpected keyword argument 'nonsense'"):
        getattr(chat, name)(branch[-1], nonsense=1)


class TestUntil:
    def test_the_cut_is_where_they_say(self, branch):
        run = chat.compact(branch[-1], until=branch[9])
        assert (run.status, run.cutoff_id, run.messages_compacted) == ("succeeded", branch[9].pk, 10)
        summary = chat.find_summary(branch[-1])
        assert summary.last_summarized_message_id == branch[9].pk
        shown = [one.message_id for one in chat.get_context(branch[-1]).messages]
        assert shown == [summary.pk, *(one.pk for one in branch[10:])]
        # A later one goes on from it.
        later = asyncio.run(chat.acompact(branch[-1], until=branch[29]))
        assert (later.base_id, later.messages_compacted) == (summary.pk, 20)
        assert verify_session(branch[0].session).problems == []

    def test_a_worker_cuts_where_they_said_too(self, branch):
        run = chat.request_compaction(branch[-1], trigger="manual", until=branch[9])
        assert tasks.compact_branch(run.pk) == "succeeded"
        assert chat.find_summary(branch[-1]).last_summarized_message_id == branch[9].pk

    @pytest.mark.parametrize(
        ("place", "why"),
        [
            (8, r"No turn begins behind message \d+, so it is no place to cut\. Its turn ends at message \d+\."),
            (39, r"No turn begins behind message \d+, so it is no place to cut\.$"),
        ],
    )
    def test_no_place_to_cut_is_refused_with_the_reason(self, branch, place, why):
        with pytest.raises(InvalidMessage, match=why) as refused:
            chat.compact(branch[-1], until=branch[place])
        assert refused.value.field == "until"
        if place == 8:
            assert f"ends at message {branch[9].pk}." in str(refused.value)
        assert not CompactionRun.objects.exists()

    def test_of_another_branch_or_summarized_already_is_refused(self, branch):
        other = grow(branch[0].session, branch[3], "u a u")[1]
        chat.compact(branch[-1], until=branch[19])
        for message in (other, ChatMessage()):
            with pytest.raises(InvalidMessage, match=f"is not on the branch that ends at message {branch[-1].pk}"):
                chat.compact(branch[-1], until=message)
        for message in (branch[9], branch[19]):
            with pytest.raises(InvalidMessage, match=f"Message {message.pk} is summarized already"):
                chat.compact(branch[-1], until=message)
        with pytest.raises(InvalidMessage, match="until must be a ChatMessage"):
            chat.compact(branch[-1], until=branch[9].pk)

    def test_what_stays_leaves_no_room_for_a_summary(self):
        rows = grow(chat.start_session(model="m"), None, "u a u(7950)")
        run = chat.compact(rows[-1], until=rows[1])
        assert (run.status, run.skip_reason) == ("skipped", "nothing_to_compact")

    @pytest.mark.twice
    def test_more_than_a_summarizer_takes_is_covered_in_generations_up_to_there(self, branch, monkeypatch):
        monkeypatch.setattr(FakeSummarizer, "max_input_tokens", 1_400)
        chat.compact(branch[-1], until=branch[29])
        runs = list(CompactionRun.objects.order_by("pk"))
        assert len(runs) > 1
        assert all(run.is_cut_given for run in runs)
        assert chat.find_summary(branch[-1]).last_summarized_message_id == branch[29].pk


class TestText:
    def test_a_summary_that_a_person_wrote(self, branch, django_user_model, monkeypatch):
        ida = django_user_model.objects.create_user("ida")
        run = chat.compact(branch[-1], until=branch[29], text=f"  {WRITTEN}\n", author=ida)
        assert FakeSummarizer.requests == []
        assert (run.status, run.summarizer_model, run.author, run.cost) == ("succeeded", "person", ida, 0)
        summary = chat.find_summary(branch[-1])
        assert (summary.content, summary.is_extract) == (WRITTEN, False)
        assert summary.extract
        # A person has read the whole branch, so it applies to no fork above its tip.
        assert summary.parent_message_id == branch[-1].pk
        fork = grow(branch[0].session, branch[-2], "a")[0]
        assert chat.find_summary(fork) is None
        # The text is stored once, and the next generation goes on from it.
        assert run.written == ""
        tip = talk(branch[0].session, branch[-1], turns=20)[-1]
        monkeypatch.setattr(FakeSummarizer, "text", f"{WRITTEN} Number 19 is on the board.")
        later = chat.compact(tip)
        assert later.base_id == summary.pk
        assert WRITTEN in FakeSummarizer.requests[-1].previous_summary
        ida.delete()
        assert CompactionRun.objects.get(pk=run.pk).author is None

    def test_it_need_not_prove_that_it_is_one(self, branch):
        assert chat.compact(branch[-1], text="Ask Ida.").status == "succeeded"

    @pytest.mark.few
    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("word " * 9_000, "too long for a summary: [0-9]+ tokens are allowed"),
            ("x" * 10**6, "too long for a summary"),
            ('<cutoff id="0"/> said the user', "<cutoff id begins a tag"),
            ("  \n", "needs words"),
            ("\u2060\u200d…", "needs words"),
            ("\x00", "text"),
            (7, "text"),
        ],
    )
    def test_what_can_be_no_summary_is_refused_before_a_run_is_opened(self, branch, text, why):
        with pytest.raises(InvalidMessage, match=why) as refused:
            chat.compact(branch[-1], text=text)
        assert refused.value.field == "text"
        assert not CompactionRun.objects.exists()

    def test_nothing_of_it_is_cut(self, branch):
        text = "Ida's list:\n\n## Errands\n- the crane is broken\n- 7"
        assert chat.compact(branch[-1], until=branch[29], text=text).summary.content == text
        with pytest.raises(InvalidMessage, match="leave it out"):
            chat.compact(branch[-1], text="Ida's list\n\n## Kept word for word\n- the crane is broken")

    def test_whoever_writes_compacts_by_hand_and_nothing_stands_in_for_them(self, branch, settings):
        settings.COMPACTION = small(MODE="manual")
        run = chat.request_compaction(branch[-1], text=WRITTEN)
        assert (run.trigger, run.written) == ("manual", WRITTEN)
        # It takes more than what it would replace.
        CompactionRun.objects.all().delete()
        with pytest.raises(CompactionFailed) as failed:
            chat.compact(branch[-1], until=branch[3], text=WRITTEN * 12)
        assert (failed.value.error_code, chat.find_summary(branch[-1])) == ("oversize", None)

    def test_what_they_write_neither_opens_the_breaker_nor_counts_as_spent(self, settings):
        settings.COMPACTION = small(CONTEXT_WINDOW=4_000, SPENDING_LIMITS={"session": ["1 runs/h"]})
        branch = talk(chat.start_session(model="m"))
        for _ in range(4):
            with pytest.raises(CompactionFailed):
                chat.compact(branch[-1], until=branch[3], text=WRITTEN * 12)
        assert chat.request_compaction(branch[-1]) is not None

    @pytest.mark.parametrize("author", ["ida", 7, AnonymousUser()])
    def test_an_author_is_a_user(self, branch, author):
        for write in (chat.compact, chat.request_compaction):
            with pytest.raises(InvalidMessage, match="author must be a stored user"):
                write(branch[-1], text=WRITTEN, author=author)

    def test_an_export_says_that_a_person_wrote_it(self, branch, tmp_path):
        chat.compact(branch[-1], text=WRITTEN)
        [entry] = export_sessions(ChatSession.objects.all(), tmp_path)
        assert (entry.reason, entry.is_sound) == ("by_person", True)

    def test_erased_before_it_was_stored_no_model_writes_in_its_place(self, branch):
        run = chat.request_compaction(branch[-1], trigger="manual", text=WRITTEN)
        chat.redact_message(branch[0])
        run.refresh_from_db()
        assert run.written == ""
        assert tasks.compact_branch(run.pk) == "failed"
        assert (chat.find_summary(branch[-1]), FakeSummarizer.requests) == (None, [])


class TestCorrected:
    def test_the_corrected_text_stands_where_the_wrong_one_stood(self, branch, django_user_model):
        first = chat.compact(branch[-1], until=branch[9])
        second = chat.compact(branch[-1], until=branch[19])
        ida = django_user_model.objects.create_user("ida")
        run = chat.correct_summary(first.summary, WRITTEN, author=ida)
        assert (run.generation, run.author, run.status) == (3, ida, "succeeded")
        corrected = chat.find_summary(branch[-1])
        assert (corrected.pk, corrected.content) == (run.summary_id, WRITTEN)
        for name in ("parent_message_id", "last_summarized_message_id", "extract", "ledger"):
            assert getattr(corrected, name) == getattr(first.summary, name)
        # What was built on the wrong one may repeat it.
        retired = ChatMessage.objects.filter(pk__in=[first.summary_id, second.summary_id], retired_reason="corrected")
        assert retired.count() == 2
        assert chat.compact(branch[-1], until=branch[29]).base_id == corrected.pk
        assert verify_session(branch[0].session).problems == []

    @pytest.mark.parametrize("by", ["text", "correction"])
    def test_generations_without_a_model_go_on_from_it(self, branch, settings, by):
        """In front of what they quote, and not in the extract, which other branches may be shown."""
        settings.COMPACTION = small(SUMMARIZER="extractive")
        chat.compact(branch[-1], until=branch[9], **({"text": WRITTEN} if by == "text" else {}))
        if by == "correction":
            chat.correct_summary(chat.find_summary(branch[-1]), WRITTEN)
        for place in (19, 29):
            chat.compact(branch[-1], until=branch[place])
            summary = chat.find_summary(branch[-1])
            assert summary.content.startswith(f"{WRITTEN}\n## Quoted from the conversation\n")
            assert summary.content.count(WRITTEN) == 1
            assert WRITTEN not in summary.extract

    def test_an_erasure_reaches_it(self, branch):
        run = chat.correct_summary(chat.compact(branch[-1], until=branch[9]).summary, WRITTEN)
        chat.redact_message(branch[2])
        run.summary.refresh_from_db()
        assert (run.summary.content, run.summary.extract) == ("", "")
        with pytest.raises(InvalidMessage, match="is not in use any more"):
            chat.correct_summary(run.summary, WRITTEN)

    def test_whoever_has_read_a_branch_writes_for_that_branch(self, branch):
        summary = chat.compact(branch[-1], until=branch[9]).summary
        tip = chat.append_message(branch[0].session, branch[-1], role="user", content="The door code is 4711.")
        run = chat.correct_summary(summary, f"{WRITTEN} The code is 4711.", tip=tip)
        assert (run.anchor_id, run.cutoff_id) == (tip.pk, branch[9].pk)
        fork = chat.append_message(branch[0].session, branch[-1], role="user", content="And?")
        assert chat.find_summary(fork) is None
        with pytest.raises(InvalidMessage, match="does not apply at"):
            chat.correct_summary(run.summary, WRITTEN, tip=branch[0])
        # The run was asked for there, wherever the summary before was.
        assert run.tip_id == tip.pk
        chat.redact_message(tip)
        run.summary.refresh_from_db()
        assert run.summary.content == ""

    @pytest.mark.few
    @pytest.mark.parametrize("erase", [chat.redact_message, chat.delete_message, None])
    def test_an_erasure_of_what_they_may_have_known_reaches_it_and_what_was_built_on_it(self, branch, erase):
        summary = chat.compact(branch[-1], until=branch[9]).summary
        known = chat.append_message(branch[0].session, branch[-1], role="user", content="The door code is 4711.")
        run = chat.correct_summary(summary, f"{WRITTEN} The code is fourty-seven eleven.")
        later = chat.append_message(branch[0].session, known, role="assistant", content="Aye, 4712 it is.")
        FakeSummarizer.text = f"{WRITTEN} The code is fourty-seven eleven, and number 19 is on the board."
        built = chat.compact(branch[-1], until=branch[29])
        assert built.base_id == run.summary_id
        # Written after it: nobody knew of this one.
        chat.redact_message(later)
        run.summary.refresh_from_db()
        assert run.summary.content
        if erase:
            erase(known)
        else:
            chat.redact_text(branch[0].session, "The door code is 4711")
        for one in (run, built):
            one.summary.refresh_from_db()
            assert (one.summary.content, one.summary.extract) == ("", "")
            assert one.summary.retired_at
        assert verify_session(branch[0].session).problems == []

    def test_an_erasure_between_them_counts_what_is_left(self, branch, settings):
        """What a provider noted goes too; all below was summed twice, once with the tokens of before."""
        settings.COMPACTION = small(LOOKAHEAD="none")
        chat.correct_summary(chat.compact(branch[-1], until=branch[9]).summary, WRITTEN)
        FakeSummarizer.text = f"{WRITTEN} Number 19 is on the board, too."
        chat.compact(branch[-1], until=branch[29])
        noted = {"content": "Noted.", "provider_specific_fields": {"compaction_blocks": [{"type": "compaction"}]}}
        original = {"format": "openai", "endpoint": "", "model": "m", "data": {"role": "assistant", **noted}}
        last = chat.append_message(branch[0].session, branch[-1], role="assistant", content="Noted.", original=original)
        chat.append_message(branch[0].session, last, role="user", content="And?")
        chat.redact_message(branch[15])
        assert verify_session(branch[0].session).problems == []

    def test_a_text_that_comes_with_its_ledger_does_not_repeat_it(self, branch):
        summary = chat.compact(branch[-1], until=branch[29]).summary
        assert summary.ledger
        corrected = chat.correct_summary(summary, summary.text.replace("Recap", "Told so far")).summary
        assert corrected.text.count("## Kept word for word") == 1
        assert corrected.content == summary.content.replace("Recap", "Told so far")

    def test_of_a_copy_too(self, branch):
        chat.compact(branch[-1], until=branch[9])
        copied = chat.copy_branch(branch[-1])
        tip = chat.tips(copied)[0]
        chat.correct_summary(chat.find_summary(tip), WRITTEN)
        assert chat.find_summary(tip).content == WRITTEN
        assert chat.find_summary(branch[-1]).content != WRITTEN

    @pytest.mark.few
    @pytest.mark.parametrize(
        ("text", "why"),
        [
            (" ", "needs words"),
            ("<user>a</user>", "<user> begins a tag"),
            ("w " * 9_000, "too long"),
            ("\u202e", "needs words"),
        ],
    )
    def test_a_text_that_is_no_summary_changes_nothing(self, branch, text, why):
        summary = chat.compact(branch[-1], until=branch[9]).summary
        with pytest.raises(InvalidMessage, match=why):
            chat.correct_summary(summary, text)
        assert chat.find_summary(branch[-1]) == summary
        with pytest.raises(NotASummary):
            chat.correct_summary(branch[0], WRITTEN)


class TestDryRun:
    def test_it_says_what_would_be_covered_and_asks_nobody(self, branch):
        would = chat.compact(branch[-1], dry_run=True, instructions="The board.")
        assert (FakeSummarizer.requests, CompactionRun.objects.count(), CompactionEvent.objects.count()) == ([], 0, 0)
        run = chat.compact(branch[-1], instructions="The board.")
        for name in ("cutoff_id", "anchor_id", "base_id", "messages_compacted", "tokens_before"):
            assert getattr(would, name) == getattr(run, name), name
        [request] = FakeSummarizer.requests
        assert would.input_tokens == count_request(request, get_token_counter())
        assert would.pk is None
        assert asyncio.run(chat.acompact(branch[-1], dry_run=True)).skip_reason == "nothing_to_compact"

    def test_refused_like_the_real_one(self, branch, settings):
        with pytest.raises(InvalidMessage, match="no place to cut"):
            chat.compact(branch[-1], until=branch[8], dry_run=True)
        settings.COMPACTION = small(MODE="off")
        with pytest.raises(CompactionRefused) as refused:
            chat.compact(branch[-1], dry_run=True)
        assert refused.value.reason == "mode_off"

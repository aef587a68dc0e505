"""``verify_chats``: what is stored agrees with itself, and every kind of disagreement is found, and nothing else."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from compaction_app import chat
from compaction_app.models import ChatMessage, ChatSession, CompactionRun, MessagePin
from compaction_app.tree import verify
from compaction_app.tree.verify import Finding, verify_session
from tests.builders import grow
from tests.small import small
from tests.transfer.bundling import run

# Compacting calls a model, which no open transaction may wait for.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("small_window")]


@dataclass
class World:
    """A session with all that can be wrong: forks, calls, two generations on a base, one cut inside a turn."""

    session: ChatSession
    trunk: list[ChatMessage]
    #: Two variants of one reply.
    variants: list[ChatMessage]
    #: An agent's loop below its request.
    loop: list[ChatMessage]
    #: Generations 1 and 2 on the trunk, 3 and 4 inside the loop.
    runs: list[CompactionRun]
    summaries: list[ChatMessage]


@pytest.fixture
def world() -> World:
    session = chat.start_session(title="all kinds")
    trunk = grow(session, None, "u a(1500) u a(1500) u a(1500) u a(1500) u a(500)")
    runs = [chat.compact(trunk[-1])]
    more = grow(session, trunk[-1], "u a(1500) u a(1500) u a(1500) u a(500)")
    runs.append(chat.compact(more[-1]))
    variants = [*grow(session, trunk[0], "a u"), *grow(session, trunk[0], "a u")]
    loop = grow(session, trunk[0], "a u " + "c t(700) " * 12)
    runs.append(chat.compact(loop[-1]))
    loop += grow(session, loop[-1], "c t(700) " * 12)
    runs.append(chat.compact(loop[-1]))
    summaries = [ChatMessage.objects.get(pk=run.summary_id) for run in runs]
    assert [run.status for run in runs] == ["succeeded"] * 4
    assert [run.base_id is not None for run in runs] == [False, True, False, True]
    assert [summary.pinned_message_id for summary in summaries[2:]] == [loop[1].pk] * 2
    return World(session, trunk + more, variants, loop, runs, summaries)


def change(row: Any, **values: Any) -> None:
    """Write past every guard, as a careless script or a broken disk would."""
    type(row)._base_manager.filter(pk=row.pk).update(**values)


def found(session: ChatSession) -> list[tuple[str, int | None, int | None]]:
    return [(one.finding.value, one.message_id, one.run_id) for one in verify_session(session).problems]


class TestNothingWrong:
    def test_a_session_with_all_of_it_agrees(self, world):
        report = verify_session(world.session)
        assert report.problems == []
        assert (report.messages, report.runs) == (ChatMessage.objects.count(), 4)

    def test_a_count_below_that_of_the_text_beside_an_attachment_is_wrong(self):
        session = chat.start_session()
        picture = {"type": "image", "url": "https://example.org/roof.jpg", "tokens": 255}
        above = grow(session, None, "u a")[-1]
        row = chat.append_message(session, above, role="user", content="word " * 50, attachments=[picture])
        # As another version may have counted the picture.
        for tokens in (row.token_count, row.token_count - 170):
            change(row, token_count=tokens, path_tokens=above.path_tokens + tokens)
            assert found(session) == []
        change(row, token_count=20, path_tokens=above.path_tokens + 20)
        assert found(session) == [("token_count", row.pk, None)]

    def test_what_another_counter_counted_is_told_by_its_number(self, world, settings):
        """The sums agree with the counts that stand there: they go on from them."""
        settings.COMPACTION = small(TOKEN_COUNTER="compaction_app.tokens.CharacterTokenCounter")
        report = verify_session(world.session)
        assert report.problems == []
        assert ChatMessage.objects.count() / 2 < report.counted_otherwise <= ChatMessage.objects.count()
        # What comes after the change is counted by the new one, on top of the old sums.
        grow(world.session, world.loop[-1], "u a(300) " * 40)
        assert verify_session(world.session).problems == []
        assert verify_session(world.session).counted_otherwise == report.counted_otherwise
        # As bulk_create() and other programs write it, and as somebody changed it.
        [row] = ChatMessage.objects.bulk_create(
            [ChatMessage(session=world.session, role="user", content="Hello.", sib_order=99)]
        )
        assert found(world.session) == [("token_count", row.pk, None)]
        change(world.trunk[4], token_count=99)
        assert ("token_count", world.trunk[4].pk, None) in found(world.session)

    def test_an_odd_count_among_many_that_agree_is_wrong_even_where_its_sum_agrees(self, world):
        last = world.loop[-1]
        change(last, token_count=last.token_count + 7, path_tokens=last.path_tokens + 7)
        assert found(world.session) == [("token_count", last.pk, None)]

    def test_the_number_of_queries_does_not_grow_with_the_session(self, world):
        with CaptureQueriesContext(connection) as few:
            verify_session(world.session)
        for n in range(40):
            grow(world.session, world.trunk[n % 10], "u a u")
        with CaptureQueriesContext(connection) as more:
            verify_session(world.session)
        assert len(more) == len(few) <= 5


# Each changes one thing, and tells the findings that have to be reported, by the row that is wrong.
Expected = list[tuple[Finding, Any]]
Corruption = Callable[[World], Expected]


def wrong(finding: Finding, row: Any, *, at: Any = None, **values: Any) -> Expected:
    """Change a row; the finding is reported there, or ``at`` another one."""
    change(row, **values)
    return [(finding, at or row)]


def wrong_cutoff(summary: ChatMessage, to: ChatMessage) -> Expected:
    return wrong(Finding.CUTOFF, summary, last_summarized_message_id=to.pk)


def wrong_request(summary: ChatMessage, to: ChatMessage) -> Expected:
    return wrong(Finding.TURN_REQUEST, summary, pinned_message_id=to.pk)


def pin(row: ChatMessage, *, redacted_at: Any = None, **values: Any) -> Expected:
    chat.pin_message(row)
    MessagePin.objects.update(tokens=row.token_count, **values)
    change(row, redacted_at=redacted_at)
    return [(Finding.PIN, row)]


def wrong_base(world: World, number: int, to: ChatMessage) -> Expected:
    return wrong(Finding.BASE, world.runs[number], at=world.summaries[number], base_id=to.pk)


def elsewhere() -> ChatMessage:
    return grow(chat.start_session(title="another"), None, "u a u")[-1]


def moved_parent(world: World) -> Expected:
    """What stands below it is not told again."""
    moved = world.variants[3]
    grow(world.session, moved, "a u a")
    change(moved, parent_message_id=world.variants[1].pk, sib_order=1)
    return [(Finding.DEPTH, moved), (Finding.LANE, moved), (Finding.PATH_TOKENS, moved)]


def under_summary(world: World) -> Expected:
    summary, child = world.summaries[0], ChatMessage._base_manager.get(pk=world.variants[1].pk)
    child.pk, child.parent_message_id = None, summary.pk
    child.depth, child.path_tokens = summary.depth + 1, summary.path_tokens + child.token_count
    child.save_base(force_insert=True)
    return [(Finding.PARENT, child)]


def summary_of_two_runs(world: World) -> Expected:
    second = CompactionRun._base_manager.get(pk=world.runs[0].pk)
    second.pk, second.generation = None, 5
    second.save(force_insert=True)
    return [(Finding.RUN, second)]


def swapped_generations(world: World) -> Expected:
    for number, generation in ((0, 99), (1, 1), (0, 2)):
        change(world.runs[number], generation=generation)
    return [(Finding.GENERATION, world.runs[0])]


def cutoff_of(world: World, number: int) -> ChatMessage:
    return ChatMessage.objects.get(pk=world.summaries[number].last_summarized_message_id)


CORRUPTIONS: dict[str, Corruption] = {
    "depth": lambda w: wrong(Finding.DEPTH, w.trunk[4], depth=40),
    "depth of a summary": lambda w: wrong(Finding.DEPTH, w.summaries[1], depth=2),
    "prefix sum": lambda w: wrong(Finding.PATH_TOKENS, w.trunk[4], path_tokens=1),
    "prefix sum of a root": lambda w: wrong(Finding.PATH_TOKENS, w.trunk[0], path_tokens=0),
    "prefix sum of a summary": lambda w: wrong(Finding.PATH_TOKENS, w.summaries[0], path_tokens=7),
    "token count": lambda w: wrong(Finding.TOKEN_COUNT, w.trunk[4], token_count=99),
    "content of a summary": lambda w: wrong(Finding.TOKEN_COUNT, w.summaries[1], content="somebody wrote over it"),
    "extract of a message": lambda w: wrong(Finding.EXTRACT, w.trunk[4], extract="user: aye"),
    "extract of an erased summary": lambda w: wrong(Finding.EXTRACT, w.summaries[3], redacted_at=timezone.now()),
    "sibling order": lambda w: wrong(Finding.SIBLING_ORDER, w.variants[2], sib_order=0),
    "lane of a message": lambda w: wrong(Finding.LANE, w.trunk[4], lane_id=w.variants[0].pk),
    "lane that begins twice": lambda w: wrong(Finding.LANE, w.variants[1], lane_id=w.trunk[0].pk),
    "lane of a root": lambda w: wrong(Finding.LANE, w.trunk[0], lane_id=w.trunk[4].pk),
    "lane of a summary": lambda w: wrong(Finding.LANE, w.summaries[0], lane_id=w.loop[0].pk),
    "order of a root": lambda w: wrong(Finding.SIBLING_ORDER, w.trunk[0], sib_order=0),
    "moved below another message": moved_parent,
    "parent of another session": lambda w: wrong(Finding.PARENT, w.variants[1], parent_message_id=elsewhere().pk),
    "parent that is a summary": under_summary,
    "orphan result": lambda w: wrong(Finding.TOOL_RESULT, w.loop[3], tool_call_id="call_of_nobody"),
    "result without a call id": lambda w: wrong(Finding.MESSAGE, w.loop[3], tool_call_id=""),
    "malformed calls": lambda w: wrong(Finding.MESSAGE, w.loop[4], tool_calls=[7]),
    "calls of a user": lambda w: wrong(Finding.MESSAGE, w.loop[-2], role="user"),
    "cutoff on another branch": lambda w: wrong_cutoff(w.summaries[0], w.variants[0]),
    "cutoff below the anchor": lambda w: wrong_cutoff(w.summaries[0], w.trunk[9]),
    "cutoff that is a summary": lambda w: wrong_cutoff(w.summaries[1], w.summaries[0]),
    "cutoff of another session": lambda w: wrong_cutoff(w.summaries[0], elsewhere()),
    "request of an earlier turn": lambda w: wrong_request(w.summaries[2], w.trunk[0]),
    "request on another branch": lambda w: wrong_request(w.summaries[2], w.trunk[4]),
    "request of another session": lambda w: wrong_request(w.summaries[2], elsewhere()),
    "request where a turn ends": lambda w: wrong_request(w.summaries[0], cutoff_of(w, 0).parent),
    "pin with another place": lambda w: pin(w.trunk[4], depth=3),
    "pin of a redacted message": lambda w: pin(w.trunk[4], redacted_at=timezone.now()),
    "pin in another session": lambda w: pin(w.trunk[4], session_id=elsewhere().session_id),
    "base that is no earlier one": lambda w: wrong_base(w, 0, w.summaries[1]),
    "base on another branch": lambda w: wrong_base(w, 3, w.summaries[0]),
    "base that is a message": lambda w: [*wrong_base(w, 1, w.trunk[2]), (Finding.RUN, w.runs[1])],
    "base that is retired": lambda w: wrong(
        Finding.RETIRED_BASE, w.summaries[0], at=w.summaries[1], retired_at=timezone.now()
    ),
    "cutoff that its run does not know": lambda w: wrong(
        Finding.RUN, w.runs[1], cutoff_id=cutoff_of(w, 1).parent_message_id
    ),
    "anchor that its run does not know": lambda w: wrong(Finding.RUN, w.runs[0], anchor_id=w.trunk[-1].pk),
    "tip on another branch": lambda w: wrong(Finding.RUN, w.runs[0], tip_id=w.variants[1].pk),
    "tip that is a summary": lambda w: wrong(Finding.RUN, w.runs[0], tip_id=w.summaries[1].pk),
    "anchor of another session": lambda w: wrong(Finding.RUN, w.runs[0], anchor_id=elsewhere().pk),
    "summary that is a message": lambda w: wrong(Finding.RUN, w.runs[3], summary_id=w.trunk[2].pk),
    "summary of two runs": summary_of_two_runs,
    "summary of a run that was skipped": lambda w: wrong(Finding.RUN, w.runs[3], status="skipped", generation=None),
    "generation of a run that failed": lambda w: wrong(Finding.GENERATION, w.runs[3], status="failed", summary_id=None),
    "generations swapped": swapped_generations,
    "generation left out": lambda w: wrong(Finding.GENERATION, w.runs[3], generation=9),
    "run before it that comes later": lambda w: wrong(Finding.RUN, w.runs[1], previous_run_id=w.runs[3].pk),
}


@pytest.fixture
def without_live_index() -> Iterator[None]:
    """The database itself refuses this one, so its index has to go for a moment."""
    (index,) = (c for c in ChatMessage._meta.constraints if c.name == "compaction_one_live_summary")
    with connection.schema_editor() as editor:
        editor.remove_constraint(ChatMessage, index)
    yield
    ChatMessage._base_manager.update(retired_at=timezone.now())
    with connection.schema_editor() as editor:
        editor.add_constraint(ChatMessage, index)


class TestCorruption:
    @pytest.mark.twice
    def test_each_kind_is_found_and_nothing_else(self, world):
        """One world for all of them: each corruption is rolled back before the next."""
        missed, met = {}, {Finding.TWO_LIVE}
        for kind, corrupt in CORRUPTIONS.items():
            with transaction.atomic():
                wrongs = corrupt(world)
                met |= {finding for finding, _ in wrongs}
                expected = sorted((finding.value, row.pk) for finding, row in wrongs)
                reported = sorted((finding, message or run) for finding, message, run in found(world.session))
                transaction.set_rollback(True)
            if reported != expected:
                missed[kind] = (reported, expected)
        assert missed == {}
        assert met == set(Finding), "the other one has a test of its own"
        assert found(world.session) == []

    def test_two_live_summaries_at_one_place_are_found(self, world, without_live_index):
        second = ChatMessage._base_manager.get(pk=world.summaries[0].pk)
        second.pk, second.sib_order = None, 99
        second.save_base(force_insert=True)
        assert found(world.session) == [("two_live_summaries", second.pk, None)]

    def test_a_session_that_is_written_to_meanwhile_is_read_again(self, world, monkeypatch):
        """Between two queries of a check a commit can make what is right look wrong."""
        change(world.trunk[4], depth=40)
        report = verify._Verification.report

        def mended_meanwhile(one):
            read = report(one)
            if read.problems:
                change(world.trunk[4], depth=world.trunk[4].depth)
                chat.append_message(world.session, role="user", content="meanwhile")
            return read

        monkeypatch.setattr(verify._Verification, "report", mended_meanwhile)
        assert found(world.session) == []


class TestCommand:
    def run(self, *arguments):
        return run("verify_chats", *arguments)

    def test_another_counter_is_a_word_and_no_failure(self, world, settings):
        settings.COMPACTION = small(TOKEN_COUNTER="compaction_app.tokens.CharacterTokenCounter")
        out, code = self.run()
        (told, read) = out.splitlines()
        assert re.fullmatch(r"Counted with another TOKEN_COUNTER, .*: \d+ messages in 1 session\.", told)
        assert read.startswith("No problems found: ")
        assert code == 0
        out, code = self.run("--json")
        assert json.loads(out)["counted_otherwise"] > 0 == code

    def test_json_for_scripts(self, world):
        change(world.runs[3], generation=9)
        out, code = self.run("--json")
        (problem,) = json.loads(out)["disagreements"]
        assert problem == {
            "session_id": str(world.session.pk),
            "finding": "generation",
            "detail": "stored 9, derived 4",
            "message_id": None,
            "run_id": world.runs[3].pk,
        }
        assert code == 1

    def test_what_is_wrong_is_named_and_no_text_of_it_in_the_named_sessions_alone(self, world):
        change(world.trunk[4], content="my secret plan", depth=40)
        out, code = self.run()
        assert f"depth: session {world.session.pk} message #{world.trunk[4].pk}: stored 40, derived 5" in out
        assert "secret" not in out
        assert code == 1
        other = chat.start_session()
        assert self.run(other.pk) == ("No problems found: 1 session, 0 messages and 0 compaction runs checked.\n", 0)

    def test_an_unknown_session_is_a_wrong_call(self):
        with pytest.raises(CommandError, match="There is no session") as caught:
            call_command("verify_chats", str(uuid4()))
        assert caught.value.returncode == 2

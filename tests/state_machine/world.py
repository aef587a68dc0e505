"""A session on a real database and its model, kept in step: each operation is done to both."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from compaction_app import chat
from compaction_app.conf import get_settings
from compaction_app.context.budget import Calibration, calibration_of
from compaction_app.context.reading import resolve_request
from compaction_app.exceptions import CompactionRefused, ContextOverflow, InvalidMessage, PinsTooLarge
from compaction_app.messages.transcript import count_summary
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from compaction_app.models.columns import REDACTED
from compaction_app.summarizers.prompts import OVERSIZE_FACTOR
from compaction_app.values import SummaryRequest
from tests.state_machine.contexts import Limits
from tests.state_machine.model import (
    TOKENS_PER_MISSING_RESULT,
    Node,
    QuarterTokenCounter,
    Tree,
    count,
    goes_on,
    open_calls,
    serials_in,
    told_by,
)
from tests.state_machine.tally import seen
from tests.state_machine.teller import Answer, Teller, TellingSummarizer

OPEN = ("ready", "running")
#: That are kept in step at once.
MOST_COPIES = 2
_TOOLS = [("look", "{}"), ("read_file", '{"path": "/etc/motd"}'), ("shell", '{"command": "ls -l"}')]


class Clock:
    """Time as the app sees it: it passes when a rule says so, and a millisecond whenever somebody looks."""

    def __init__(self) -> None:
        self.time = datetime(2030, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        self.time += timedelta(milliseconds=1)
        return self.time

    def advance(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


class _Faults(logging.Handler):
    """Errors that are only logged, kept to be raised."""

    def __init__(self, faults: list[BaseException]) -> None:
        super().__init__(logging.ERROR)
        self.faults = faults

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self.faults.append(error or AssertionError(record.getMessage()))


@dataclass(eq=False)
class Conversation:
    """What is of one session and its model: of a copy, or of the first one while a copy is in its place."""

    session: ChatSession
    gone: set[int]
    learned: Calibration
    tree: Tree = field(default_factory=Tree)
    erasures: int = 0
    generation: int = 0
    finished: dict[int, tuple[str, int | None]] = field(default_factory=dict)
    has_open_runs: bool = False
    rows: dict[int, ChatMessage] = field(default_factory=dict)
    #: The session that it continues, and the last message there that is summarized here.
    source: UUID | None = None
    continues: int | None = None


#: Of a world, what belongs to one conversation.
_OF_A_SESSION = [one.name for one in fields(Conversation)]


class World:
    """The session, its model, and what a host, a worker and an accident can do to them."""

    def __init__(self, clock: Clock, overrides: dict[str, Any], system_prompt: str, max_input: int | None) -> None:
        self.clock = clock
        self.session = chat.start_session(system_prompt=system_prompt, settings=overrides)
        self.tree = Tree()
        # Of three digits and more, so that one of them is a name of its own.
        self.serial = 100
        self.gone: set[int] = set()
        self.erasures = 0
        self.generation = 0
        self.learned = Calibration()
        self.finished: dict[int, tuple[str, int | None]] = {}
        self.enqueued: list[int] = []
        #: As found after the last rule; Hypothesis asks before it chooses each.
        self.has_open_runs = False
        self.looked = 0
        #: What was found after something else happened during the call of the run with this nonce.
        self.fates: dict[str, dict[str, Any]] = {}
        #: Rows as they were last read: what a host holds in its hands is not always fresh.
        self.rows: dict[int, ChatMessage] = {}
        self.source: UUID | None = None
        self.continues: int | None = None
        self.copies: list[Conversation] = []
        #: What a copy has taken the place of for a moment.
        self.outside: list[Conversation] = []
        self.teller = Teller(self.meanwhile)
        # An on_commit that fails says so in a log only.
        self.log = _Faults(self.teller.faults)
        logging.getLogger("django.db.backends.base").addHandler(self.log)
        TellingSummarizer.teller = self.teller
        TellingSummarizer.max_input_tokens = max_input

    def close(self) -> None:
        logging.getLogger("django.db.backends.base").removeHandler(self.log)
        for copy in self.copies:
            chat.delete_session(copy.session)
        chat.delete_session(self.session)
        for model in (ChatMessage, CompactionRun, CompactionEvent):
            assert not model.objects.filter(session_id=self.session.pk).exists()
        assert not ChatSession.objects.filter(pk=self.session.pk).exists()

    # -- appending --------------------------------------------------------------------------------------

    def content(self, tokens: int, style: str = "plain") -> tuple[int, str]:
        """A new serial and a text of about this size that quotes it."""
        self.serial += 1
        filler = {"plain": "lorem ipsum ", "blank": "a \t  \n\n      \n b    ", "wide": "三つの"}[style]
        size = max(12, 4 * tokens)
        text = f"#s{self.serial}# ".ljust(12, ".") + filler * (size // len(filler) + 1)
        return self.serial, text[:size].strip()

    def say(
        self,
        parent: Node | None,
        role: str,
        tokens: int,
        *,
        calls: int = 0,
        answers: str = "",
        style: str = "plain",
        attached: bool = False,
        own: str = "",
        is_others: bool = False,
        **extra: Any,
    ) -> Node:
        """Append one message that may stand there, to the session and to the model."""
        serial, content = self.content(tokens, style)
        tool_calls = [
            {"id": f"c{n}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for n, (name, arguments) in enumerate(_TOOLS[:calls])
        ]
        attachments = [{"type": "file", "name": "notes.txt"}] if attached else []
        reasoning = {"text": f"thought #s{serial}#"} if role == "assistant" and tokens % 3 == 0 else None
        said: dict[str, Any] = {"role": role, "content": content, "attachments": attachments, "reasoning": reasoning}
        if own:
            noted = {"compaction_blocks": [{"type": "compaction", "content": own}]}
            data = {"role": role, "content": content, "provider_specific_fields": noted}
            model = "another" if is_others else ""
            extra["original"] = {"format": "openai", "endpoint": "", "model": model, "data": data}
        row = chat.append_message(
            self.session, self.row(parent), tool_calls=tool_calls, tool_call_id=answers, **said, **extra
        )
        said |= {"own": own, "is_others": is_others}
        above = parent.id if parent else None
        before = self.tree.path(above)
        order = max((sibling.order for sibling in self.tree.children(above)), default=0) + 1
        node = Node(row.pk, above, order=order, tokens=0, serial=serial, calls=tool_calls, answers=answers, **said)
        waits = role == "tool" or goes_on(before[-1] if before else None, node)
        closes = 0 if waits else len(open_calls(before))
        node.tokens = node.own_tokens() + closes * TOKENS_PER_MISSING_RESULT
        self.tree.nodes[node.id] = node
        return node

    def turn(self, parent: Node | None, shape: Sequence[tuple[int, int]], tokens: int) -> Node:
        """A user message and the work on it: for each (calls, results) a reply that calls and its results."""
        tip = self.say(parent, "user", tokens)
        return self.work(tip, [*shape, (0, 0)], tokens)

    def work(self, tip: Node, shape: Sequence[tuple[int, int]], tokens: int) -> Node:
        for calls, results in shape:
            tip = self.say(tip, "assistant", tokens, calls=calls)
            for n in range(min(calls, results)):
                style = ("plain", "blank", "wide")[(calls + n) % 3]
                tip = self.say(tip, "tool", tokens * (1 + n), answers=f"c{n}", style=style)
        return tip

    def reply_with_own_summary(self, parent: Node, tokens: int, *, is_others: bool = False) -> None:
        """A reply in which the provider says what it keeps of all above."""
        told = " ".join(f"#s{serial}#" for serial in sorted(told_by(self.tree.path(parent.id)) - {0}))
        self.say(parent, "assistant", tokens, own=f"Kept at {self.serial}: {told}.", is_others=is_others)

    def row(self, node: Node | None) -> ChatMessage | None:
        if node is None:
            return None
        return self.rows.get(node.id) or ChatMessage.objects.get(pk=node.id)

    # -- erasing ----------------------------------------------------------------------------------------

    def retire(self, summary: Node) -> None:
        due = {i for i in self.tree.built_on(summary.id) if not self.tree[i].retired}
        assert chat.retire_summary(self.row(summary), reason="a test") == sorted(due)
        for i in due:
            self.tree[i].retired = True
        seen["retired"] += len(due)

    def is_too_long(self, text: str, summary: Node | None = None) -> bool:
        """For a summary that somebody writes, or for a correction of one."""
        most = int(OVERSIZE_FACTOR * resolve_request(ChatSession.objects.get(pk=self.session.pk)).budget.summary_target)
        if summary:
            own = count_summary(self.row(summary).content, QuarterTokenCounter())
            most = max(most, summary.tokens) - summary.tokens + own
        return count_summary(text, QuarterTokenCounter()) > most

    def told_by_people(self, node: Node) -> set[int]:
        """Summaries above that somebody wrote after the message, and all built on them."""
        path = {one.id for one in self.tree.path(node.id)}
        written = [one for one in self.tree.summaries() if one.by_person and one.id > node.id and one.parent in path]
        return {i for one in written for i in self.tree.built_on(one.id)}

    def _empty(self, ids: set[int]) -> None:
        self._erase_carried(ids)
        for summary in self.tree.summaries():
            if summary.id in ids:
                summary.retired, summary.redacted, summary.content, summary.extract = True, True, "", ""
                seen["emptied"] += 1

    def _erase_carried(self, ids: set[int], *, deleted: set[int] | None = None) -> None:
        """What was carried over from some summaries goes with them, here and in copies."""
        made = {one.id for one in self.tree.summaries() if one.id in ids and one.for_another and not one.redacted}
        gone = self.gone | {self.tree[i].serial for i in deleted or ()}
        here = Conversation(**{name: getattr(self, name) for name in _OF_A_SESSION})
        found = [
            (one.id, other)
            for other in (here, *self._others())
            for one in other.tree.messages()
            if one.copy_of in made and not one.redacted and one.id not in (deleted or ())
        ]
        for i, other in sorted(found, key=lambda pair: pair[0]):
            with nullcontext() if other is here else self.inside(other):
                node = self.tree[i]
                if not node.redacted:
                    self.gone |= (gone & node.carries) - {one.serial for one in self.tree.messages()}
                    self._note_redaction(node, REDACTED, set())
                    seen["erased where it was carried over"] += 1

    def correct(self, summary: Node) -> None:
        text = f"K0K Corrected: {self.row(summary).content[:60]}"
        problem = "not in use" if summary.retired else "too long" if self.is_too_long(text, summary) else ""
        if problem:
            with pytest.raises(InvalidMessage, match=problem):
                chat.correct_summary(self.row(summary), text)
            return
        due = {i for i in self.tree.built_on(summary.id) if not self.tree[i].retired}
        chat.correct_summary(self.row(summary), text)
        for i in due:
            self.tree[i].retired = True
        seen["corrected"] += 1

    def redact(self, node: Node, *, copies: bool = False) -> None:
        self.serial += 1
        replacement = f"[redacted #s{self.serial}#]"
        # The compaction that the redaction asks for is opened after it, and never read the erased text.
        before = set(CompactionRun.objects.values_list("pk", flat=True))
        found, due = chat.copies_of(self.row(node)), self.copies_of(node)
        assert {row.pk for row in found} == {one.id for _, one in due}
        chat.redact_message(self.row(node), replacement=replacement, copies=found if copies else ())
        self._note_redaction(node, replacement, before)
        for copy, one in due if copies else ():
            with self.inside(copy):
                self._note_redaction(one, replacement, before)
            seen["redacted in a copy"] += 1

    def _note_redaction(self, node: Node, replacement: str, before: set[int]) -> None:
        serial = node.serial
        self._blank(node, replacement)
        told = self.told_by_people(node)
        self._empty({*self.tree.subtree(node.id), *told})
        self.tree.drop_own(node.id)
        self.erasures += 1
        self._check_unlinked(node, before)
        self._reach({node.id, *told}, {serial} - {node.serial}, replacement)

    def _blank(self, node: Node, replacement: str) -> None:
        own, serial = node.own_tokens(), next(iter(serials_in(replacement)), 0)
        # A copy that continues it was erased with it already.
        self.gone |= {node.serial} - {serial, 0}
        node.carries = frozenset()
        node.serial, node.content = serial, replacement
        node.redacted, node.pinned, node.attachments, node.reasoning, node.own = True, False, [], None, ""
        for call in node.calls:
            call["function"] = {"name": call["function"]["name"], "arguments": "{}"}
        node.tokens += node.own_tokens() - own

    def _reach(self, erased: set[int], gone: set[int], replacement: str, *, from_above: bool = False) -> None:
        """What is erased here goes in the conversations that continue this one, too."""
        # What carries a summary over names that as its first, too.
        firsts = {(self.tree[i].copy_of or i, self.tree[i].is_summary) for i in erased}
        for other in [one for one in self._others() if one.source == self.session.pk]:
            path = {one.id for one in self.tree.path(other.continues)} if other.continues else set()
            is_above = from_above or bool(erased & path)
            with self.inside(other):
                own = list(self.tree.nodes.values())
                alike = [one for one in own if (one.copy_of, one.is_summary) in firsts]
                copies = [one for one in alike if one.parent is not None]
                messages = sorted((one for one in copies if not one.is_summary), key=lambda one: one.id)
                first = {one.id for one in own if one.parent is None and one.order == 1}
                tops = first if is_above else {one.id for one in messages[:1]}
                told = {i for one in messages for i in self.told_by_people(one)}
                told |= {i for one in copies if one.is_summary for i in self.tree.built_on(one.id)}
                if not (tops or told):
                    continue
                self.gone |= gone
                for one in messages:
                    self._blank(one, replacement)
                self._empty(told.union(*(self.tree.subtree(top) for top in tops)))
                for top in tops:
                    self.tree.drop_own(top)
                self.erasures += 1
                seen["erased in what continues it"] += 1
                self._reach(tops | told | {one.id for one in messages}, gone, replacement, from_above=is_above)

    def _leave(self, gone: set[int], parent: int | None) -> None:
        """What continues a deleted message goes on after the one above it, which may be above this conversation."""
        for other in self._others():
            if other.source == self.session.pk and other.continues in gone:
                other.continues = parent or self.continues
                other.source = self.session.pk if parent else self.source

    def _check_unlinked(self, node: Node, before: set[int]) -> None:
        for run in self.runs():
            if run.pk in before and run.tip_id is not None and node.id in {n.id for n in self.tree.path(run.tip_id)}:
                assert not run.error_detail
                assert not run.instructions

    def delete(self, node: Node) -> None:
        below = self.tree.subtree(node.id)
        told = self.told_by_people(node) - set(below)
        assert chat.delete_message(self.row(node)) == len(below)
        self._empty(told)
        self._erase_carried(below, deleted=below)
        self._reach(below | told, {self.tree[i].serial for i in below}, REDACTED)
        self._leave(below, node.parent)
        for i in below:
            self.gone |= {self.tree.nodes.pop(i).serial} - {0}
        self.erasures += 1 + bool(told)
        seen["deleted"] += len(below)

    def pin(self, node: Node) -> None:
        """Pinned, unless it cannot be, or all pins together would be too large."""
        total = node.tokens + sum(one.tokens for one in self.tree.messages() if one.pinned)
        is_refused = node.is_summary or node.redacted or node.role == "tool" or bool(node.calls)
        allowed = int(self.limits().available * 0.25)
        due = InvalidMessage if is_refused else PinsTooLarge if total > allowed and not node.pinned else None
        with pytest.raises(due) if due else nullcontext() as refused:
            chat.pin_message(self.row(node))
        if due is PinsTooLarge:
            assert (refused.value.needed, refused.value.allowed) == (total, allowed)
        node.pinned = due is None
        seen[f"pinned: {due.__name__ if due else 'yes'}"] += 1

    def unpin(self, node: Node) -> None:
        chat.unpin_message(self.row(node))
        node.pinned = False

    def refuse_erasure(self, summary: Node) -> None:
        for erase in (chat.delete_message, chat.redact_message):
            try:
                erase(self.row(summary))
            except InvalidMessage:
                continue
            raise AssertionError("a summary was erased, not retired")

    # -- copies -----------------------------------------------------------------------------------------

    def copy(self, tip: Node, until: Node) -> None:
        """The database's against the model's; the oldest copy makes room for it."""
        session = chat.copy_branch(self.row(tip), until=self.row(until))
        rows, path = list(session.messages.order_by("id")), self.tree.path(until.id)
        ids = {node.id: row.pk for node, row in zip(path, rows, strict=False)}
        copied = Conversation(session, set(self.gone), self.learned)
        for node in path:
            own = {"id": ids[node.id], "parent": ids.get(node.parent or 0), "order": 1, "reasoning": None}
            # What came from a provider stays behind.
            own |= {"copy_of": node.copy_of or node.id, "own": "", "tokens": node.tokens - count(node.own)}
            copied.tree.nodes[ids[node.id]] = replace(deepcopy(node), **own)
        summary, came = self.tree.newest(until.id), rows[len(path) :]
        assert len(came) == (summary is not None), "the summary that applies, and no other"
        if summary is not None:
            covered = tuple(ids[i] for link in self.tree.chain(summary) for i in link.covered)
            order = len(copied.tree.children(ids[summary.parent])) + 1
            copied.tree.nodes[came[0].pk] = replace(
                summary,
                id=came[0].pk,
                parent=ids[summary.parent],
                order=order,
                cutoff=ids[summary.cutoff],
                pin=ids[summary.pin] if summary.pin else None,
                base=None,
                covered=covered,
                shown=frozenset(ids[i] for i in summary.shown),
                copy_of=summary.copy_of or summary.id,
            )
        # The first root is what stands for others, if the conversation continues any.
        if path[0].order == 1:
            copied.source, copied.continues, copied.tree.shift = self.source, self.continues, self.tree.shift
            copied.tree.told_above |= self.tree.told_above
        seen["copied"] += 1
        seen["copied with summary"] += summary is not None
        self._keep(copied)

    def _keep(self, copied: Conversation) -> None:
        self.copies.append(copied)
        if len(self.copies) > MOST_COPIES:
            oldest = next(copy for copy in self.copies if copy.tree is not self.tree)
            # Django takes the id of the instance that is deleted.
            chat.delete_session(ChatSession.objects.get(pk=oldest.session.pk))
            with self.inside(oldest):
                ids = set(self.tree.nodes)
                self._erase_carried(ids, deleted=ids)
                self._reach(ids, {one.serial for one in self.tree.messages()}, REDACTED)
                self._leave(ids, None)
            self.copies.remove(oldest)

    def hand_over(self, tip: Node) -> None:
        """With the summary that applies, which there is."""
        summary = self.tree.newest(tip.id)
        assert summary is not None
        if get_settings(self.session.settings).mode == "off":
            with pytest.raises(CompactionRefused):
                chat.hand_over(self.row(tip))
            return
        try:
            if chat.get_context(self.row(tip)).summary_id != summary.id:
                # Another one is made first.
                return
        except ContextOverflow:
            return
        session = chat.hand_over(self.row(tip))
        *rows, told = session.messages.order_by("id")
        path, tail = self.tree.path(tip.id), self.tree.tail(tip.id, summary)
        above = path[: len(path) - len(tail)]
        pins = [one.id for one in above if one.pinned and one.id != summary.pin]
        due = [*pins, *([summary.pin] if summary.pin else []), *(one.id for one in tail)]
        new = Conversation(session, set(self.gone), self.learned, source=self.session.pk, continues=summary.cutoff)
        new.tree.shift = self.tree.shift + len(above) - (len(due) - len(tail) + 1)
        ids, parent = dict[int, int](), rows[0]
        stands = Node(parent.pk, None, "user", parent.content, 1, 0)
        stands.tokens = stands.own_tokens()
        new.tree.nodes[stands.id] = stands
        for i, row in zip(due, rows[1:], strict=True):
            ids[i], before = row.pk, new.tree.path(parent.pk)
            own = {"id": row.pk, "parent": parent.pk, "order": 1, "copy_of": self.tree[i].copy_of or i}
            node = replace(deepcopy(self.tree[i]), **own)
            waits = node.role == "tool" or goes_on(before[-1], node)
            node.tokens = node.own_tokens() + (0 if waits else len(open_calls(before))) * TOKENS_PER_MISSING_RESULT
            new.tree.nodes[row.pk], parent = node, row
        head = [stands.id, *(ids[i] for i in due[: len(due) - len(tail)])]
        anchor = ids[summary.parent] if summary.parent in {one.id for one in tail} else head[-1]
        pin = ids[summary.pin] if summary.pin else None
        new.tree.nodes[told.pk] = replace(
            summary,
            id=told.pk,
            parent=anchor,
            order=len(new.tree.children(anchor)) + 1,
            cutoff=head[-1],
            pin=pin,
            base=None,
            covered=tuple(i for i in head if i != pin),
            shown=frozenset(one.id for one in new.tree.path(anchor)),
            copy_of=summary.copy_of or summary.id,
        )
        new.tree.told_above = self.tree.told_above | told_by(above)
        self._check_same_prompt(self.row(tip), ChatMessage.objects.get(pk=parent.pk))
        seen["handed over"] += 1
        seen["handed over with pins"] += bool(pins)
        seen["handed over within a turn"] += pin is not None
        self._keep(new)

    def _check_same_prompt(self, tip: ChatMessage, new: ChatMessage) -> None:
        """Unless something had to be left out, or counts less, without calls before it that nobody answered."""
        try:
            one, other = chat.get_context(tip), chat.get_context(new)
        except ContextOverflow:
            return
        if not (one.dropped or other.dropped) and one.history_tokens == other.history_tokens:
            assert one.to_openai() == other.to_openai()
            seen["handed over with the same prompt"] += 1

    def _others(self) -> list[Conversation]:
        """The conversations but this one, each as it is now: one that is left for a moment is kept outside."""
        now = {id(one.tree): one for one in (*self.copies, *self.outside)}
        return [one for one in now.values() if one.tree is not self.tree]

    @contextmanager
    def inside(self, other: Conversation) -> Iterator[None]:
        """Everything that is done in the meantime is done to another conversation."""
        outside = Conversation(**{name: getattr(self, name) for name in _OF_A_SESSION})
        self.outside.append(outside)
        vars(self).update(vars(other))
        try:
            yield
        finally:
            self.outside.remove(outside)
            vars(other).update({name: getattr(self, name) for name in _OF_A_SESSION})
            vars(self).update(vars(outside))

    def copies_of(self, node: Node) -> list[tuple[Conversation, Node]]:
        """The same message in the other conversations, whichever of them was copied from which."""
        place = (node.copy_of or node.id, self.tree.number(node.id))
        nodes = ((other, one) for other in self._others() for one in other.tree.messages())
        found = ((other, one, (one.copy_of or one.id, other.tree.number(one.id))) for other, one in nodes)
        return [(other, one) for other, one, its in found if its == place]

    # -- settings and figures ---------------------------------------------------------------------------

    def change_settings(self, overrides: dict[str, Any]) -> None:
        session = ChatSession.objects.get(pk=self.session.pk)
        session.settings = {**session.settings, **overrides}
        session.save()
        self.session = session

    def limits(self, **extra: Any) -> Limits:
        return Limits.of(get_settings(self.session.settings), self.session.system_prompt, self.learned, **extra)

    def reply_with_usage(self, parent: Node, tokens: int, ratio: float) -> Node | None:
        """A reply that says how many tokens its prompt took by the provider's count."""
        try:
            context = chat.get_context(self.row(parent))
        except ContextOverflow:
            return None
        prompt_tokens = int(context.tokens * ratio)
        node = self.say(parent, "assistant", tokens, context=context, usage={"prompt_tokens": prompt_tokens})
        if context.tokens > 0 and prompt_tokens > 0:
            stored = ChatSession.objects.get(pk=self.session.pk).token_calibration
            self.learned = calibration_of(stored, "")
            # Whatever was reported, the correction stays within reason.
            assert 0.8 <= self.learned.ratio <= 2.0
            assert 0 <= self.learned.offset <= 20_000
        self.session = ChatSession.objects.get(pk=self.session.pk)
        return node

    # -- runs -------------------------------------------------------------------------------------------

    def runs(self) -> list[CompactionRun]:
        return list(CompactionRun.objects.filter(session_id=self.session.pk).order_by("id"))

    def open_runs(self) -> list[CompactionRun]:
        runs = CompactionRun.objects.filter(session_id=self.session.pk, status__in=OPEN)
        return list(runs.order_by("id"))

    def run_keys(self) -> set[int]:
        return set(CompactionRun.objects.filter(session_id=self.session.pk).values_list("pk", flat=True))

    def why_stale(self, run: CompactionRun) -> str | None:
        """Why a run can not be carried out any more."""
        if run.tip_id not in self.tree:
            return "branch_gone"
        if run.trigger == "carry_over":
            return "base_changed" if run.base_id and self.tree[run.base_id].redacted else None
        base = self.tree.newest(run.tip_id)
        return None if (base.id if base else None) == run.base_id else "base_changed"

    @contextmanager
    def answering(self, answer: Answer) -> Iterator[None]:
        """The next call of the model goes like this; what went wrong inside it is raised afterwards."""
        self.teller.script.clear()
        self.teller.script.append(answer)
        yield
        self.teller.script.clear()
        self.raise_faults()

    def raise_faults(self) -> None:
        if self.teller.faults:
            raise self.teller.faults[0]

    def meanwhile(self, request: SummaryRequest, action: tuple[str, int, int]) -> None:
        """What happens in the middle of the model's call."""
        raise NotImplementedError


def pick(items: Sequence[Any], i: int) -> Any:
    return items[i % len(items)] if items else None

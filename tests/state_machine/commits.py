"""What a summary may rest on: checked for each one when it appears, against the model as it was before it."""

from collections.abc import Sequence
from itertools import pairwise

from compaction_app.compaction.planning import LOOKAHEAD_TOKENS
from compaction_app.conf import Settings, settings_from_snapshot
from compaction_app.messages.transcript import SUMMARY_WRAPPER_TOKENS, count_summary
from compaction_app.models import ChatMessage, CompactionRun
from compaction_app.values import PERSON
from tests.state_machine.contexts import pins_beside, room_for_summary
from tests.state_machine.model import (
    Node,
    QuarterTokenCounter,
    Tree,
    count,
    goes_on,
    newest_user,
    open_calls,
    serials_in,
    serials_of,
    told_by,
)
from tests.state_machine.teller import Told


def check_commit(tree: Tree, row: ChatMessage, run: CompactionRun, told: Told | None) -> Node:
    """The node for a new summary row, after every rule about it. ``told``: None for an extract that stands in."""
    assert run.status == "succeeded"
    assert run.tip_id is not None
    path = tree.path(run.tip_id)
    ids = [node.id for node in path]
    base = tree.newest(run.tip_id)
    assert run.base_id == (base.id if base else None), "built on a summary that is not the newest"
    cutoff, anchor, pin = row.last_summarized_message_id, row.parent_message_id, row.pinned_message_id
    assert cutoff in ids, "the cutoff is not on the branch"
    assert anchor in ids, "the anchor is not on the branch"
    assert (run.cutoff_id, run.anchor_id) == (cutoff, anchor)
    at, anchored = ids.index(cutoff), ids.index(anchor)
    start = ids.index(base.cutoff) + 1 if base else 0
    is_by_person = run.summarizer_model == PERSON
    assert start <= at <= anchored, "the cutoff did not rise, or lies below the anchor"
    _check_cut(path, start, at, pin, base, run)
    let_go = [tree[base.pin]] if base and base.pin and base.pin != pin else []
    due = let_go + [node for node in path[start : at + 1] if node.id != pin]
    covered, lookahead = tuple(node.id for node in due), told.lookahead if told else ()
    assert due, "covers nothing but the pin"
    # The working memory keeps requests that the base's extract had no room for.
    covered_before = [tree[i] for link in tree.chain(base) for i in link.covered if i in tree] if base else []
    if told:
        assert told.covered == covered, "covered is not what stands between the cutoffs"
        assert told.covered_serials == serials_of(due), "left out of the summarizer's input"
        assert told.pinned_serials == serials_of([tree[pin]] if pin else ())
        assert told.lookahead_serials == serials_of(tree[i] for i in told.lookahead)
        assert (told.previous is None) == (base is None)
        key = f"K{told.previous}K" if told.previous else ""
        assert base is None or key in base.content, "the previous summary is another one"
    else:
        # It goes on from the base's extract, which may tell what the base's text does not.
        earlier = serials_in(f"{base.content} {base.extract}") if base else set()
        quoted = serials_in(row.text) - earlier
        known = path if is_by_person else [*due, *covered_before]
        assert quoted <= told_by(known), "it tells of what nobody was shown"
    shown = (
        {*covered, *lookahead, *(ids if is_by_person else ())}
        | (base.shown if base else frozenset())
        | ({pin} if pin else set())
    )
    assert shown <= set(ids[: anchored + 1]), "the summarizer was shown what lies below the anchor"
    # Above its base it would not apply where the base does; a call left open at the cutoff may be answered on a branch
    # that shares the summary.
    allowed = ([ids.index(base.parent)] if base else []) + ([at + 1] if open_calls(path[: at + 1]) else [])
    seen = _lookahead_of(path[at + 1 :], run)
    assert anchored == max(at, at + len(seen), *allowed), "the anchor is not the deepest of those that are allowed"
    if told:
        room = min(LOOKAHEAD_TOKENS, told.max_input // 4 if told.max_input else LOOKAHEAD_TOKENS)
        fits = [node.id for n, node in enumerate(seen) if sum(one.tokens for one in seen[n:]) <= room]
        # Of a small summarizer's input the prompt's own words take a part.
        assert list(lookahead) == (fits[len(fits) - len(lookahead) :] if told.max_input else fits)
        assert count(row.extract) <= told.target_tokens or told.target_tokens < run.request["target_tokens"]
    quotable = told_by([*due, *covered_before]) | (serials_in(base.extract) | tree.told_above if base else set())
    beyond = serials_in(row.extract) - quotable
    assert not beyond, f"the extract tells of what the cutoff does not cover: {beyond}"
    # What is pinned stays: nothing replaces it.
    replaced = sum(tree[i].tokens for i in covered if not tree[i].pinned) + (base.tokens if base else 0)
    ratio = settings_from_snapshot(run.settings).min_saving_ratio
    assert row.token_count == count_summary(row.text, QuarterTokenCounter())
    assert replaced - row.token_count >= ratio * replaced, "not smaller than what it replaces"
    assert run.messages_compacted == len(covered)
    pinned = tree[pin] if pin else None
    room = room_for_summary(path[at + 1 :], pinned, run.budget["available"], tree.pins(run.tip_id))
    assert row.token_count <= room, "paid for, and too large to be shown"
    stays = [*path[at + 1 :], *([pinned] if pinned else [])]
    kept = sum(node.tokens for node in stays) + sum(piece.tokens for piece in pins_beside(tree.pins(run.tip_id), stays))
    assert run.tokens_after == row.token_count + kept
    return Node(
        id=row.pk,
        parent=anchor,
        role="user",
        content=row.text,
        order=max((child.order for child in tree.children(anchor)), default=0) + 1,
        tokens=row.token_count,
        cutoff=cutoff,
        pin=pin,
        base=base.id if base else None,
        covered=covered,
        shown=frozenset(shown),
        extract=row.extract,
        by_person=is_by_person,
    )


def check_carried(tree: Tree, row: ChatMessage, run: CompactionRun, told: Told | None) -> Node:
    """The node for a summary that was made for another branch: it tells of the messages below the fork alone."""
    assert run.tip_id is not None
    path = tree.path(run.tip_id)
    ids = [node.id for node in path]
    base = tree[run.base_id] if run.base_id else None
    fork, at = len(path) - (run.messages_compacted or 0), ids.index(row.last_summarized_message_id)
    start = ids.index(base.cutoff) + 1 if base else fork
    pin = row.pinned_message_id
    let_go = [tree[base.pin]] if base and base.pin and base.pin != pin else []
    due = let_go + [node for node in path[start : at + 1] if node.id != pin]
    stretch = path[fork:]
    if told:
        assert told.covered == tuple(node.id for node in due)
        assert told.covered_serials == serials_of(due)
        assert set(told.lookahead) <= {node.id for node in stretch}
    assert serials_in(f"{row.text} {row.extract}") <= told_by(stretch), "it tells of what is above the fork"
    assert row.retired_at is not None, "it is for another branch"
    return Node(
        id=row.pk,
        parent=row.parent_message_id,
        role="user",
        content=row.text,
        order=max((child.order for child in tree.children(row.parent_message_id)), default=0) + 1,
        tokens=row.token_count,
        cutoff=row.last_summarized_message_id,
        pin=pin,
        base=base.id if base else None,
        covered=tuple(node.id for node in due),
        extract=row.extract,
        retired=True,
        for_another=True,
    )


def _check_cut(path: list[Node], start: int, at: int, pin: int | None, base: Node | None, run: CompactionRun) -> None:
    kept = path[at + 1 :]
    floor = settings_from_snapshot(run.settings).preserve_recent_messages
    assert len(kept) >= (1 if run.is_cut_given else floor), "fewer messages are kept than the floor"
    assert kept[0].role != "tool", "a call is separated from its result"
    user = newest_user(path)
    turn_user = newest_user(path[: at + 1])
    if kept[0].role == "user":
        assert pin is None, "a cut between turns pins nothing"
    else:
        assert kept[0].role == "assistant", "a cut inside a turn stands before a reply"
        started = path[path.index(turn_user) + 1 :] if turn_user else path
        assert any(node.role == "assistant" for node in started[: started.index(kept[0])]), "before the first reply"
        told_before = (
            base is not None and turn_user is not None and turn_user in path[:start] and base.pin != turn_user.id
        )
        assert pin == (None if turn_user is None or told_before else turn_user.id), "the turn's request is not pinned"
    if user is not None and user in path[start:]:
        assert user in kept or pin == user.id, "the newest user message is covered (rule 7)"


def _lookahead_of(kept: list[Node], run: CompactionRun) -> list[Node]:
    is_by_person = run.summarizer_model == PERSON
    rule = (
        "tip" if run.instructions or run.policy_line or is_by_person else settings_from_snapshot(run.settings).lookahead
    )
    user = newest_user(kept)
    return {"tip": kept, "none": [], "previous_turn": kept[: kept.index(user)] if user else []}[rule]


def check_line(tree: Tree, summary: Node) -> None:
    """Along the line of bases: cutoffs rise, and each message up to the cutoff was covered exactly once."""
    line = tree.chain(summary)
    path = tree.path(summary.parent)
    ids = [node.id for node in path]
    cutoffs = [ids.index(link.cutoff) for link in line]
    assert all(later > earlier for later, earlier in pairwise(cutoffs))
    anchors = [ids.index(link.parent) for link in line]
    assert all(later >= earlier for later, earlier in pairwise(anchors))
    covered = [i for link in reversed(line) for i in link.covered]
    due = [i for i in ids[: cutoffs[0] + 1] if i != summary.pin]
    assert len(covered) == len(set(covered)), "covered twice along the line"
    assert sorted(covered) == sorted(due), "a message is in no summary of the line, and not after the cutoff"
    assert not any(link.retired for link in line[1:]), "built on a retired summary, and live"
    assert summary.shown <= set(ids), "shown what is not on every branch it applies to (rule 3)"


def legal_cuts(tail: Sequence[Node], base: Node | None, preserve: int) -> list[int]:
    """Where a cut may stand: before a user message or a later reply, with the floor behind it."""
    replied, cuts = bool(base and base.pin), []
    for index, node in enumerate(tail):
        called = index > 0 and goes_on(tail[index - 1], node)
        stands = node.role == "user" or (node.role == "assistant" and replied and not called)
        if stands and index and len(tail) - index >= preserve:
            cuts.append(index)
        replied = node.role == "assistant" or (replied and node.role != "user")
    return cuts


def saving_cuts(tree: Tree, tip_id: int | None, base: Node | None, settings: Settings, available: int) -> list[int]:
    """Those of the legal cuts at which a summary can be smaller than what it replaces, and can be shown."""
    found, tail, pins = [], tree.tail(tip_id, base), tree.pins(tip_id)
    for cut in legal_cuts(tail, base, settings.preserve_recent_messages):
        users = [node.id for node in tail[:cut] if node.role == "user"]
        inherited = base.pin if base else None
        pin = None if tail[cut].role == "user" else (users[-1] if users else inherited)
        covered = [*tail[:cut], *([tree[inherited]] if inherited else [])]
        replaced = sum(node.tokens for node in covered if node.id != pin and not node.pinned)
        replaced += base.tokens if base else 0
        # One token of text, and one that its ends may cost.
        saves = int((1 - settings.min_saving_ratio) * replaced) >= SUMMARY_WRAPPER_TOKENS + 2
        room = room_for_summary(tail[cut:], tree[pin] if pin else None, available, pins)
        if saves and (room - 2 * SUMMARY_WRAPPER_TOKENS) / 1.5 >= 1:
            found.append(cut)
    return found


def check_follow_up(tree: Tree, summary: Node, run: CompactionRun, runs: Sequence[CompactionRun]) -> None:
    """Whether the next generation was opened with this one, where the summarizer could not take all."""
    following = [other for other in runs if other.previous_run_id == run.pk]
    assert len(following) <= 1
    if run.is_cut_given:
        # Up to where somebody said, wherever the target is.
        assert not following or following[0].is_cut_given
        return
    target = run.budget["target"]
    if following:
        assert run.tokens_after is not None
        assert run.tokens_after > target, "a next generation for a branch that is at its target"
        return
    stays = [*tree.tail(run.tip_id, summary), *([tree[summary.pin]] if summary.pin else [])]
    kept = sum(node.tokens for node in stays) + sum(piece.tokens for piece in pins_beside(tree.pins(run.tip_id), stays))
    left = saving_cuts(tree, run.tip_id, summary, settings_from_snapshot(run.settings), run.budget["available"])
    others = [other for other in runs if other.pk != run.pk and other.status in ("ready", "running")]
    # What is kept for good never leaves a legal cut behind it while it is over the target.
    assert kept <= target or not left or others, "over its target, a legal cut is left, and no next generation"

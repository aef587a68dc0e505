"""Messages over HTTP: append once, read, redact, delete; the tree without its texts; what comes back with a reply.

What a gateway sends back with a reply is kept as the answer to what the model saw, so it has to be true.
"""

from functools import partial

import pytest

from compaction_app import chat
from compaction_app.messages.validation import MAX_REPORTED
from compaction_app.models import ChatMessage, CompactionRun
from tests.api.asking import Asker, World, problem, user
from tests.builders import grow, words
from tests.models.test_concurrent_writes import at_once

pytestmark = pytest.mark.usefixtures("quiet_world")


class TestAppend:
    def test_it_is_stored_and_given_back(self, ask, path):
        response = ask.post(path, {"role": "user", "content": "When is the tide in?", "metadata": {"a": [1]}})
        assert response.status_code == 201
        said = response.json()
        stored = ChatMessage.objects.get()
        assert said["message"]["id"] == stored.pk
        assert said["message"]["content"] == stored.content == "When is the tide in?"
        assert said["message"]["metadata"] == {"a": [1]}
        assert (said["compaction_requested"], said["run_id"]) == (False, None)

    def test_a_parent_of_another_session_or_of_nobody_is_refused_in_the_same_words(self, ask, path, ann):
        other = chat.append_message(chat.start_session(owner=ann), role="user", content="elsewhere")
        foreign = ask.post(path, {"parent_id": other.pk, "role": "user", "content": "x"})
        missing = ask.post(path, {"parent_id": 10**9, "role": "user", "content": "x"})
        assert problem(foreign, 422, "invalid_parent") == problem(missing, 422, "invalid_parent")

    def test_content_may_be_parts(self, ask, path):
        picture = "https://boats.example/1.png"
        parts = [{"type": "text", "text": "Look."}, {"type": "image_url", "image_url": {"url": picture}}]
        said = ask.post(path, {"role": "user", "content": parts}).json()["message"]
        assert said["content"] == "Look."
        assert said["attachments"] == [{"type": "image", "name": "image 1", "url": picture}]
        problem(ask.post(path, {"role": "user", "content": [{"type": "text", "text": 7}]}), 422, "invalid_message")
        problem(ask.post(path, {"role": "user", "content": ["text"]}), 422, "invalid")

    def test_a_part_that_goes_out_as_it_came_is_the_hosts(self, ask, path):
        """A client's own one was sent to the provider whole, whatever was in it."""
        part = {"type": "image_url", "image_url": {"url": ""}, "cache_control": {"type": "ephemeral"}}
        given = {"type": "image", "name": "reef", "url": "https://boats.example/1.png"}
        more = {**part, "image_url": {"url": given["url"], "detail": "low", "note": 1}}
        body = {"role": "user", "content": [more], "attachments": [{**given, "part": part}]}
        said = ask.post(path, body).json()["message"]
        assert said["attachments"][0] == given
        tip = ChatMessage.objects.get(pk=said["id"])
        image = {"type": "image_url", "image_url": {"url": given["url"]}}
        [sent] = chat.get_context(tip).to_openai()
        assert sent["content"] == [image, {**image, "image_url": {**image["image_url"], "detail": "low"}}]

    @pytest.mark.parametrize("turns", [2, 45])
    def test_a_client_sees_that_a_prompt_was_cut_to_fit(self, ask, session, path, turns):
        """9,100 tokens, 8,000 available, and no worker has compacted them."""
        tip = grow(session, None, "u a " * turns + "u")[-1]
        late = turns == 45
        context = ask.get(f"messages/{tip.pk}/context").json()
        assert context["fallback_used"] is late
        assert (context["figures"]["dropped"] > 0) is late
        reply = {"parent_id": tip.pk, "role": "assistant", "content": "Aye.", "context": context["figures"]}
        said = ask.post(path, reply).json()
        assert said["fallback_used"] is late
        stored = ask.get(f"messages/{said['message']['id']}").json()
        assert (stored, stored["fallback_used"]) == (said["message"], late)
        assert ask.get(f"messages/{stored['id']}/branch").json()["items"][0] == stored
        question = {"parent_id": tip.pk, "role": "user", "content": "And?"}
        assert ask.post(path, question).json()["fallback_used"] is False

    def test_a_message_is_stored_also_where_no_compaction_can_be_asked_for(self, ask, session, path, caplog):
        """The window became smaller than what is reserved: a turn does not fail because of compaction."""
        type(session).objects.filter(pk=session.pk).update(settings={"CONTEXT_WINDOW": 8})
        type(session).objects.filter(pk=session.pk).update(system_prompt=words(20))
        response = ask.post(path, {"role": "user", "content": "secret words"})
        assert response.status_code == 201
        assert response.json()["compaction_requested"] is False
        assert "step=request_compaction" in caplog.text
        assert "secret" not in caplog.text


class TestIdempotency:
    BODY = {"role": "user", "content": "When?", "metadata": {"b": 1.5, "a": [1, {"c": None}]}, "name": "ann"}

    def send(self, ask, path, body=None, key="k-1"):
        return ask.post(path, body or self.BODY, headers={"Idempotency-Key": key})

    def test_sent_again_the_stored_message_is_the_answer(self, ask, path):
        """A client repeats what may not have come through."""
        first, again = self.send(ask, path), self.send(ask, path)
        assert (first.status_code, again.status_code) == (201, 201)
        assert first.json() == again.json()
        assert ChatMessage.objects.get().idempotency_key == "k-1"

    def test_another_key_is_another_message_and_a_key_counts_in_its_session_only(self, ask, path, ann):
        other = chat.start_session(owner=ann)
        assert self.send(ask, path).json()["message"]["id"] != self.send(ask, path, key="k-2").json()["message"]["id"]
        assert self.send(ask, f"sessions/{other.pk}/messages").json()["message"]["session_id"] == str(other.pk)

    def test_with_another_body_it_is_refused(self, ask, session, path):
        parent = grow(session, None, "u a")[-1]
        first = self.send(ask, path).json()["message"]
        for changed in (
            *({"content": "Where?"}, {"metadata": {}}, {"role": "system", "name": "ann"}, {"name": ""}),
            {"parent_id": parent.pk},
        ):
            detail = problem(self.send(ask, path, self.BODY | changed), 422, "idempotency_conflict")
            assert str(first["id"]) in detail
        assert ChatMessage.objects.count() == 3

    def test_sent_again_after_a_redaction_it_brings_no_text_back(self, ask, path):
        message = self.send(ask, path).json()["message"]
        ask.post(f"messages/{message['id']}/redact")
        assert self.send(ask, path).json()["message"]["content"] == "[redacted]"

    def test_sent_again_it_asks_for_no_compaction_above_an_answer(self, ask, session, path):
        tip = grow(session, None, "u a " * 35)[-1]
        body = {**self.BODY, "parent_id": tip.pk}
        first = self.send(ask, path, body).json()
        assert first["compaction_requested"] is True
        assert ask.get(f"runs/{first['run_id']}").json()["status"] == "ready"
        chat.append_message(session, ChatMessage.objects.get(pk=first["message"]["id"]), role="assistant", content="x")
        assert self.send(ask, path, body).json()["compaction_requested"] is False


@pytest.mark.django_db(transaction=True)
def test_sent_at_once_it_is_stored_once():
    """The database's constraint decides: whoever comes second is given the first one's message."""
    owner = user("ann")
    path, answers = f"sessions/{chat.start_session(owner=owner).pk}/messages", []

    def send(ask):
        answers.append(ask.post(path, {"role": "user", "content": "When?"}, headers={"Idempotency-Key": "k"}))

    assert at_once([partial(send, Asker(owner)) for _ in range(8)]) == []
    assert [answer.status_code for answer in answers] == [201] * 8
    assert {answer.json()["message"]["id"] for answer in answers} == {ChatMessage.objects.get().pk}


def test_the_tree_names_every_node_without_its_text(ask, world):
    said = ask.get(f"{world.path}/tree").json()
    assert [node["id"] for node in said["items"]] == [*(m.pk for m in world.branch), world.summary.pk]
    summary = said["items"][-1]
    assert (summary["kind"], summary["parent_id"], summary["cutoff_id"]) == (
        "summary",
        world.branch[5].pk,
        world.branch[3].pk,
    )
    assert "word" not in str(said)


class TestRead:
    def test_a_branch_upwards_in_pages(self, ask, world):
        chat.append_message(world.session, world.branch[2], role="user", content="a fork")
        first = ask.get(f"messages/{world.tip.pk}/branch?limit=5").json()
        second = ask.get(f"messages/{world.tip.pk}/branch?limit=5&cursor={first['next_cursor']}").json()
        seen = [item["id"] for item in first["items"] + second["items"]]
        assert seen == [message.pk for message in reversed(world.branch)]
        assert second["next_cursor"] is None

    def test_a_page_of_large_messages_ends_early(self, ask, ann, monkeypatch):
        """A page by count alone was 36 MiB. Each message once, whatever made it large."""
        monkeypatch.setattr("compaction_app.api.messages.PAGE_CHARACTERS", 1_000)
        session = chat.start_session(owner=ann)
        large = ({"content": "ä" * 600}, {"metadata": {"n": "x" * 1_100}}, {"reasoning": [{"text": "x" * 600}]})
        parent = None
        for number in range(6):
            parent = chat.append_message(session, parent, role="user", **{"content": "x", **large[number % 3]})
        ids, pages, cursor = [], [], ""
        while cursor is not None:
            page = ask.get(f"messages/{parent.pk}/branch?limit=4{cursor}").json()
            pages.append(len(page["items"]))
            ids += [item["id"] for item in page["items"]]
            cursor = page["next_cursor"] and f"&cursor={page['next_cursor']}"
        assert ids == sorted(session.messages.values_list("pk", flat=True), reverse=True)
        assert pages == [2, 2, 1, 1], "a message that is larger than a page is one of its own"


class TestErase:
    def test_a_redaction_takes_the_copies_of_whoever_may_redact_them(self, ask, world):
        bob = user("bob")
        own, other = chat.copy_branch(world.tip), chat.copy_branch(world.tip, owner=bob)
        path, texts = f"messages/{world.branch[1].pk}", ChatMessage.objects.filter(depth=2, kind="message")
        assert ask.post(f"{path}/redact").json().keys() == ask.get(path).json().keys()
        assert texts.filter(redacted_at=None).count() == 2, "not without being asked"
        assert ask.post(f"{path}/redact", {"copies": True}).status_code == 200
        assert [row.session for row in texts.filter(redacted_at=None)] == [other]
        sue = Asker(user("sue", "redact_chatmessage", "view_chatmessage"))
        assert sue.post(f"{path}/redact", {"copies": True}).status_code == 200
        assert not texts.filter(redacted_at=None).exists()
        assert own.messages.filter(kind="summary").get().content == ""


@pytest.fixture
def figures(ask, world):
    return ask.get(f"messages/{world.tip.pk}/context").json()["figures"]


@pytest.fixture
def reply(ask, world, figures):
    """Append a reply below the tip, with what is changed of its context or of the rest."""

    def append(context=None, **changed):
        said = {"parent_id": world.tip.pk, "role": "assistant", "content": "at four"}
        return ask.post(f"{world.path}/messages", {**said, "context": {**figures, **(context or {})}, **changed})

    return append


class TestReferences:
    def test_as_they_came_they_are_taken(self, reply, world, figures):
        assert figures["summary_id"] == world.summary.pk
        assert reply().status_code == 201
        kept = ChatMessage.objects.order_by("-id").first().sent_context
        assert (kept["summary_id"], kept["cutoff_id"]) == (world.summary.pk, world.branch[3].pk)

    def test_of_another_session_or_kind_they_are_refused_by_name(self, reply, ann, world):
        other = World(ann)
        elsewhere = {"summary_id": other.summary.pk, "cutoff_id": other.branch[3].pk, "pinned_id": other.branch[0].pk}
        for name, value in elsewhere.items():
            assert problem(reply({name: value}), 422, "invalid").startswith(f"body.context.{name}: ")
            wrong_kind = world.tip.pk if name == "summary_id" else world.summary.pk
            assert problem(reply({name: wrong_kind}), 422, "invalid").startswith(f"body.context.{name}: ")
        assert not ChatMessage.objects.filter(content="at four").exists()

    def test_a_depth_that_is_not_above_the_reply_is_refused(self, reply):
        for depth in (9, 0):
            assert "first_shown_depth" in problem(reply({"first_shown_depth": depth}), 422, "invalid")
        assert reply({"first_shown_depth": 8}).status_code == 201, "the parent's own"

    def test_of_another_message_or_without_a_parent_they_are_refused(self, reply, world):
        for parent_id in (world.branch[0].pk, None):
            assert "tip_id" in problem(reply(parent_id=parent_id), 422, "invalid")


COUNTS = """
    prompt_tokens completion_tokens total_tokens input_tokens output_tokens cache_read_input_tokens
    cache_creation_input_tokens
""".split()


class TestUsage:
    @pytest.mark.parametrize("wrong", [-1, "7", 1.5, True, MAX_REPORTED + 1])
    def test_what_is_no_count_of_tokens_is_refused_by_name(self, reply, world, wrong):
        for name in COUNTS:
            assert problem(reply(usage={name: wrong}), 422, "invalid").startswith(f"body.usage.{name}")
        world.session.refresh_from_db()
        assert world.session.token_calibration == {}
        assert not ChatMessage.objects.filter(content="at four").exists()

    @pytest.mark.parametrize(
        "usage",
        [
            {"prompt_tokens": MAX_REPORTED, "completion_tokens": 0},
            {"prompt_tokens": None, "prompt_tokens_details": {"cached_tokens": 60, "audio": -1}, "cost": "0.1"},
            {"input_tokens": 5, "service_tier": "standard", "iterations": [{"type": "message", "input_tokens": 5}]},
            {},
        ],
    )
    def test_a_providers_own_keys_come_back_as_they_were_sent(self, reply, usage):
        assert reply(usage=usage).json()["message"]["usage"] == usage


@pytest.mark.django_db(transaction=True)
class TestCarryOver:
    def test_what_another_branch_found_is_a_message_here_stored_once_for_a_key(self, ask, world):
        other = grow(world.session, world.branch[1], "u a", word="lighthouse")
        page, body = f"messages/{world.tip.pk}/carry_over", {"source_id": other[-1].pk}
        answers = [ask.post(page, body, headers={"Idempotency-Key": key}) for key in ("a", "a", "b")]
        assert [answer.status_code for answer in answers] == [201] * 3
        first, again, third = (answer.json() for answer in answers)
        assert (first["id"] == again["id"], first["id"] == third["id"]) == (True, False)
        assert (first["parent_id"], first["role"]) == (world.tip.pk, "user")
        assert "lighthouse" in first["content"]

    def test_a_summary_and_the_same_branch_are_refused(self, ask, world):
        for source, status, code in (
            (world.summary.pk, 422, "invalid_parent"),
            (world.branch[1].pk, 422, "invalid_message"),
            (2**40, 404, "not_found"),
        ):
            problem(ask.post(f"messages/{world.tip.pk}/carry_over", {"source_id": source}), status, code)

    def test_of_another_session_nothing_is_read(self, ask, world, ann):
        theirs, own = World(user("bob")), grow(chat.start_session(owner=ann), None, "u a")
        page = f"messages/{world.tip.pk}/carry_over"
        problem(ask.post(page, {"source_id": theirs.tip.pk}), 404, "not_found")
        problem(ask.post(page, {"source_id": own[-1].pk}), 422, "invalid_message")
        assert not CompactionRun.objects.filter(trigger="carry_over").exists()

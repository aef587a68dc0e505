"""Sessions over HTTP: begin, list, read, change, copy, delete."""

import pytest

from compaction_app import chat
from compaction_app.models import ChatMessage, ChatSession
from tests.api.asking import Asker, problem, user
from tests.builders import grow
from tests.small import small
from tests.trees import analyze

pytestmark = pytest.mark.django_db


def test_a_session_belongs_to_whoever_asks(ask, ann):
    given = {
        "title": "Tides",
        "model": "gpt-4o-mini",
        "system_prompt": "You know the harbour.",
        "settings": {},
        "external_id": "crm-7",
        "metadata": {"team": ["harbour"]},
    }
    response = ask.post("sessions", given)
    assert response.status_code == 201
    said = response.json()
    session = ChatSession.objects.get(pk=said["id"])
    assert session.owner == ann
    assert {name: said[name] for name in given} == given == {name: getattr(session, name) for name in given}


class TestList:
    def test_pages_follow_each_other_without_a_gap_or_a_repetition(self, ask, ann):
        made = [chat.start_session(owner=ann, title=str(number)) for number in range(5)]
        # The same moment, so that the id alone decides between two of them.
        moment = made[0].updated_at
        ChatSession.objects.filter(pk__in=[made[1].pk, made[2].pk]).update(updated_at=moment)
        chat.start_session(owner=user("bob"))
        seen, cursor = [], ""
        for _ in range(3):
            page = ask.get(f"sessions?limit=2{cursor}").json()
            seen += [item["id"] for item in page["items"]]
            cursor = f"&cursor={page['next_cursor']}"
        assert page["next_cursor"] is None
        expected = ChatSession.objects.filter(owner=ann).order_by("-updated_at", "-pk")
        assert seen == [str(session.pk) for session in expected]

    def test_the_last_used_comes_first_without_its_long_texts(self, ask, ann):
        first = chat.start_session(owner=ann, system_prompt="long")
        chat.start_session(owner=ann)
        chat.append_message(first, role="user", content="hello")
        [item, _] = ask.get("sessions").json()["items"]
        assert item["id"] == str(first.pk)
        assert "system_prompt" not in item

    def test_a_long_page_is_read_by_its_index(self, ann):
        """Among the many sessions of others."""
        other = user("other")
        ChatSession.objects.bulk_create(ChatSession(owner=other, title=f"{n}") for n in range(2000))
        ChatSession.objects.bulk_create(ChatSession(owner=ann, title=f"{n}") for n in range(200))
        analyze(ChatSession)
        rows = ChatSession.objects.filter(owner_id=ann.pk).order_by("-updated_at", "-pk")
        assert "compaction_session_recent" in rows[:3].explain()


class TestChange:
    def test_only_what_is_given_changes(self, ask, ann):
        session = chat.start_session(owner=ann, title="Tides", system_prompt="You know the harbour.")
        response = ask("PATCH", f"sessions/{session.pk}", {"title": "Winds", "metadata": {"team": "harbour"}})
        assert response.status_code == 200
        assert response.json()["title"] == "Winds"
        stored = ChatSession.objects.get(pk=session.pk)
        assert (stored.title, stored.metadata, stored.system_prompt) == (
            "Winds",
            {"team": "harbour"},
            "You know the harbour.",
        )
        assert ask("PATCH", f"sessions/{session.pk}", {}).json() == response.json()

    @pytest.mark.parametrize(("given", "left"), [("About boats", ""), ("Boats, again", "Boats, again")])
    def test_a_title_that_is_sent_back_goes_with_its_message_and_a_new_one_is_ones_own(self, ask, ann, given, left):
        """A model made it: the message does not begin with it, so nothing else tells that it quotes it."""
        session = chat.start_session(owner=ann, title="About boats")
        session.title_of = chat.append_message(session, None, role="user", content="Which boat is mine?")
        session.save()
        assert ask("PATCH", f"sessions/{session.pk}", {"title": given}).json()["title"] == given
        chat.redact_message(session.title_of)
        assert ChatSession.objects.get(pk=session.pk).title == left

    def test_what_can_not_be_stored_leaves_it_as_it_was(self, ask, ann):
        session = chat.start_session(owner=ann, title="Tides")
        other = chat.start_session(owner=ann, external_id="crm-7")
        path = f"sessions/{session.pk}"
        problem(ask("PATCH", path, {"title": "x", "settings": {"MODE": "off"}}), 403, "forbidden")
        problem(ask("PATCH", path, {"title": "x", "external_id": other.external_id}), 409, "duplicate")
        problem(ask("PATCH", path, {"title": None}), 422, "invalid")
        problem(ask("PATCH", path, {"owner": 1}), 422, "invalid")
        assert ChatSession.objects.get(pk=session.pk).title == "Tides"


def test_a_session_goes_with_all_that_belongs_to_it(ask, world):
    response = ask("DELETE", world.path)
    assert (response.status_code, response.content) == (204, b"")
    assert not ChatMessage.objects.filter(session_id=world.session.pk).exists()
    problem(ask("DELETE", world.path), 404, "not_found")


@pytest.mark.usefixtures("quiet_world")
class TestCopy:
    def test_it_is_a_session_of_whoever_copies(self, world):
        sue = user("sue", "view_chatsession", "view_chatmessage")
        answer = Asker(sue).post(f"{world.path}/copy", {"message_id": world.tip.pk, "until": world.branch[6].pk})
        assert answer.status_code == 201
        copy = ChatSession.objects.get(pk=answer.json()["id"])
        assert (copy.owner, copy.title, copy.copied_from) == (sue, "Tides", world.branch[6])
        assert copy.messages.messages().count() == 7
        newest = copy.messages.messages().order_by("depth").last()
        shown = Asker(sue).get(f"messages/{newest.pk}/context").json()
        summary = copy.messages.get(kind="summary")
        assert shown["figures"]["summary_id"] == summary.pk
        assert Asker(sue).get(f"messages/{summary.pk}").json()["content"] == world.summary.content
        assert Asker(sue).get(f"sessions/{copy.pk}/compactions").json()["items"] == []

    def test_what_is_no_message_of_the_branch_is_refused(self, ask, world, ann):
        beside = grow(world.session, world.branch[2], "a")[0]
        other = grow(chat.start_session(owner=ann), None, "u")[0]
        tip = world.tip.pk
        for body, code in (
            ({"message_id": other.pk}, "invalid_parent"),
            ({"message_id": tip, "until": other.pk}, "invalid_parent"),
            ({"message_id": tip, "until": 10**9}, "invalid_parent"),
            ({"message_id": world.summary.pk}, "invalid_parent"),
            ({"message_id": tip, "until": beside.pk}, "invalid_message"),
            ({"message_id": tip, "until": world.summary.pk}, "invalid_message"),
            ({}, "invalid"),
        ):
            problem(ask.post(f"{world.path}/copy", body), 422, code)
        assert ChatSession.objects.count() == 2

    def test_copies_count_against_the_throttle(self, ask, world, settings):
        settings.COMPACTION = small(MANUAL_THROTTLE="1/d")
        answers = [ask.post(f"{world.path}/copy", {"message_id": world.tip.pk}) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [201, 429]


@pytest.mark.usefixtures("quiet_world")
class TestHandOver:
    def test_it_is_a_session_of_whoever_asks_and_made_once_for_a_key(self, world):
        sue, page = user("sue", "view_chatsession", "view_chatmessage"), f"messages/{world.tip.pk}/hand_over"
        answers = [Asker(sue).post(page, headers={"Idempotency-Key": key}) for key in ("a", "a", "b")]
        assert [answer.status_code for answer in answers] == [201] * 3
        first, again, other = (answer.json()["id"] for answer in answers)
        assert (again, other) == (first, ChatSession.objects.latest("created_at").pk.__str__())
        new = ChatSession.objects.get(pk=first)
        assert (new.owner, new.title, new.continues_id) == (sue, "Tides", world.summary.last_summarized_message_id)
        newest = chat.tips(new)[-1]
        mine, theirs = (Asker(sue).get(f"messages/{one.pk}/context").json() for one in (newest, world.tip))
        assert [one["content"] for one in mine["messages"]] == [one["content"] for one in theirs["messages"]]

    def test_where_a_summary_is_made_first_whoever_asks_may_compact(self, world):
        sue, page = user("sue", "view_chatsession", "view_chatmessage"), f"messages/{world.tip.pk}/hand_over"
        # One that has become too large for the window is none, too.
        ChatMessage.objects.filter(pk=world.summary.pk).update(token_count=7_990)
        problem(Asker(sue).post(page), 403, "forbidden")
        chat.retire_summary(world.summary)
        problem(Asker(sue).post(page), 403, "forbidden")
        assert Asker(world.owner).post(page).status_code == 201
        assert chat.find_summary(world.tip) is not None

    def test_a_summary_and_a_short_branch_are_refused(self, ask, world, ann):
        problem(ask.post(f"messages/{world.summary.pk}/hand_over"), 422, "invalid_parent")
        short = grow(chat.start_session(owner=ann), None, "u a")[-1]
        problem(ask.post(f"messages/{short.pk}/hand_over"), 422, "nothing_to_compact")


@pytest.mark.usefixtures("quiet_world")
class TestSearch:
    def test_ones_own_conversations_are_searched(self, ask, world):
        grow(world.session, world.tip, "u", word="lighthouse")
        grow(chat.start_session(owner=user("bob")), None, "u", word="lighthouse")
        [found] = ask.get("search?q=lighthouse").json()["items"]
        assert (found["session_id"], found["role"]) == (str(world.session.pk), "user")
        assert found["tip_id"] == found["message_id"] == chat.tips(world.session)[-1].pk
        assert "lighthouse" in found["excerpt"]
        assert len(ask.get(f"search?q=lighthouse&session_id={world.session.pk}").json()["items"]) == 1
        assert ask.get("search?q=lighthouse%20storm").json() == {"items": []}

    def test_who_may_read_a_session_may_search_it(self, world):
        grow(world.session, world.tip, "u", word="lighthouse")
        path = f"search?q=lighthouse&session_id={world.session.pk}"
        sue = user("sue", "view_chatsession", "view_chatmessage")
        assert len(Asker(sue).get(path).json()["items"]) == 1
        problem(Asker(user("bob")).get(path), 404, "not_found")

    def test_a_query_that_is_none_is_refused(self, ask, world, settings):
        problem(ask.get("search?q=x"), 422, "invalid_message")
        problem(ask.get("search"), 422, "invalid")
        problem(ask.get("search?q=boat&limit=1000"), 422, "invalid")
        settings.COMPACTION = small(RECALL=False)
        problem(ask.get("search?q=boat"), 422, "configuration")

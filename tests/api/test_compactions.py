"""Compactions over HTTP: ask and wait, ask and poll, refusals; generations, runs, retiring; the throttle."""

import pytest
from django.core.cache import cache
from django.db import connections

from compaction_app import chat, tasks
from compaction_app.compaction.execute import compact_chat_history
from compaction_app.exceptions import CompactionFailed, SummarizerError
from compaction_app.models import ChatSession, CompactionRun
from compaction_app.models.runs import CompactionRunQuerySet
from tests.api.asking import Asker, World, problem, user
from tests.builders import grow
from tests.fake_summarizer import FakeSummarizer
from tests.small import small

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("quiet_world")]


@pytest.fixture
def path(session, branch):
    return f"sessions/{session.pk}/compact"


class TestWaiting:
    def test_the_summary_is_the_answer(self, ask, path, branch):
        FakeSummarizer.text = "ø" * 1000
        response = ask.post(path, {"instructions": "Keep the prices."})
        assert response.status_code == 200
        said = response.json()
        run = CompactionRun.objects.get()
        assert said["run_id"] == run.pk
        assert said["generation"] == 1
        assert said["summary_id"] == run.summary_id
        assert said["summary_preview"] == "ø" * 200
        assert FakeSummarizer.requests[0].instructions == "Keep the prices."
        assert said["messages_compacted"] == run.messages_compacted > 0
        assert said["tokens_after"] < said["tokens_before"]
        assert said["tip_id"] == branch[-1].pk

    def test_a_branch_is_named_by_a_message(self, ask, path, session, branch):
        fork = grow(session, branch[40], "u a u a")[-1]
        assert ask.post(path, {"message_id": branch[-1].pk}).json()["tip_id"] == branch[-1].pk
        assert ask.post(path, {"message_id": fork.pk}).json()["tip_id"] == fork.pk

    def test_without_one_it_is_the_newest_message_also_where_a_summary_is_newer(self, ask, world):
        ask.post(f"{world.path}/compact")
        assert CompactionRun.objects.order_by("-id").first().tip_id == world.tip.pk

    @pytest.mark.parametrize("retired", [False, True])
    def test_a_failure_says_which_generation_is_stored_and_in_use(self, ask, path, branch, monkeypatch, retired):
        def once(self, request, summarize=FakeSummarizer.summarize):
            if not CompactionRun.objects.filter(status="succeeded").exists():
                return summarize(self, request)
            if retired:
                chat.retire_summary(chat.find_summary(branch[-1]))
            raise SummarizerError("down", error_code="timeout")

        monkeypatch.setattr(FakeSummarizer, "summarize", once)
        monkeypatch.setattr(FakeSummarizer, "max_input_tokens", 3_500)
        detail = problem(ask.post(path), 502, "compaction_failed")
        assert ("nothing was changed" in detail) == retired == (chat.find_summary(branch[-1]) is None)
        assert ("generation 1, made just before, is stored and in use" in detail) != retired

    def test_a_failure_is_loud_and_changes_nothing(self, ask, path, session):
        FakeSummarizer.error = SummarizerError("secret words", error_code="timeout", transient=True)
        detail = problem(ask.post(path), 502, "compaction_failed")
        run = CompactionRun.objects.get()
        assert "timeout" in detail
        assert f"Run {run.pk}" in detail
        assert "secret" not in detail
        polled = ask.get(f"runs/{run.pk}")
        assert (polled.json()["status"], polled.json()["error_code"]) == ("failed", "timeout")
        assert b"secret" not in polled.content
        assert not session.messages.filter(kind="summary").exists()

    def test_it_holds_no_transaction_where_every_request_is_one(self, ask, path, monkeypatch):
        monkeypatch.setitem(connections.settings["default"], "ATOMIC_REQUESTS", True)
        held = []
        summarize = FakeSummarizer.summarize

        def watching(self, request):
            held.append(connections["default"].in_atomic_block)
            return summarize(self, request)

        monkeypatch.setattr(FakeSummarizer, "summarize", watching)
        assert ask.post(path).status_code == 200
        assert held == [False]


def test_the_run_is_enqueued_is_the_answer_and_tells_how_it_goes_on(ask, path, monkeypatch):
    enqueued = []
    monkeypatch.setattr(tasks, "enqueue", enqueued.append)
    response = ask.post(path, {"wait": False})
    assert response.status_code == 202
    run = response.json()
    assert ask.get(f"runs/{run['run_id']}").json() == run
    assert [run.pk for run in enqueued] == [run["run_id"]]
    assert (run["status"], run["generation"], run["summary_id"]) == ("ready", None, None)
    compact_chat_history(run["run_id"])
    said = ask.get(f"runs/{run['run_id']}").json()
    assert (said["status"], said["generation"]) == ("succeeded", 1)
    assert set(said) == set(run)


@pytest.mark.parametrize("wait", [True, False])
class TestRefusals:
    def test_nothing_was_said_since_the_last(self, ask, path, wait):
        ask.post(path)
        problem(ask.post(path, {"wait": wait}), 422, "nothing_to_compact")
        assert len(FakeSummarizer.requests) == 1

    def test_the_mode_is_off(self, ask, path, session, wait):
        ChatSession.objects.filter(pk=session.pk).update(settings={"MODE": "off"})
        problem(ask.post(path, {"wait": wait}), 422, "mode_off")

    def test_a_message_that_is_not_of_the_session(self, ask, path, ann, wait):
        other = chat.append_message(chat.start_session(owner=ann), role="user", content="elsewhere")
        problem(ask.post(path, {"wait": wait, "message_id": other.pk}), 404, "not_found")


@pytest.mark.parametrize("wait", [True, False])
def test_the_open_run_of_this_branch_is_named(ask, session, wait):
    roots = [grow(session, None, "u a " * 35) for _ in range(2)]
    runs = [chat.request_compaction(branch[-1]) for branch in roots]
    for branch, run in zip(roots, runs, strict=True):
        response = ask.post(f"sessions/{session.pk}/compact", {"wait": wait, "message_id": branch[-1].pk})
        assert response.status_code == 409
        detail = "A compaction of this branch is already open; `run_id` is the run to poll."
        assert response.json() == {"code": "open_run", "detail": detail, "run_id": run.pk}
        assert ask.get(f"runs/{run.pk}").json()["status"] == "ready"


def test_a_worker_who_was_faster_has_it_open(ask, path, monkeypatch):
    """Between opening the run and claiming it a worker took it: nothing failed, and the run is there to poll."""
    monkeypatch.setattr(CompactionRunQuerySet, "claim", lambda *arguments: None)
    response = ask.post(path)
    run = CompactionRun.objects.get()
    assert response.status_code == 409
    assert (response.json()["code"], response.json()["run_id"]) == ("open_run", run.pk)
    with pytest.raises(CompactionFailed) as failed:
        chat.compact(grow(run.session, None, "u a " * 35)[-1])
    assert (failed.value.error_code, failed.value.run_id) == ("claimed", CompactionRun.objects.latest("pk").pk)


class TestThrottle:
    def test_what_makes_a_compaction_necessary_counts_too(self, ask, path, ann, settings):
        """Only `compact` was counted, and retiring again and again cost as much."""
        settings.COMPACTION = small(MANUAL_THROTTLE="4/d")
        world = World(ann)
        assert ask("DELETE", f"summaries/{world.summary.pk}").status_code == 200
        assert ask.post(f"messages/{world.tip.pk}/redact").status_code == 200
        assert ask("DELETE", f"messages/{world.tip.pk}").status_code == 204
        assert ask.post(path).status_code == 200
        for method, where in (
            ("DELETE", f"summaries/{world.summary.pk}"),
            ("POST", f"messages/{world.branch[0].pk}/redact"),
            ("DELETE", f"messages/{world.branch[0].pk}"),
            ("POST", path),
        ):
            problem(ask(method, where), 429, "throttled")

    def test_each_user_is_counted_by_themselves_and_what_is_not_allowed_uses_nothing_up(self, ask, path, settings):
        settings.COMPACTION = small(MANUAL_THROTTLE="1/d")
        for _ in range(3):
            problem(Asker(user(f"bob{_}")).post(path), 404, "not_found")
        problem(ask.post(path, {"message_id": 10**9}), 404, "not_found")
        assert ask.post(path).status_code == 200
        refused = ask.post(path)
        problem(refused, 429, "throttled")
        assert 1 <= int(refused["Retry-After"]) <= 86_400
        staff = Asker(user("sue", "compact_chatsession", "view_compactionrun", "view_chatmessage"))
        assert staff.post(path).status_code == 422

    def test_a_new_window_begins_anew(self, ask, path, settings, monkeypatch):
        settings.COMPACTION = small(MANUAL_THROTTLE="1/m")
        now = 1_000_000_000.0
        monkeypatch.setattr("compaction_app.api.permissions.time.time", lambda: now)
        assert ask.post(path).status_code == 200
        assert ask.post(path)["Retry-After"] == "20"
        now += 20
        assert ask.post(path).status_code == 422

    def test_a_cache_that_does_not_answer_stops_nobody(self, ask, path, monkeypatch, caplog):
        words = "no cache at " + "10.0.0.1"

        def gone(*arguments, **options):
            raise ConnectionError(words)

        monkeypatch.setattr(type(cache._connections[cache._alias]), "add", gone)
        assert ask.post(path).status_code == 200
        assert "step=throttle" in caplog.text
        assert "10.0.0.1" not in caplog.text


class TestGenerations:
    def test_they_are_listed_newest_first_without_their_texts(self, ask, path, session, branch):
        tip = branch[-1]
        for _ in range(3):
            assert ask.post(path).status_code == 200
            tip = grow(session, tip, "u a " * 20)[-1]
        said = ask.get(f"sessions/{session.pk}/compactions?limit=2").json()
        rest = ask.get(f"sessions/{session.pk}/compactions?limit=2&cursor={said['next_cursor']}").json()
        assert [item["generation"] for item in said["items"] + rest["items"]] == [3, 2, 1]
        assert rest["next_cursor"] is None
        assert "Recap" not in str(said)

    def test_one_is_read_in_full(self, ask, world):
        said = ask.get(f"{world.path}/compactions/1").json()
        assert said["summary"] == world.summary.text
        assert said["instructions"] == "Keep the times."
        assert said["cost"] == "0.00012000"
        ids = {name: said[name] for name in ("run_id", "tip_id", "anchor_id", "cutoff_id", "base_id", "summary_id")}
        assert ids == {
            "run_id": world.run.pk,
            "tip_id": world.tip.pk,
            "anchor_id": world.branch[5].pk,
            "cutoff_id": world.branch[3].pk,
            "base_id": None,
            "summary_id": world.summary.pk,
        }


class TestRetire:
    def test_the_originals_are_back_the_summary_stays_readable_and_twice_is_once(self, ask, world):
        assert ask("DELETE", f"summaries/{world.summary.pk}").json() == {"retired": [world.summary.pk]}
        origins = [m["origin"] for m in ask.get(f"messages/{world.tip.pk}/context").json()["messages"]]
        assert origins == ["verbatim"] * 8
        said = ask.get(f"{world.path}/compactions/1").json()
        assert said["retired_at"] is not None
        assert said["summary"] == world.summary.text
        assert ask.get(f"{world.path}/compactions").json()["items"][0]["retired_at"] == said["retired_at"]
        assert ask("DELETE", f"summaries/{world.summary.pk}").json() == {"retired": []}

    def test_a_message_is_no_summary(self, ask, ann):
        problem(ask("DELETE", f"summaries/{World(ann).tip.pk}"), 404, "not_found")


def test_a_summary_that_is_to_be_deleted_or_redacted_is_told_how_it_goes_away(ask, world):
    """In words of this API: no client can call Python."""
    way = f"retire it with DELETE summaries/{world.summary.pk}."
    deleted = ask("DELETE", f"messages/{world.summary.pk}").json()
    redacted = ask.post(f"messages/{world.summary.pk}/redact").json()
    assert deleted == {"code": "invalid_message", "detail": f"message_id: A summary does not change; {way}"}
    assert redacted["detail"] == f"message_id: A summary does not change; {way}"
    assert "chat." not in ask.post(f"{world.path}/compact", {"message_id": world.summary.pk}).json()["detail"]
    assert world.session.messages.filter(pk=world.summary.pk, retired_at=None).exists()


class TestByPeople:
    def test_a_cut_and_a_text_of_their_own(self, ask, path, branch, session):
        until = branch[21]
        would = ask.post(path, {"until_id": until.pk, "dry_run": True}).json()
        assert (would["cutoff_id"], would["messages_compacted"], CompactionRun.objects.count()) == (until.pk, 22, 0)
        assert would["input_tokens"] > 0
        said = ask.post(path, {"until_id": until.pk, "text": "Ida keeps the tide tables."}).json()
        assert (said["cutoff_id"], said["summary_preview"]) == (until.pk, "Ida keeps the tide tables.")
        run = CompactionRun.objects.get()
        assert (run.author, run.summarizer_model) == (session.owner, "person")
        given = {"text": "Ida kept them.", "message_id": branch[-1].pk}
        answer = ask.patch(f"summaries/{run.summary_id}", given).json()
        assert (answer["generation"], answer["summary_preview"]) == (2, "Ida kept them.")
        assert answer["anchor_id"] == branch[-1].pk
        problem(ask.patch(f"summaries/{run.summary_id}", {"text": "Again."}), 422, "invalid_message")

    def test_no_place_to_cut(self, ask, path, branch, session):
        detail = problem(ask.post(path, {"until_id": branch[20].pk}), 422, "invalid_message")
        assert f"Its turn ends at message {branch[21].pk}." in detail
        other = grow(chat.start_session(owner=session.owner), None, "u a")[0]
        problem(ask.post(path, {"until_id": other.pk}), 404, "not_found")
        problem(ask.patch(f"summaries/{branch[0].pk}", {"text": "x"}), 404, "not_found")

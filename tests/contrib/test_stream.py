"""The stream for pages, over HTTP: live servers of both kinds, the tree's rows, and a scripted model."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from django.contrib.auth import get_user_model
from django.core.cache import cache
from django.db import connection
from django.test.utils import CaptureQueriesContext

from compaction_app import chat
from compaction_app.contrib.stream import replies
from compaction_app.contrib.stream.asked import Asking, find_or_append
from compaction_app.messages.transcript import RECALL_TOOL
from compaction_app.models import ChatMessage, ReplyClaim
from compaction_app.testing import steps
from tests.builders import grow
from tests.contrib.drivers import calls
from tests.contrib.streaming import Page, addresses, branches, processes, provider, reset_provider, soon, text_of, until  # noqa: F401
from tests.databases import failing
from tests.steps import chunk_then, late, stream_of, unauthorized

pytestmark = pytest.mark.django_db(transaction=True)

HANGING = ("The tide ", "is in ")


@pytest.fixture
def page(request, serve, owner, session):
    return Page(serve(getattr(request, "param", "asgi")), owner, session)


WSGI_TOO = pytest.mark.parametrize("page", ["asgi", "wsgi"], indirect=True)
BY_WSGI = pytest.mark.parametrize("page", ["wsgi"], indirect=True)


def test_a_branch_made_in_the_page_is_a_branch_of_the_tree(page, server, session):
    server.script(steps.reply(one) for one in ("Hi.", "Two.", "Three.", "Four.", "Five.", "Six."))
    seen = page.send("Hello", "u1")
    assert text_of(seen) == "Hi."
    assert [one["type"] for one in seen if "delta" not in one] == (
        "start data-compaction start-step text-start text-end finish-step data-compaction finish".split()
    )
    assert seen[-1]["messageMetadata"]["id"] == str(chat.tips(session)[0].pk)
    page.send("Again", "u2")
    page.messages.pop()
    page.ask(trigger="regenerate-message", messageId="whatever the page calls it")
    # useChat edits a message under its id; afterwards the id means the edited one.
    page.messages = page.messages[:2]
    page.send("Once more", "u2", messageId="u2")
    page.messages.pop()
    page.ask(trigger="regenerate-message")
    # assistant-ui sends a new message after the same one.
    page.messages = []
    page.send("Good evening", "u3")
    top = ["Hello", "Hi."]
    made = [[*top, "Again", "Two."], [*top, "Again", "Three."], [*top, "Once more", "Four."]]
    assert branches(session) == [*made, [*top, "Once more", "Five."], ["Good evening", "Six."]]
    loaded = page.http.get("repository").json()
    assert loaded["headId"] == str(chat.tips(session)[-1].pk)
    parents = {one["message"]["id"]: one["parentId"] for one in loaded["messages"]}
    assert parents == {
        str(pk): parent and str(parent) for pk, parent in session.messages.values_list("pk", "parent").order_by("pk")
    }
    # A page that sends the new message alone: at the end of the newest branch.
    page.messages = []
    files = [{"type": "file", "mediaType": "image/png", "url": f"{scheme}:x"} for scheme in ("https", "javascript")]
    page.ask(message={"id": "u4", "role": "user", "parts": [{"type": "text", "text": "Bye"}, *files]})
    assert branches(session)[-1][:3] == ["Good evening", "Six.", "Bye"]
    shown = page.http.get("repository").json()["messages"][-2]["message"]["parts"]
    assert [part.get("url") for part in shown] == ["https:x", None]
    # Nothing that the list says of others' messages is believed.
    lies = [{"id": "9" * 200, "role": "assistant", "parts": [{"type": "text", "text": "I am free."}]}]
    lies[0]["metadata"] = {"id": "9" * 9_000}
    page.messages = [*lies, {"id": "u5", "role": "user", "parts": [{"type": "text", "text": "And?"}]}]
    assert page.problem()[1]["code"] == "invalid_parent"


@pytest.mark.long
@BY_WSGI
@pytest.mark.parametrize("data", [";base64,QmVydGggOS4K", ",Berth%209.%0A"])
def test_a_text_file_is_sent_as_its_text(page, server, session, data):
    file = {"type": "file", "mediaType": "text/markdown", "filename": "notes.md", "url": f"data:text/markdown{data}"}
    page.ask(message={"id": "u1", "role": "user", "parts": [{"type": "text", "text": "Where?"}, file]})
    sent = server.requests[-1]["messages"][-1]["content"]
    assert sent == "Where?\n\n[notes.md]\nBerth 9.\n\n[attached: notes.md]"
    shown = page.http.get("repository").json()["messages"][0]["message"]["parts"]
    assert [part for part in shown if part["type"] == "file"] == [file]


@BY_WSGI
def test_tools_of_the_page_and_of_the_host(page, server, session):
    # Ids of which the first 255 characters are the same.
    c1, c2, c3 = (f"{'c' * 300}{number}" for number in (1, 2, 3))
    asked = calls((c1, "weather", {"city": "Kiel \ud83d"}), (c2, "weather", {}))
    server.script([asked, steps.reply("Both."), asked, steps.reply("Rain.")])
    seen = page.send("Weather?", "u1")
    assert [one["input"] for one in seen if one["type"] == "tool-input-available"] == [
        {"city": "Kiel \ufffd"},
        {},
    ]
    assert seen[-1]["finishReason"] == "tool-calls"
    outputs = [{"toolCallId": key, "state": "output-available", "output": {"is": key}} for key in (c1, c2, c3)]
    page.messages[-1]["parts"] = outputs
    again = page.ask(messageId=page.messages[-1]["id"])
    assert again[0]["messageId"] == seen[0]["messageId"]
    assert branches(session) == [["Weather?", "", json.dumps({"is": c1}), json.dumps({"is": c2}), "Both."]]
    seen = page.send("And now?", "u2", hostsTools=True)
    assert [one["output"] for one in seen if one["type"] == "tool-output-available"] == ["Rain.", "Rain."]
    assert branches(session)[0][-3:] == ["Rain.", "Rain.", "Rain."]
    # Each turn is one message of the page.
    loaded = page.http.get("repository").json()["messages"]
    assert [one["message"]["role"] for one in loaded] == ["user", "assistant"] * 2
    kinds = [part["type"] for part in loaded[1]["message"]["parts"]]
    assert kinds == ["step-start", "tool-weather", "tool-weather", "step-start", "text"]
    assert loaded[1]["message"]["parts"][1]["output"] == {"is": c1}
    assert loaded[3]["message"]["id"] == loaded[3]["message"]["metadata"]["id"] == seen[-1]["messageMetadata"]["id"]


def result(key, output="Paid."):
    return {"toolCallId": key, "state": "output-available", "output": output}


@BY_WSGI
def test_a_stop_while_a_tool_runs_runs_no_other_one(page, server, session):
    server.script([calls(("c1", "slow", {}), ("c2", "weather", {}))])
    page.messages = [{"id": "u1", "role": "user", "parts": [{"type": "text", "text": "When?"}]}]
    with page.asked(hostsTools=True) as events:
        next(one for one in events if one["type"] == "tool-input-available")
        soon(lambda: session.messages.filter(role="assistant").exists() and ReplyClaim.objects.exists())
        page.http.post("stream/stop")
        seen = list(events)
    assert [one["toolCallId"] for one in seen if one["type"] == "tool-output-available"] == ["c1"]
    assert seen[-1]["messageMetadata"]["finishReason"] == "stopped"
    assert session.messages.filter(role="tool").count() == 1


@WSGI_TOO
def test_what_a_page_says_of_a_call_that_the_server_runs_is_refused(page, server, session):
    """The server stopped before it ran the tool: a result of the page's would be one that the model believes."""
    both = calls(("c1", "broken", {}), ("c2", "confirm", {}))
    server.script([both, both, calls(("c3", "weather", {}), ("c4", "confirm", {})), steps.reply("Rain.")])
    for key, tools in (("u1", {"hostsTools": True}), ("u2", {"pageTools": ["confirm"]})):
        page.send("Pay?", key, **tools)
        last = ChatMessage.objects.filter(session=session).latest("pk")
        assert last.tool_calls
        page.messages[-1] |= {"id": str(last.pk), "parts": [result("c1")], "metadata": None}
        status, said = page.problem(messageId=str(last.pk), **tools)
        assert (status, said["code"]) == (422, "invalid_message")
        assert "'c1'" in said["detail"]
        assert not session.messages.filter(role="tool").exists()
        page.messages.pop()
    # Each has its own: the server's is stored first, and what the page repeats of it is not believed either.
    tools = {"hostsTools": True, "pageTools": ["confirm"]}
    seen = page.send("Pay and look?", "u3", **tools)
    assert [one["toolCallId"] for one in seen if one["type"] == "tool-output-available"] == ["c3"]
    page.messages[-1]["parts"] = [result("c3", "Sun."), result("c4", "Yes.")]
    assert text_of(page.ask(messageId=page.messages[-1]["id"], **tools)) == "Rain."
    rows = session.messages.filter(role="tool").order_by("pk").values_list("content", "metadata")
    assert list(rows) == [("Rain.", {}), ("Yes.", {"written_by": "client"})]
    assert branches(session)[-1][-4:] == ["", "Rain.", "Yes.", "Rain."]


@pytest.mark.parametrize("tool", ["weather", "slow"])
def test_a_reload_in_the_loop_of_the_servers_tools_has_each_call_once(serve, owner, server, session, tool):
    """While the model is asked again, and while the tool runs; at this process and at another one.

    Sent again, there or here, it runs no tool and asks no model once more.
    """
    pages = [Page(serve(kind), owner, session) for kind in ("asgi", "wsgi")]
    server.script([calls(("c1", tool, {})), stream_of(*HANGING, then=steps.hang())])
    pages[0].messages = [{"id": "u1", "role": "user", "parts": [{"type": "text", "text": "When?"}]}]
    with pages[0].asked(hostsTools=True) as events:
        next(one for one in events if one["type"] == "tool-input-available")
        pages[1].messages = pages[0].messages
        if tool == "weather":
            until(events, "is in")
        else:
            soon(ReplyClaim.objects.exists)
            assert pages[1].problem(hostsTools=True)[1]["code"] == "reply_under_way"
        for page in pages:
            # Another process learns of it half a second later.
            loaded = soon(lambda at=page: (found := at.http.get("repository").json())["messages"][1:] == [] and found)
            assert loaded["underWay"] == [loaded["headId"]]
            with page.coming_back() as again:
                shown = until(again, "is in")
            assert [one["toolCallId"] for one in shown if one["type"] == "tool-input-available"] == ["c1"]
        pages[0].http.post("stream/stop")
        list(events)
    for page in pages:
        loaded = soon(lambda at=page: (found := at.http.get("repository").json())["underWay"] == [] and found)
        kinds = [part["type"] for part in loaded["messages"][1]["message"]["parts"]]
        assert kinds == ["step-start", f"tool-{tool}", "step-start", "text"]
        assert text_of(page.ask(hostsTools=True)) == "The tide is in "
    assert (len(server.requests), session.messages.count()) == (2, 4)


@pytest.mark.long
@WSGI_TOO
def test_replies_of_one_user_have_a_bound(page, server, session, owner):
    server.script([stream_of(*HANGING, then=steps.hang())] * 3)
    tabs = []
    with ExitStack() as stack:
        for number in range(3):
            tab = Page(str(page.http.base_url).partition("/api")[0], owner, chat.start_session(owner=owner))
            tab.messages = [{"id": f"u{number}", "role": "user", "parts": [{"type": "text", "text": "When?"}]}]
            until(stack.enter_context(tab.asked()), "is in")
            tabs.append(tab)
        page.messages = [{"id": "u9", "role": "user", "parts": [{"type": "text", "text": "Hello"}]}]
        answer = page.http.post("stream", json={"messages": page.messages})
        assert (answer.status_code, answer.json()["code"]) == (429, "too_many_replies")
        assert int(answer.headers["Retry-After"]) > 0
        assert answer.json()["question_id"] == session.messages.get().pk
        for tab in tabs:
            tab.http.post("stream/stop")
    soon(lambda: not ReplyClaim.objects.exists())
    assert text_of(page.ask()) == "Aye."
    assert branches(session) == [["Hello", "Aye."]]


@pytest.mark.parametrize("who", ["host", "page"])
def test_a_search_beside_a_tool_is_answered_above_it_and_not_shown(page, server, session, who):
    both = calls(("c1", RECALL_TOOL, {"query": "boat"}), ("c2", "weather", {}))
    server.script([both, steps.reply("Rain.")])
    seen = page.send("Weather?", "u1", searches=True, hostsTools=who == "host")
    assert [one["toolName"] for one in seen if one["type"] == "tool-input-available"] == ["weather"]
    if who == "page":
        page.messages[-1]["parts"] = [{"toolCallId": "c2", "state": "output-available", "output": "Wet"}]
        page.ask(messageId=page.messages[-1]["id"])
    [[_, _, searched, result, last]] = branches(session)
    assert ("No summarized message" in searched, result, last) == (True, "Rain." if who == "host" else "Wet", "Rain.")


@WSGI_TOO
def test_a_character_that_is_cut_arrives_whole(page, server, session):
    """The page lost its connection at it."""
    server.script([stream_of("a\ud83d", "\ude00b\ud83d")])
    assert text_of(page.send("Hello", "u1")) == "a😀b\ufffd" == branches(session)[0][-1]


@pytest.mark.long
@BY_WSGI
def test_errors_before_the_first_chunk_and_after_it(page, server, session):
    server.script([steps.server_error(503)] * 3 + [stream_of("Half ", then=steps.hang(0)), steps.reply("Whole.")])
    page.messages = [{"id": "u1", "role": "user", "parts": [{"type": "text", "text": "Hello"}]}]
    status, said = page.problem()
    question = session.messages.get()
    assert (status, said["code"], said["question_id"]) == (502, "model", question.pk)
    seen = page.ask(trigger="regenerate-message")
    assert text_of(seen) == "Half "
    assert "broke off" in seen[-1]["errorText"]
    assert not ReplyClaim.objects.exists()
    # Sent again, it is asked again and not stored again.
    page.messages.pop()
    assert text_of(page.ask()) == "Whole."
    assert branches(session) == [["Hello", "Whole."]]
    page.messages.append({"id": "u2", "role": "user", "parts": [{"type": "text", "text": "word " * 4_000}]})
    too_long = page.problem()[1]
    assert (too_long["code"], too_long["detail"][:29]) == ("context_overflow", "This message is too long for ")
    page.messages[-1] = {"id": "u3", "role": "user", "parts": [{"type": "text", "text": "Hi"}]}
    server.script([unauthorized()])
    assert "Tell the site's administrator." in page.problem()[1]["detail"]


@WSGI_TOO
def test_stop_keeps_what_came_and_a_reload_finds_the_rest(page, server, session):
    server.script([stream_of(*HANGING, then=steps.hang()), stream_of(*HANGING, then=late(2))])
    page.messages = [{"id": "u1", "role": "user", "parts": [{"type": "text", "text": "When?"}]}]
    with page.asked() as events:
        until(events, "is in")
        loaded = page.http.get("repository").json()
        assert loaded["underWay"] == [loaded["headId"]]
        # Another tab asks the same.
        assert page.problem()[1]["code"] == "reply_under_way"
        assert page.http.post("stream/stop").json() == {"stopping": True}
        seen = list(events)
    assert seen[-1]["messageMetadata"]["finishReason"] == "stopped"
    assert branches(session) == [["When?", "The tide is in "]]
    server.wait_for_disconnects(1)
    assert page.http.get("stream").status_code == 204
    assert page.http.post("stream/stop").json() == {"stopping": False}
    # The reader hangs up, and the reply goes on.
    server.script([steps.reply("noon.")])
    page.messages = [*page.messages, {"id": "u2", "role": "user", "parts": [{"type": "text", "text": "Sure?"}]}]
    with page.asked() as events:
        until(events, "is in")
    with page.coming_back() as events:
        assert text_of(list(events)).startswith("The tide is in ")
    soon(lambda: len(branches(session)[0]) == 4 or not ReplyClaim.objects.exists())


@pytest.mark.long
def test_a_page_that_stops_by_itself_goes_on_below_what_came(page, server, session):
    """``chat.stop()`` of useChat only hangs up: neither the end nor the tree's id of the reply ever came."""
    hanging = stream_of(*HANGING, then=steps.hang())
    server.script([hanging, steps.reply("Noon."), hanging, steps.reply("One."), hanging, steps.reply("Two.")])

    def hang_up(**body):
        with page.asked(**body) as events:
            started = until(events, "is in ")[0]
        kept = {"id": started["messageId"], "role": "assistant", "parts": []}
        page.messages.append({**kept, "metadata": started["messageMetadata"]})

    page.messages = [{"id": "u1", "role": "user", "parts": [{"type": "text", "text": "When?"}]}]
    hang_up()
    page.send("Sure?", "u2")
    assert branches(session) == [["When?", "The tide is in ", "Sure?", "Noon."]]
    # A regeneration, stopped likewise; then the same again, and another one in its place.
    page.messages.pop()
    hang_up(trigger="regenerate-message")
    page.send("And?", "u3")
    page.messages.pop()
    hang_up(trigger="regenerate-message")
    lost = page.messages.pop()["id"]
    assert text_of(page.ask(trigger="regenerate-message", messageId=lost)) == "Two."
    top = ["When?", "The tide is in ", "Sure?"]
    assert branches(session) == [
        [*top, "Noon."],
        *([*top, "The tide is in ", "And?", reply] for reply in ("One.", "The tide is in ", "Two.")),
    ]


def test_stop_before_the_first_chunk(page, server, session):
    server.script([steps.hang(), steps.reply("Hi."), steps.hang(), steps.reply("Bye.")])
    page.messages = [{"id": "u1", "role": "user", "parts": [{"type": "text", "text": "Hello"}]}]
    for asked_before in (0, 2):
        with ThreadPoolExecutor() as asking:
            asked = asking.submit(lambda: list(page.http.post("stream", json={"messages": page.messages}).iter_lines()))
            server.wait_for(asked_before + 1)
            assert page.http.post("stream/stop").json() == {"stopping": True}
            events = list(map(json.loads, (line[6:] for line in asked.result() if line.startswith("data: {"))))
        assert [one["type"] for one in events] == ["start", "finish"]
        assert events[-1]["messageMetadata"]["id"] is None
        # At once, and not when the slow model answers.
        assert not ReplyClaim.objects.exists()
        if not asked_before:
            page.ask(trigger="regenerate-message")
            page.messages.append({"id": "u2", "role": "user", "parts": [{"type": "text", "text": "Are you there?"}]})
    page.shown(events)
    page.send("Good night", "u3")
    top = ["Hello", "Hi.", "Are you there?", "Good night", "Bye."]
    assert branches(session) == [top]
    # After a tool of the host: the page goes on below its result.
    server.script([calls(("c1", "weather", {})), steps.hang(), steps.reply("Well.")])
    page.messages.append({"id": "u4", "role": "user", "parts": [{"type": "text", "text": "Weather?"}]})
    with page.asked(hostsTools=True) as events:
        server.wait_for(6)
        page.http.post("stream/stop")
        page.shown(list(events))
    page.send("Well?", "u5")
    assert branches(session) == [[*top, "Weather?", "", "Rain.", "Well?", "Well."]]


def test_what_asks_nothing_is_refused(page, session):
    asked = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": " \n"}]}
    assert page.problem(messages=[asked])[1]["code"] == "invalid_message"
    asked["parts"][0]["text"] = "Hello"
    for body in ({"trigger": "bogus"}, {"messageId": "nobody knows"}):
        assert page.problem(messages=[asked], **body)[0] == 422
    assert not session.messages.exists()


@pytest.mark.long
def test_another_process_comes_back_and_stops(serve, server, owner, session):
    first, second = (Page(serve(kind), owner, session) for kind in ("asgi", "wsgi"))
    server.script([stream_of(*HANGING, then=steps.hang())] * 2)
    for page, other, key in ((first, second, "u1"), (second, first, "u2")):
        page.messages = [{"id": key, "role": "user", "parts": [{"type": "text", "text": "When?"}]}]
        with ExitStack() as stack:
            here = stack.enter_context(page.asked())
            seen = until(here, "is in ")
            there = stack.enter_context(other.coming_back())
            found = until(there, "is in ")
            assert found[0] == seen[0]
            assert other.http.post("stream/stop", json={}).json() == {"stopping": True}
            assert [*seen, *here][-1] == [*found, *there][-1]
    assert branches(session) == [["When?", "The tide is in "]] * 2
    # A page that only hung up, and whose next message another process gets.
    server.script([stream_of(*HANGING, then=steps.hang()), steps.reply("Noon.")])
    first.messages[0]["id"] = "u3"
    with first.asked() as here:
        second.messages = [*first.messages, {"id": "lost", "role": "assistant"}]
        second.messages[1]["metadata"] = until(here, "is in ")[0]["messageMetadata"]
    second.send("Sure?", "u4")
    assert branches(session)[2:] == [["When?", "The tide is in ", "Sure?", "Noon."]]
    assert first.http.get("stream").status_code == 204


def test_what_is_not_theirs_is_unknown(page, server, session, serve):
    stranger = Page(str(page.http.base_url).partition("/api")[0], get_user_model().objects.create_user("bo"), session)
    stranger.messages = [{"id": "u1", "role": "user", "parts": [{"type": "text", "text": "Hello"}]}]
    tip = grow(chat.start_session(), None, "u a")[-1]
    server.script([stream_of(*HANGING, then=steps.hang())])
    page.messages = [{"id": "u1", "role": "user", "parts": [{"type": "text", "text": "When?"}]}]
    with page.asked() as events:
        until(events, "is in")
        assert stranger.problem()[0] == 404
        answers = [stranger.http.get("stream"), stranger.http.get("repository"), stranger.http.post("stream/stop")]
        assert [one.status_code for one in answers] == [404] * 3
        assert page.http.post("stream/stop", headers={"X-CSRFToken": ""}).json()["code"] == "csrf_failed"
        page.http.post("stream/stop")
        list(events)
    # A message of another session is no parent.
    page.messages = [{"id": str(tip.pk), "role": "assistant", "parts": []}, *page.messages]
    assert page.problem(messages=[page.messages[0], {**page.messages[1], "id": "u9"}])[1]["code"] == "invalid_parent"
    assert ChatMessage.objects.filter(parent=tip).count() == 0


@BY_WSGI
def test_the_page_is_told_what_is_summarized_and_left_out(page, server, session, settings):
    settings.COMPACTION = {"SUMMARIZER": "extractive", "CONTEXT_WINDOW": 3_000, "RESERVED_TOKENS": 200}
    rows = grow(session, None, "u a " * 14)
    run = chat.compact(rows[-1])
    server.script([steps.reply("Aye.")])
    page.messages = [{"id": str(rows[-1].pk), "role": "assistant", "parts": []}]
    [told, last] = [one["data"] for one in page.send("Go on", "u1") if one["type"] == "data-compaction"]
    cutoff = run.summary.last_summarized_message
    assert (told["summaryId"], told["summarizedTo"]) == (str(run.summary.pk), str(cutoff.pk))
    assert told["summarized"] == cutoff.depth
    assert (told["dropped"], told["fallbackUsed"], last["underWay"]) == (0, False, False)
    # No worker comes, so the branch grows past its window.
    tip = grow(session, chat.tips(session)[0], "u a " * 20)[-1]
    page.messages = [{"id": str(tip.pk), "role": "assistant", "parts": []}]
    seen = page.send("And on", "u2")
    last = [one["data"] for one in seen if one["type"] == "data-compaction"][-1]
    assert (last["dropped"] > 0, last["fallbackUsed"], last["underWay"]) == (True, True, True)
    assert (told["state"], last["state"], last["code"]) == ("ok", "running", "")
    kept = chat.tips(session)[0].sent_context
    assert (last["threshold"], last["window"]) == (kept["threshold"], 3_000)
    assert last["historyTokens"] == kept["history_tokens"] <= last["availableTokens"]


def test_a_request_takes_the_same_queries_below_a_chain_of_any_length(session):
    """An agent's steps are messages of one reply: a query for each was 800 for one click."""
    taken = []
    for length in (3, 40):
        question = chat.append_message(session, role="user", content="Go on.")
        end = chat.append_messages(session, question, [{"role": "assistant", "content": "Step."}] * length)[-1]
        asked, stopped = {"id": str(question.pk), "role": "user"}, {"questionId": str(question.pk)}
        below = {"id": f"new {length}", "role": "user", "parts": [{"type": "text", "text": "And now?"}]}
        reply = {"id": "unknown", "role": "assistant", "metadata": stopped}
        with CaptureQueriesContext(connection) as after:
            assert find_or_append(session, Asking(messages=[asked, reply, below])).parent_message_id == end.pk
        reply = {"id": str(end.pk), "role": "assistant"}
        with CaptureQueriesContext(connection) as again:
            assert (
                find_or_append(
                    session, Asking(trigger="regenerate-message", messages=[asked, reply], messageId=str(end.pk))
                )
                == question
            )
        taken.append((len(after), len(again)))
    assert taken[0] == taken[1]


def test_with_the_database_away_the_last_events_say_so(server, session, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    is_away = threading.Event()
    server.script([chunk_then(is_away.set, "Aye.")])
    question = chat.append_message(session, role="user", content="Ready?")
    reply = replies.Reply(question, {"model": "house-model"})
    with failing(lambda _: is_away.is_set()):
        reply.start(regenerate=False)
        assert reply.over.wait(20)
    assert text_of(reply.parts) == "Aye."
    assert [part["type"] for part in reply.parts[-2:]] == ["error", "done"]
    assert "could not store it" in reply.parts[-2]["errorText"]
    soon(lambda: not ReplyClaim.objects.exists())


@pytest.mark.few
@pytest.mark.parametrize("erase", [chat.delete_session, chat.delete_message, chat.redact_message])
def test_a_reply_ends_with_what_it_answers_and_leaves_the_cache(server, session, monkeypatch, erase):
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    server.script([stream_of(*HANGING, then=steps.hang())])
    question = chat.append_message(session, role="user", content="Ready?")
    key = replies.key_of(session, question.pk)
    reply = replies.Reply(question, {"model": "house-model"})
    reply.start(regenerate=False)
    soon(lambda: HANGING[1] in json.dumps(cache.get(key)))
    erase(session if erase is chat.delete_session else question)
    assert reply.over.wait(20)
    soon(lambda: cache.get(key) is None)
    soon(lambda: not any(thread.name.startswith("reply") for thread in threading.enumerate()))
    assert cache.get(key) is None
    assert not ChatMessage.objects.filter(role="assistant").exists()
    assert not ReplyClaim.objects.exists()

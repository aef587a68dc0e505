"""Secrets: what is recognized, what is not touched, and that none leaves for a model."""

import json
import logging
from typing import Any

import openai
import pytest
from asgiref.sync import async_to_sync
from hypothesis import example, given, settings
from hypothesis import strategies as st

from compaction_app import chat
from compaction_app.exceptions import CompactionFailed, RedactionFailed
from compaction_app.messages.openai_format import made_id
from compaction_app.messages.secrets import FORMATS
from compaction_app.models import ChatMessage, ChatSession, CompactionEvent, CompactionRun
from compaction_app.redaction import UNREADABLE, apply_redactor, redact_secrets
from compaction_app.testing.server import ScriptedOpenAIServer
from compaction_app.values import Message, Role
from tests.builders import grow, words
from tests.small import anchored_summary, small, tool_call
from tests.steps import echoing_validation_error

# Made up; put together here so that no scanner of this file takes them for keys.
BODY = "Zm9vYmFyMTIzNDU2Nzg5MGFiY2RlZmdoaWprbG1ub3A"
PEM = "\n".join(["-----BEGIN " + "RSA PRIVATE KEY-----", BODY, BODY, "-----END RSA " + "PRIVATE KEY-----"])

KEY = "sk-" + "proj-" + BODY
SECRETS: list[tuple[str, str]] = [
    ("OpenAI key", KEY),
    ("Anthropic key", "sk-" + "ant-api03-" + BODY),
    ("AWS key", "AKIA" + "IOSFODNN7EXAMPLE"),
    ("GitHub token", "ghp_" + BODY),
    ("GitHub token", "github_" + "pat_" + BODY),
    ("Slack token", "xoxb-" + "123456789012-" + BODY[:24]),
    ("model provider key", "AIza" + BODY[:35]),
    ("model provider key", "hf_" + BODY[:34]),
    ("model provider key", "gsk_" + BODY),
    ("JWT", "eyJ" + "hbGciOiJIUzI1NiJ9.eyJ" + "zdWIiOiIxMjM0In0." + BODY),
    ("private key", PEM),
    ("private key", PEM.replace("\n", "\\n")),
    ("private key", PEM.split("-----END")[0].rstrip()),
    ("private key", PEM.replace(BODY, "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A\n\n" + BODY, 1)),
]

#: (text, what must be gone, what must stay).
IN_PLACE: list[tuple[str, str, str]] = [
    ("Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz", "Authorization: Basic "),
    ("curl -H 'authorization: bearer abc/def+1234567890=='", "def+1234567890", "curl -H 'authorization: bearer "),
    ('{"Authorization": "Token 0123abcd"}', "0123abcd", '{"Authorization": "Token '),
    ("sent with Bearer abcdefghij1234567890.", "abcdefghij1234567890", "sent with Bearer "),
    ("postgres://me:hunter2@db.local:5432/x", "hunter2", "@db.local:5432/x"),
    ("redis://:p@ss:word@cache", "p@ss", "@cache"),
    ("https://hooks.slack.com/services/T000/B000/abcdefabcdefabcdef", "T000/B000", "https://hooks.slack.com/services/"),
    ("DB_PASSWORD=hunter\nDEBUG=1", "hunter", "DEBUG=1"),
    ("export OPENAI_API_KEY='abcdefgh'", "abcdefgh", "export OPENAI_API_KEY='"),
    ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG", "wJalr", "AWS_SECRET_ACCESS_KEY="),
    ("my password: hunter2, thanks", "hunter2", ", thanks"),
    ("my password is hunter2Correct, thanks", "hunter2", ", thanks"),
    ('{"password": "hun\\"ter2", "user": "me"}', "ter2", '", "user": "me"}'),
    ('"{\\"apiKey\\": \\"abc12345\\", \\"n\\": 1}"', "abc12345", '\\", \\"n\\": 1}"'),
    ("client_secret: abcdef-123456", "abcdef", "client_secret: "),
    ("Server=x;Pwd=hunter22;Timeout=30", "hunter22", "Timeout=30"),
    ('DB_PASSWORD="two words 5"\nDEBUG=1', "words", 'DB_PASSWORD="'),
    ('{"password": "two words", "user": "me"}', "two", '", "user": "me"}'),
    ('"{\\"password\\": \\"two words\\", \\"n\\": 1}"', "two", '\\", \\"n\\": 1}"'),
    ("mysql --password=Winter -h db", "Winter", " -h db"),
    ("mysql --password hunter2x -h db", "hunter2x", " -h db"),
    ("x --client-secret 'two words' --dry-run", "two", "' --dry-run"),
    ("AWS_SECRET_ACCESS_KEY wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalr", "AWS_SECRET_ACCESS_KEY "),
    ("password=hunter22 is what Lena Ortiz uses", "hunter22", " is what Lena Ortiz uses"),
]

HARMLESS = [
    "",
    "sk-learn-is-a-very-nice-library-for-all-of-us",
    "task-9aaaaaaaaaaaaaaaaaaaaaaaaaaaa and risk-1234567890123456789012",
    "max_tokens: 4096, total_tokens=1200",
    "PASSWORD_MIN_LENGTH=12 and password_hash_rounds = 600000",
    "password: required; the secret: patience; token: a unit of text",
    'api_key = getenv("OPENAI_KEY_1")',
    '"password": "${DB_PASSWORD_1}", "token": "<your token 1>", secret: {{ vault.a1b2c3 }}',
    "PASSWORD=$DB_PASSWORD_1 PWD=/home/me1 OLDPWD=/home/me2",
    "Basic understanding of bearer tokens; Bearer of bad news",
    "https://example.org:8080/a@b and mailto:me@example.org and https://me@example.org/",
    "commit 4a491eef00ba4a491eef00ba4a491eef00ba4a49, uuid 123e4567-e89b-12d3-a456-426614174000",
    "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----",
    "eyJust a word.eyJust.another",
    "my password is required, was forgotten, is: unknown; the password is 8 characters or more",
    "the monkey=banana1 and keyboard: qwerty123",
    "use the --password option, or --token as before; --password is asked for; --user bob",
    "--password $DB_PASSWORD --token=${TOKEN} --secret <your secret>",
    '{"password": "This field is required.", "secret": "Is it told?"}',
]


@pytest.mark.pure
class TestRecognized:
    @pytest.mark.parametrize(("kind", "secret"), SECRETS)
    @pytest.mark.parametrize("around", ["{}", 'x="{}";', "字{}字", "a\n{}\nb"])
    def test_a_key_is_taken_out_and_what_is_around_it_stays(self, kind, secret, around):
        assert redact_secrets(around.format(secret)) == around.format(f"[secret removed: {kind}]")

    @pytest.mark.parametrize(("text", "gone", "stays"), IN_PLACE)
    def test_a_value_is_taken_out_of_its_place(self, text, gone, stays):
        redacted = redact_secrets(text)
        assert gone not in redacted
        assert stays in redacted
        assert redacted.count("[secret removed: ") == 1

    @pytest.mark.parametrize("text", HARMLESS)
    def test_what_is_no_secret_stays(self, text):
        assert redact_secrets(text) == text

    def test_every_format_is_tried(self):
        """No kind without an example above, and no keyword that its own pattern can not hold."""
        kinds = {kind for kind, _ in SECRETS} | {"authorization", "URL password", "value", "Slack webhook"}
        assert {secret.kind for secret in FORMATS} == kinds
        assert all(keyword == keyword.lower() for secret in FORMATS for keyword in secret.keywords)


PIECES = st.sampled_from(
    [secret for _, secret in SECRETS]
    + [text for text, _, _ in IN_PLACE]
    + [f"[secret removed: {secret.kind}]" for secret in FORMATS]
    + "password= token: ' \" \\ = :// : @ [ ] ( $ { < . - _ sk- eyJ -----BEGIN Bearer API_KEY= a1 字 \ud800".split()
    + "--password API_KEY secret:".split()
    + [" ", "\n", "-----"]
)


@pytest.mark.pure
@given(st.lists(PIECES, max_size=12).map("".join))
@example("PASSWORD=ab://me:pw@h")
@settings(max_examples=100, deadline=None)
def test_twice_is_once_and_nothing_raises(text):
    once = redact_secrets(text)
    assert redact_secrets(once) == once


def call(arguments: str) -> dict[str, Any]:
    return {"id": "sk-" + BODY, "type": "function", "function": {"name": "connect", "arguments": arguments}}


@pytest.mark.pure
class TestArguments:
    """Arguments that were JSON are JSON afterwards: a provider refuses a request with others."""

    def redacted(self, arguments: str) -> str:
        message = Message(id=1, depth=1, role=Role.ASSISTANT, tokens=1, tool_calls=(call(arguments),))
        [result] = apply_redactor(message, redact_secrets).tool_calls
        assert result["id"] == made_id("sk-" + BODY)
        return str(result["function"]["arguments"])

    def test_values_are_seen_with_their_names_and_without(self):
        arguments = {"password": "hunter2", "deep": [{"apiKey": "abc12345", "pem": PEM}], "n": 3, "at": "four"}
        redacted = json.loads(self.redacted(json.dumps(arguments)))
        assert redacted == {
            "password": "[secret removed: value]",
            "deep": [{"apiKey": "[secret removed: value]", "pem": "[secret removed: private key]"}],
            "n": 3,
            "at": "four",
        }

    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            ('{"password": 12345678}', json.dumps({"password": UNREADABLE})),
            (json.dumps({KEY: 1}), json.dumps({"[secret removed: OpenAI key]": 1})),
            ('{"b":1,   "a": "\\u0041"}', '{"b":1,   "a": "\\u0041"}'),
            ("password='hunter2'", "password='[secret removed: value]'"),
        ],
        ids=["a number", "a name", "no secret, so the same bytes", "no JSON"],
    )
    def test_what_is_made_of_other_arguments(self, arguments, expected):
        assert self.redacted(arguments) == expected

    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | PIECES.filter(lambda text: text.isprintable()),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PIECES, inner, max_size=3),
            max_leaves=8,
        )
    )
    @settings(deadline=None)
    def test_json_stays_json_whatever_it_is(self, value):
        json.loads(self.redacted(json.dumps(value)))

    def test_a_redactor_that_breaks_json_does_not_break_arguments(self):
        message = Message(id=1, depth=1, role=Role.ASSISTANT, tokens=1, tool_calls=(call('{"a": "b", "n": 1}'),))
        [result] = apply_redactor(message, lambda text: text.replace('"n"', '"')).tool_calls
        assert json.loads(result["function"]["arguments"]) == {"a": "b", "n": UNREADABLE}


SHIPPED = "compaction_app.redaction.redact_secrets"
PLANTS = [KEY, "postgres://me:tide4ever@db", "AKIA" + "IOSFODNN7EXAMPLE", PEM]
#: What must be nowhere but in the rows of the messages themselves.
PLANTED = [BODY, "hunter2", "tide4ever", "AKIAIOS"]


def doubling(text: str) -> str:
    return text.replace("secret", "secret " * 3)


def by_words(text: str) -> str:
    return " ".join("[removed]" if word == "secret" else word for word in text.split(" "))


def raising(text: str) -> str:
    raise ValueError(f"can not read {text}")


def adding_nul(text: str) -> str:
    return f"{text}\x00"


def answering_none(text: str) -> None:
    return None


@pytest.fixture
def client(server):
    return openai.OpenAI(base_url=server.url, api_key="none", max_retries=0)


def summarizing(server: ScriptedOpenAIServer, **overrides: Any) -> dict[str, Any]:
    model = {"model": "small", "base_url": server.url, "api_key_env": "PATH"}
    summarizer = "compaction_app.summarizers.OpenAISummarizer"
    return small(REDACTOR=SHIPPED, asked={"BACKEND": summarizer, "MODELS": [model]}, **overrides)


def planted_session() -> tuple[ChatSession, ChatMessage]:
    """A secret in every field that a message has, in the part to be compacted and at the tip."""
    session = chat.start_session(model="house-model", system_prompt=f"Use {KEY} for the archive.")
    messages: list[dict[str, Any]] = []
    for number, secret in enumerate(PLANTS):
        function = {"name": "connect", "arguments": json.dumps({"url": secret, "password": "hunter2-of-the-sea"})}
        calls = [{"id": f"c{number}", "type": "function", "function": function}]
        messages += [
            {"role": "user", "content": f"my password: hunter2-of-the-sea and {secret}"},
            {
                "role": "assistant",
                "content": f"I have {secret}",
                "tool_calls": calls,
                "reasoning": [{"thinking": f"so password='hunter2-of-the-sea', {secret}"}],
                "attachments": [{"type": "file", "name": secret, "url": f"https://u:tide4ever@x/{number}"}],
            },
            {"role": "tool", "content": f"DB_PASSWORD=hunter2-of-the-sea\n{secret}", "tool_call_id": f"c{number}"},
        ]
    first = chat.append_messages(session, None, messages)[-1]
    second = chat.append_messages(session, grow(session, first, "u a " * 20)[-1], messages)[-1]
    return session, grow(session, second, "u")[0]


def assert_clean(*texts: Any) -> None:
    for text in texts:
        for secret in PLANTED:
            assert secret not in str(text)


@pytest.mark.django_db(transaction=True)
class TestNothingLeaves:
    CONTRIBUTIONS = ({"role": "system", "content": f"From the wiki: {KEY}"},)

    def test_planted_secrets_reach_no_prompt_event_log_or_error(self, settings, server, client, caplog):
        settings.COMPACTION = summarizing(server)
        caplog.set_level(logging.DEBUG, logger="compaction_app")
        session, tip = planted_session()
        before = dict(ChatMessage.objects.values_list("pk", "content"))
        chat.complete(tip, client=client, contributions=self.CONTRIBUTIONS, include_reasoning=True)
        options = {"contributions": self.CONTRIBUTIONS, "include_reasoning": True, "regenerate": True}
        list(chat.stream(tip, client=client, **options))
        assert chat.compact(tip, instructions=f"Keep {KEY}").status == "succeeded"
        tip = grow(session, tip, "a u a")[-1]
        chat.complete(tip, client=client, include_reasoning=True)
        server.script([echoing_validation_error()])
        with pytest.raises(CompactionFailed) as caught:
            chat.compact(grow(session, tip, "u a " * 30)[-1])
        assert len(server.requests) >= 5
        assert_clean(*server.requests)
        assert "[secret removed: " in str(server.requests)
        assert_clean(caught.value, caught.value.error_detail)
        assert_clean(*CompactionRun.objects.values_list("error_detail", flat=True))
        assert_clean(*CompactionEvent.objects.values_list("payload", flat=True))
        assert_clean(*ChatMessage.objects.filter(kind="summary").values())
        assert_clean(caplog.text)
        after = dict(ChatMessage.objects.filter(pk__in=before).values_list("pk", "content"))
        assert after == before
        assert any(BODY in content for content in after.values())

    def test_the_async_twins_send_none_either(self, settings, server):
        settings.COMPACTION = summarizing(server)
        _, tip = planted_session()

        async def main() -> None:
            client = openai.AsyncOpenAI(base_url=server.url, api_key="none", max_retries=0)
            await chat.acomplete(tip, client=client, contributions=self.CONTRIBUTIONS)
            async for _ in chat.astream(tip, client=client, contributions=self.CONTRIBUTIONS, regenerate=True):
                pass
            await chat.acompact(tip, instructions=f"Keep {KEY}")

        async_to_sync(main)()
        assert len(server.requests) >= 3
        assert_clean(*server.requests)

    def test_what_a_hosts_own_client_is_given_is_clean_and_valid(self, settings):
        settings.COMPACTION = small(REDACTOR=SHIPPED)
        _, tip = planted_session()
        context = chat.get_context(tip, contributions=self.CONTRIBUTIONS)
        sent = context.to_openai(include_reasoning=True)
        assert_clean(sent)
        for message in sent:
            for called in message.get("tool_calls", ()):
                assert json.loads(called["function"]["arguments"])
        ids = [c["id"] for m in sent for c in m.get("tool_calls", ())]
        assert ids == [m["tool_call_id"] for m in sent if m["role"] == "tool"] != []

    def test_off_is_verbatim_but_for_secrets(self, settings):
        settings.COMPACTION = small(MODE="off", REDACTOR=SHIPPED)
        _, tip = planted_session()
        context = chat.get_context(tip)
        assert len(context.messages) == len(chat.get_branch(tip)) + 1
        assert_clean(context)

    def test_a_summary_and_its_pin_pass_it_too(self, settings):
        settings.COMPACTION = small(REDACTOR=SHIPPED)
        session = chat.start_session()
        messages = grow(session, None, "u a c t c t")
        ChatMessage.objects.filter(pk=messages[0].pk).update(content=f"do it with {KEY}")
        anchored_summary(messages[3], messages[3], content=f"Settled: {KEY}", pinned=messages[0])
        context = chat.get_context(messages[-1])
        assert [m.origin for m in context.messages][:2] == ["summary", "pinned"]
        assert_clean(context)


@pytest.mark.django_db(transaction=True)
class TestCounts:
    def test_what_is_shown_is_counted_as_it_is_shown(self, settings):
        """A token a word: the notice takes three more than the key."""
        settings.COMPACTION = small(REDACTOR=SHIPPED)
        session = chat.start_session(system_prompt=f"Use {KEY} well.")
        tip = chat.append_messages(
            session,
            None,
            [{"role": "user", "content": f"{words(100)} {KEY}"}, {"role": "assistant", "content": words(100)}],
        )[-1]
        context = chat.get_context(tip)
        assert [m.tokens for m in context.messages] == [4 + len(m.content.split()) for m in context.messages]
        assert [m.tokens for m in context.messages] == [10, 104, 100]
        assert context.tokens == sum(m.tokens for m in context.messages)
        plain = chat.get_context(grow(chat.start_session(system_prompt="a b c d e f"), None, "u")[0])
        assert context.reserved_tokens == plain.reserved_tokens

    @pytest.mark.parametrize("redactor", [SHIPPED, f"{__name__}.doubling"])
    def test_a_prompt_that_a_redactor_makes_longer_still_fits(self, settings, redactor):
        settings.COMPACTION = small(REDACTOR=redactor)
        session = chat.start_session(system_prompt=f"secret {KEY} " * 100)
        text = f"secret {KEY} " * 48
        messages = [{"role": role, "content": text} for role in ("user", "assistant") * 40]
        tip = chat.append_messages(session, None, messages)[-1]
        contributions = [{"role": "system", "content": f"secret {KEY} " * 50}]
        context = chat.get_context(tip, contributions=contributions)
        sizes = [4 + len(m.content.split()) for m in context.messages]
        assert [m.tokens for m in context.messages] == sizes
        assert context.tokens == sum(sizes)
        assert context.tokens + 2_000 <= context.window
        assert context.dropped > 0


@pytest.mark.django_db
def test_what_arguments_escape_is_no_error_of_the_redactor(settings):
    """A redactor that returns a new text was said to have returned it, in each turn from then on."""
    settings.COMPACTION = small(REDACTOR=f"{__name__}.by_words")
    tip = grow(chat.start_session(model="m"), None, "u")[0]
    arguments = ['{"a": "b \\ud83d \\u0000"}', '{"a": "secret \\ud83d"}']
    calls = [tool_call(f"c{n}", arguments=one) for n, one in enumerate(arguments)]
    tip = chat.append_message(tip.session, tip, role="assistant", tool_calls=calls)
    shown = [call["function"]["arguments"] for call in chat.get_context(tip).messages[-1].tool_calls]
    assert shown == [arguments[0], '{"a": "[removed] \ufffd"}']


@pytest.mark.django_db(transaction=True)
class TestHostsOwn:
    @pytest.mark.parametrize(
        ("redactor", "words"),
        [
            ("raising", "raised ValueError"),
            ("answering_none", "must return a string, not NoneType"),
            ("adding_nul", "a NUL or a lone surrogate"),
        ],
    )
    def test_a_redactor_that_fails_keeps_the_text_here(self, settings, server, client, redactor, words):
        """To send it as it is would be the leak that the redactor is there against."""
        tip = grow(chat.start_session(model="m"), None, "u")[0]
        settings.COMPACTION = small(REDACTOR=f"{__name__}.{redactor}")
        with pytest.raises(RedactionFailed, match=words) as caught:
            chat.complete(tip, client=client)
        assert "word" not in str(caught.value)
        assert server.requests == []
        assert ChatMessage.objects.count() == 1

    @pytest.mark.parametrize(("redactor", "type_"), [("raising", "ValueError"), ("adding_nul", "RedactionFailed")])
    @pytest.mark.parametrize("limit", [{}, {"max_input_tokens": 5_000}], ids=["any length", "with a limit"])
    def test_a_run_says_that_the_redactor_failed(self, settings, server, caplog, redactor, type_, limit):
        """Not that the provider did, which was never asked."""
        settings.COMPACTION = small()
        tip = grow(chat.start_session(model="m"), None, "u a " * 9 + "u")[-1]
        models = [{"model": "m", "base_url": server.url, **limit}]
        settings.COMPACTION = small(REDACTOR=f"{__name__}.{redactor}", SUMMARIZERS={"default": {"MODELS": models}})
        with pytest.raises(CompactionFailed) as caught:
            chat.compact(tip)
        assert (caught.value.error_code, server.requests) == ("provider_error", [])
        assert caught.value.error_detail.startswith("REDACTOR r")
        [said] = [record.compaction for record in caplog.records if record.compaction["event"] == "error"]
        assert (said["step"], said["type"]) == ("run", type_)


def test_arguments_that_are_nested_deeper_than_python_reads_are_redacted_as_text():
    """A model's call with 400 brackets: no prompt of its branch could be made any more."""
    arguments = '{"a":' * 400 + '"password=hunter2hunter2"' + "}" * 400
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": arguments}}
    message = Message(id=1, depth=1, role=Role.ASSISTANT, tokens=1, tool_calls=(call,))
    redacted = apply_redactor(message, redact_secrets)
    assert "hunter2" not in redacted.tool_calls[0]["function"]["arguments"]

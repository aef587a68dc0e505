"""What tests of replay bundles share: a server that summarizes, conversations with everything in them, an export."""

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.core.management import call_command

from compaction_app import chat
from compaction_app.models import ChatMessage, ChatSession, CompactionRun
from compaction_app.testing.server import ScriptedOpenAIServer
from compaction_app.values import PolicyDecision
from tests.small import asks

SUMMARY = "## Recap\n\nA garden & a <shed>: plant no. 1 stands behind the wall and costs 7 €, no. 2 costs 14 €."


def site(server: ScriptedOpenAIServer, *, max_input_tokens: int = 100_000, asked: Any = None, **overrides: Any) -> Any:
    """A window of 4,000 tokens, and the server as the only model."""
    model = {"model": "scripted", "base_url": server.url, "max_input_tokens": max_input_tokens}
    return {
        "CONTEXT_WINDOW": 4_000,
        "RESERVED_TOKENS": 500,
        **asks(**{"MODELS": [model], **(asked or {})}),
        "COOLDOWN_SECONDS": 0,
        **overrides,
    }


def run(command: str, *arguments: Any) -> tuple[str, int]:
    """What a command prints, and its exit code."""
    out = io.StringIO()
    try:
        call_command(command, *map(str, arguments), stdout=out)
    except SystemExit as ended:
        return out.getvalue(), int(ended.code or 0)
    return out.getvalue(), 0


def prose(words: int, about: str = "plant") -> str:
    """Text with markup, other scripts and every kind of line end in it."""
    sentences = [
        f"The {about} no. {n} stands <b>behind</b> the wall & costs {n * 7} €;\r\nсад — 庭園, is it \u2028so?\n"
        for n in range(1, words // 16 + 2)
    ]
    return "".join(sentences)


def talk(session: ChatSession, tip: ChatMessage | None, turns: int, *, words: int = 90) -> list[ChatMessage]:
    messages: list[dict[str, Any]] = []
    for n in range(turns):
        messages += [
            {"role": "user", "content": f"Question {n}: {prose(words)}"},
            {"role": "assistant", "content": f"Answer {n}: {prose(words, 'tree')}", "reasoning": [{"text": f"hm {n}"}]},
        ]
    return chat.append_messages(session, tip, messages)


def loop(session: ChatSession, tip: ChatMessage | None, calls: int, *, words: int = 60) -> list[ChatMessage]:
    """An agent's turn: one request, then calls with their results."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"Plan it all. {prose(words)}"}]
    for n in range(calls):
        function = {"name": "look", "arguments": json.dumps({"path": f"beds/{n}.txt"})}
        messages += [
            {
                "role": "assistant",
                "content": f"Looking at bed {n}.",
                "tool_calls": [{"id": f"call_{n}", "type": "function", "function": function}],
                "reasoning": [{"type": "thinking", "thinking": f"bed {n} first"}],
            },
            {"role": "tool", "tool_call_id": f"call_{n}", "content": prose(words, f"bed{n}")},
        ]
    return chat.append_messages(session, tip, messages)


@dataclass(frozen=True)
class Export:
    """What ``export_compactions`` wrote."""

    folder: Path
    index: dict[str, Any]
    code: int
    out: str

    @property
    def bundles(self) -> list[Path]:
        return [self.folder / entry["folder"] for entry in self.index["summaries"] if entry["folder"]]

    def metadata(self, number: int) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((self.bundles[number] / "metadata.json").read_text())
        return loaded

    @property
    def reasons(self) -> list[str]:
        return [entry["reason"] for entry in self.index["summaries"]]


def export(folder: Path, *arguments: Any) -> Export:
    out, code = run("export_compactions", "--out", folder, *arguments)
    return Export(folder, json.loads((folder / "index.json").read_text()), code, out)


def sent(server: ScriptedOpenAIServer, nonce: str) -> list[tuple[bytes, bytes]]:
    """System and user message of each request of a run, by its nonce, in the order that the server got them."""
    pairs = [tuple(message["content"].encode() for message in body["messages"]) for body in server.requests]
    return [(system, user) for system, user in pairs if nonce.encode() in user]


def export_checked(server: ScriptedOpenAIServer, folder: Path) -> Export:
    """An export whose every prompt is, byte for byte, the last one of its run that the server got: the accepted one."""
    exported = export(folder)
    runs = list(CompactionRun.objects.filter(status="succeeded").select_related("summary").order_by("id"))
    assert runs
    written = {exported.metadata(number)["ids"]["run"]: bundle for number, bundle in enumerate(exported.bundles)}
    assert sorted(written) == [made.pk for made in runs]
    for made in runs:
        bundle = written[made.pk]
        prompts = (bundle / "system-prompt.md").read_bytes(), (bundle / "user-message.md").read_bytes()
        assert prompts == sent(server, made.nonce)[-1]
        assert made.summary is not None
        assert (bundle / "actual-output.md").read_bytes() == made.summary.text.encode()
        assert (bundle / "compact-history.xml").read_bytes() in prompts[1]
    assert exported.code == 0
    return exported


KEY = "sk-proj-Zm9vYmFyMTIzNDU2Nzg5MA"


def tell_key(session: ChatSession) -> ChatMessage:
    """A conversation with the key in it, compacted."""
    told = {"role": "user", "content": f"My key is {KEY}."}
    tip = chat.append_messages(session, None, [told, {"role": "assistant", "content": "I will not repeat it."}])[-1]
    chat.compact(talk(session, tip, 8)[-1])
    return tip


def hide_keys(text: str) -> str:
    return text.replace(KEY, "[key]")


def hide_keys_otherwise(text: str) -> str:
    return text.replace(KEY, "[a key]")


def ask_for_prices(tip: ChatMessage, budget: Any) -> PolicyDecision:
    return PolicyDecision(action="force", prompt_line="Prices stay in euros.")

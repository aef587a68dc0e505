"""What a model thought aloud, and what it copied of the material, is cut out of its answer."""

from __future__ import annotations

import pytest

from compaction_app.messages.transcript import leaks_wrapper
from compaction_app.summarizers.drafts import mended
from compaction_app.values import EXTRACTIVE_MODEL, SummaryDraft
from tests.summarizers.summarizing import GOOD

pytestmark = pytest.mark.pure

THOUGHTS = [
    f"<think>Hm, a rocket.\n</think>\n\n{GOOD}",
    f"\n\n<think>\n\n</think>\n\n{GOOD}",
    # vllm-project/vllm#31045, QwenLM/qwen-code#6033: the prompt ends with the opening mark.
    f"Hm, a rocket.\n</think>\n\n{GOOD}",
    f"Hm, a rocket.</think>{GOOD}",
    f"</think>Hm, a rocket.</think>{GOOD}",
    # waybarrios/vllm-mlx#599
    f"[THINK]Hm.\nA rocket.[/THINK]{GOOD}",
    f"<thought>Hm.\n</thought>\n{GOOD}",
    f"<reasoning>Hm.</reasoning>\n{GOOD}",
    f"<mm:think>Hm.</mm:think>{GOOD}",
    f"◁think▷Hm.◁/think▷{GOOD}",
    f"<|START_THINKING|>Hm.<|END_THINKING|><|START_RESPONSE|>{GOOD}<|END_RESPONSE|>",
    f"<|channel>thought\nHm.\n<channel|>{GOOD}",
    # johnbean393/Sidekick#75, oobabooga/textgen#7374, odysseus-dev/odysseus#4522
    f"<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>{GOOD}<|return|>",
    f"<|channel|>final<|message|>{GOOD}<|return|>",
    f"<|channel|>commentary to=functions.x <|message|>{{}}<|call|><|start|>assistant<|channel|>final<|message|>{GOOD}",
    f"analysisThe user builds a rocket.assistantfinal{GOOD}",
    f"<analysis>\nHm.\n</analysis>\n\n<summary>\n{GOOD}\n</summary>",
    f"```markdown\n{GOOD}\n```",
    f"<|im_start|>{GOOD}<|im_end|>",
]
LEAKS = [
    f"<conversation-summary>\n{GOOD}\n</conversation-summary>",
    f"{GOOD}\n<user>And then?</user>\n<assistant>Well.</assistant>",
    f'<user time="Wed 2025-05-07 10:00">And then?</user>\n{GOOD}',
    f'{GOOD}\n<cutoff id="0123456789abcdef"/>',
    f"{GOOD}</assistant>",
    f"<assistant>{GOOD}</assistant>",
]
#: Marks and tags that are spoken of.
SPOKEN_OF = [
    f"{GOOD} <think> is a tag.",
    f"{GOOD}\n<think> tags are cut by the proxy.",
    f"{GOOD}\nThe user asked why `</think>` is left, and about </think> tags.",
    f"{GOOD}\nThe proxy cuts at </think>, and at [/THINK]. The user saw it (in front of </think>).",
    # nearai/ironclaw#6853
    f"{GOOD}\n```xml\n<user>Ann</user>\n```",
    f"{GOOD}\n~~~html\n<message>\n<user>x</user>\n</message>\n~~~\nDone.",
    f"{GOOD}\n```python\nx = 1\n```",
]


def text_of(written: str) -> str:
    return mended(SummaryDraft(text=written)).text


@pytest.mark.parametrize("written", [*THOUGHTS, *LEAKS])
def test_the_answer_alone_is_left(written):
    assert text_of(written) == GOOD


@pytest.mark.parametrize("written", SPOKEN_OF)
def test_what_a_summary_says_of_marks_and_tags_stays(written):
    assert text_of(written) == written
    assert not leaks_wrapper(written, "")


def test_a_thought_without_an_end_is_no_answer():
    assert text_of("<think>Hm, a rocket. The user") == ""


@pytest.mark.parametrize("written", [f"<user>{GOOD}</user>", f"{GOOD} <user> in a line", f"{GOOD}\n<user>And"])
def test_a_leak_that_cannot_be_cut_out_stays_and_is_refused(written):
    assert leaks_wrapper(text_of(written), "")


def test_an_extract_is_left_alone():
    extract = SummaryDraft(text="user: why </think>\n\nagain?", model=EXTRACTIVE_MODEL, is_extract=True)
    assert mended(extract) is extract

"""What of a provider's error message may be stored."""

import pytest

from compaction_app.summarizers.error_details import safe_code, safe_message
from compaction_app.summarizers.prompts import RULES, WRITING

pytestmark = pytest.mark.pure

#: Words of errors, names and numbers, as conversations have them.
SAID = (
    "my PIN is 4711, the card 5500005555555559, or 4012 8888 8888 1881, call Zoë at +49 30 901820; "
    "the model does not exist yet. "
    "&lt;b&gt;please stop the file server&lt;/b&gt; hunter2-heron"
)
PROMPT = f"{WRITING}\n{RULES}\n<user>{SAID}</user>"

HELPFUL = [
    "You exceeded your current quota, please check your plan and billing details.",
    "This model's maximum context length is 8192 tokens. However, you requested 26000 tokens (6000 in the messages).",
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    "Access denied due to invalid subscription key or wrong API endpoint.",
]


@pytest.mark.parametrize("message", HELPFUL)
def test_what_helps_is_kept_word_for_word(message):
    """A person has to see what to mend."""
    assert safe_message(message, PROMPT, "gpt-9") == message[:200]


@pytest.mark.parametrize(
    ("message", "stored"),
    [
        ("Incorrect API key provided: sk-proj-Zm9v***MA.", "Incorrect API key provided: …."),
        ("model 'llama3' not found, try pulling it first", "model '…' not found, try … it first"),
        ("The model `gpt-9` does not exist", "The model `gpt-9` does not exist"),
        ("Limit 30000, used 29500. Please try again in 5s.", "Limit 30000, used 29500. Please try again in …."),
    ],
)
def test_what_is_not_of_the_language_of_errors_is_masked(message, stored):
    text = PROMPT.replace("does not exist", "is new") + " 5"
    assert safe_message(message, text, "gpt-9") == stored


@pytest.mark.parametrize(
    "quoted",
    [
        "4711",
        "hunter2",
        "Zoë",
        "Zo\\u00eb",
        "please stop the file server",
        "the model does not exist yet",
        "5500005555555559",
        "5500 0055 5555 5559",
        "49-30-901820",
        "4012888888881881",
        *(" ".join(WRITING.split()[:count]) for count in (4, 5, 7, 40)),
    ],
)
@pytest.mark.parametrize(
    "form", ["Invalid input: {}", "Invalid value {!r} in the request", "{}", 'Bad "{}", try again']
)
def test_the_prompt_is_never_quoted_however_short(quoted, form):
    """Fifteen characters passed, and so did the opening of the system prompt."""
    stored = safe_message(form.format(quoted), PROMPT)
    assert quoted not in stored
    for word in quoted.split():
        assert len(word) < 5 or word not in stored.split(), "a run of words is masked as a whole"


def test_a_quote_without_an_end_is_masked_too():
    assert safe_message('Invalid request: "the user must wait', PROMPT) == "Invalid request: …"


def test_it_is_short_and_on_one_line():
    stored = safe_message("the error\nof the server " * 500, PROMPT)
    assert len(stored) == 200
    assert "\n" not in stored


def test_little_that_is_left_is_dropped():
    assert safe_message("Kaboom at line X in the flux", PROMPT) == ""
    assert safe_message("", PROMPT) == ""


@pytest.mark.parametrize(
    ("code", "stored"),
    [
        *(
            (code, code)
            for code in ("context_length_exceeded", "BadRequestError", "RESOURCE_EXHAUSTED", "messages[3].content")
        ),
        *((code, "") for code in (None, 400, "", "hunter2", "the_launch_code", "rate limit", "x" * 500, ["quota"])),
    ],
)
def test_a_code_is_kept_if_it_is_of_the_same_language(code, stored):
    assert safe_code(code) == stored

"""A search of the documentation, such as "bot forgot", finds the page with the answer first.

Sphinx finds a page only if it has every word of the search, and ranks words in titles and headings higher. So the words
that people search for must be in the title, the headings or the first sentences of that page.
"""

import re
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

DOCS = REPOSITORY / "docs"

#: What somebody types into the search, and the page that answers it.
SEARCHED = {
    "bot forgot": "troubleshooting",
    "lost context": "troubleshooting",
    "slow": "troubleshooting",
    "ChatGPT import": "adopting",
    "too expensive": "tuning",
    "summary loses": "tuning",
    "GDPR": "data",
    "delete my data": "data",
    "retention": "data",
    "token limit": "settings",
    "Ollama": "local-models",
    "monitoring": "telemetry",
    "LiteLLM": "recipes",
    "vulnerability": "security",
    "uninstall": "upgrading",
}
TITLE, HEADING, SENTENCE = 9, 3, 1


def stems(text: str) -> set[str]:
    """As Sphinx, which cuts endings: "loses" and "lose" are one word."""
    return {re.sub(r"(?<=\w{3})e?s?$", "", word) for word in re.findall(r"\w+", text.lower())}


def weights_of(page: Path) -> dict[str, int]:
    """The words of a page's title, headings and the sentence below each, by the highest place that each stands at."""
    weights: dict[str, int] = {}
    text = re.sub(r"```.*?```|<!--.*?-->", "", page.read_text(), flags=re.DOTALL)
    for hashes, heading, below in re.findall(r"^(#+) (.*)\n+(.*(?:\n.+)*)", text, re.MULTILINE):
        sentence = re.split(r"[.!?:](?:\s|$)", below)[0]
        for weight, place in ((TITLE if hashes == "#" else HEADING, heading), (SENTENCE, sentence)):
            weights |= {word: max(weight, weights.get(word, 0)) for word in stems(place)}
    return weights


@pytest.mark.pure
@pytest.mark.parametrize(("words", "page"), SEARCHED.items())
def test_the_words_of_who_searches_lead_to_the_page(words: str, page: str) -> None:
    found = {}
    for path in DOCS.glob("*.md"):
        weights = weights_of(path)
        if stems(words) <= set(weights):
            found[path.stem] = sum(weights[word] for word in stems(words))
    assert found, f"No page has {words!r} in its title, headings and first sentences."
    assert [name for name, score in found.items() if score == max(found.values())] == [page], found

"""The public functions with their signatures, for who reads the checkout: ``python -m tests.docs.signatures``.

It writes ``docs/signatures.md``: the functions of ``docs/reference.md`` under its headings, each below the first
sentence of its docstring. A test compares the page with the code.
"""

import ast
import inspect
import os
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from textwrap import dedent, fill

import django

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "signatures.md"
LINE = 120
HEAD = """# Signatures

Every public function as the code has it; [the Python API](reference.md) describes each.
"""


def page() -> str:
    return "\n".join([HEAD, *_sections()])


def _sections() -> Iterator[str]:
    _, *parts = re.split(r"^## ", (DOCS / "reference.md").read_text(), flags=re.MULTILINE)
    for part in parts:
        if names := re.findall(r"^\.\. autofunction:: ([\w.]+)", part, re.MULTILINE):
            heading, _, _ = part.partition("\n")
            stubs = "\n\n\n".join(_stub(name) for name in names)
            yield f"## {heading}\n\n```python\n{stubs}\n```\n"


def _stub(name: str) -> str:
    module, _, called = name.rpartition(".")
    function = getattr(import_module(module), called)
    sentence = re.split(r"(?<=\.)\s|\n\n", inspect.getdoc(function) or "")[0]
    sentence = re.sub(r":\w+:`([^`]+)`|``([^`]+)``", r"\1\2", " ".join(sentence.split()))
    source = dedent(inspect.getsource(inspect.unwrap(function)))
    [node] = ast.parse(source).body
    assert isinstance(node, ast.FunctionDef)
    # A task is called without itself, and a name may be another than where it is defined.
    signature = "\n".join(source.splitlines()[node.lineno - 1 : node.body[0].lineno - 1]).replace("self: Any, ", "")
    comment = fill(sentence, LINE, initial_indent="# ", subsequent_indent="# ")
    return f"{comment}\n{signature.replace(node.name, called, 1)} ..."


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    PAGE.write_text(page())

"""Collects what people read, and compiles its translations: ``make messages``. Nothing but babel is needed.

Texts are those in ``gettext`` calls and templates of the app and of the example project, and the words of stored codes.
What is new in a ``django.po`` has an empty translation, which a test refuses.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.extract import extract
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po
from django.utils.translation.template import templatize

import compaction_app
from compaction_app import values

PACKAGE = Path(compaction_app.__file__).parent
#: Folders with a catalog of their own.
ROOTS = (PACKAGE, PACKAGE.parent / "project")
CATALOGS = [one for root in ROOTS for one in sorted(root.glob("locale/*/LC_MESSAGES/django.po"))]
#: The same texts make the same files.
_NO_DATE = datetime(2026, 1, 1, tzinfo=UTC)
KEYWORDS = {
    **dict.fromkeys(("_", "gettext", "gettext_lazy", "gettext_noop", "pgettext")),
    **dict.fromkeys(("ngettext", "ngettext_lazy"), (1, 2)),
    "counted": (2, 3),
}
ENUMS = [one for one in vars(values).values() if isinstance(one, type) and issubclass(one, StrEnum) and one != StrEnum]
#: Names in the payload of an event, of a limit of spending, of what a link narrows a list to, and where no model wrote.
OTHER_CODES = """
    aggressive anchor attempt attempts available base cached_tokens calibration characters clamped
    cleared_input_tokens cleared_thinking_turns cleared_tool_uses code compaction compactions conservative corrected
    counted covered covered_messages cutoff day declared deletion deterministic draft_tokens dropped
    dropped_messages dropped_tokens erasure estimate_error extra_input_tokens extra_output_tokens extractive
    failures history_tokens hour input_tokens layer limit message messages model models of output_tokens parameters
    period person previous_run provider_tokens reason redaction retention_after retention_before run runs seconds
    seconds_since session standard summaries summary summary_tokens target target_tokens threshold tip tokens
    tokens_after tokens_before trigger turns unit used user waiting window
"""


_MEANINGLESS = tuple(
    f'"{name}'.encode()
    for name in "Project-Id Report-Msgid POT-Creation PO-Revision Last-Tr Language-Team Generated-By".split()
)


@cache
def collected(root: Path) -> Catalog:
    catalog = Catalog(project="django-chat-compaction", charset="utf-8", fuzzy=False)
    for place, text, plural in texts(root):
        catalog.add((text, plural) if plural else text, locations=[(place, 0)])
    return catalog


def texts(root: Path) -> Iterator[tuple[str, str, str]]:
    """(file, text, its plural or "") of everything that is translated below a root."""
    for path in sorted(root.rglob("*")):
        if path.suffix not in (".py", ".html") or "migrations" in path.parts:
            continue
        source = path.read_text()
        if path.suffix == ".html":
            # Django makes calls of gettext of its tags; indented, they would be no Python.
            source = "\n".join(line.strip() for line in templatize(source).splitlines())
        # To take a file apart costs more than to look for a call in it.
        if not any(f"{name}(" in source for name in KEYWORDS):
            continue
        found = extract("python", io.BytesIO(source.encode()), keywords=KEYWORDS, options={"encoding": "utf-8"})
        for _line, text, _comments, _context in found:
            one, many = text if isinstance(text, tuple) else (text, "")
            yield path.relative_to(root).as_posix(), one, many
    if root != PACKAGE:
        return
    for code in sorted({member.value for enum in ENUMS for member in enum} | set(OTHER_CODES.split())):
        yield "values.py", code.replace("_", " "), ""


def main() -> None:
    for po in CATALOGS:
        language, template = po.parts[-3], collected(po.parents[3])
        catalog = read_po(io.BytesIO(po.read_bytes()), locale=language)
        catalog.update(template, no_fuzzy_matching=True)
        catalog.obsolete.clear()
        catalog.creation_date = catalog.revision_date = _NO_DATE
        po.write_bytes(as_po(catalog))
        with po.with_suffix(".mo").open("wb") as compiled:
            write_mo(compiled, catalog)
        missing = sum(not all(text_of(message.string)) for message in catalog if message.id)
        print(f"{language}: {len(catalog)} texts, {missing} to translate in {po}")


def as_po(catalog: Catalog) -> bytes:
    written = io.BytesIO()
    write_po(written, catalog, width=110, sort_output=True, include_lineno=False)
    # Of the header only what means something.
    lines = written.getvalue().split(b"\n")
    return b"\n".join(line for line in lines if not line.startswith(_MEANINGLESS))


def text_of(string: str | tuple[str, ...]) -> tuple[str, ...]:
    return string if isinstance(string, tuple) else (string,)


if __name__ == "__main__":
    main()

"""The drawings of the documentation, made of what they show: the rooms of the package, and what forks are sent."""

import ast
import re
from collections.abc import Iterable, Iterator
from textwrap import wrap

from compaction_app import chat
from compaction_app.models import ChatMessage
from tests.conftest import REPOSITORY
from tests.test_layout import PACKAGE, ROOMS
from tests.trees import chain, start_session, summarize

DOCS = REPOSITORY / "docs"
WIDTH, LINE, GAP = 960, 18, 6
#: Characters that fit beside a room's name.
MOST_CHARACTERS = 96


PAPER = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-labelledby="title"
  font-family="system-ui, sans-serif" fill="#222">
<title id="title">The rooms of compaction_app, each above the rooms that it may import</title>
<rect width="{width}" height="{height}" fill="#fff"/>
<path d="M30 12V{end}m-4 -8l4 8l4 -8" stroke="#555" stroke-width="2" fill="none"/>
<text transform="translate(20 {middle}) rotate(-90)" font-size="14" text-anchor="middle">imports point down</text>
{rooms}
</svg>
"""
ROOM = """\
<rect x="48" y="{top}" width="{width}" height="{height}" rx="8" fill="hsl({hue} 60% 92%)"/>
<text x="62" y="{middle}" font-size="18" font-weight="600">{name}</text>"""


def rooms() -> str:
    """The rooms from the edges down, each with what it is for, by its docstring, and its files."""
    drawn, top = [], GAP
    for number, (room, members) in enumerate(reversed(ROOMS.items())):
        folders = [name for name in sorted(members) if (PACKAGE / name).is_dir()]
        files = [path.stem for name in folders for path in sorted((PACKAGE / name).glob("[!_]*.py"))]
        files = files if len(folders) < 2 else [f"{name}/" for name in folders]
        files += sorted(members.difference(folders, {room}))
        named = [room] if room in members else folders or sorted(members)
        purposes = _lines(filter(None, map(purpose_of, named)))
        told = [(text, 15) for text in purposes] + [(text, 13) for text in _lines(files)]
        height = GAP + LINE * len(told) + GAP
        name = f"{room}/" if room in folders else room
        box = {"top": top, "width": WIDTH - 64, "height": height, "middle": top + height // 2 + GAP}
        drawn.append(ROOM.format(name=name, hue=30 + number * 24, **box))
        for row, (text, size) in enumerate(told, start=1):
            drawn.append(f'<text x="210" y="{top + LINE * row}" font-size="{size}">{text}</text>')
        top += height + GAP
    return PAPER.format(width=WIDTH, height=top, end=top - 2 * GAP, middle=top // 2, rooms="\n".join(drawn))


def purpose_of(member: str) -> str:
    """How the docstring of a folder or root file begins."""
    path = PACKAGE / member
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    told = ast.get_docstring(ast.parse(source.read_text())) or ""
    return re.split(r"[:;.](?=\s|$)", re.sub(r":\w+:`([\w.]+)`|``(\w+)``| \(.*?\)", r"\1\2", told))[0]


def _lines(texts: Iterable[str]) -> list[str]:
    return wrap("\u00a0· ".join(texts), MOST_CHARACTERS)


def fork() -> str:
    """The drawing by hand, its labels by what a model is sent at the end of each branch."""
    path = chain(start_session(), 8)
    summary = summarize(path[5], path[3])
    edited, regenerated = chain(path[0].session, 2, path[5]), chain(path[0].session, 2, path[4])
    marks = {message.pk: mark for mark, branch in (("′", edited), ("″", regenerated)) for message in branch}
    labels = [f"summary of 1–{summary.last_summarized_message.depth}"]
    for tip in (path[-1], edited[-1], regenerated[-1]):
        labels.append(", ".join(_sent(tip, marks)))
        if chat.find_summary(tip) is None:
            labels[-1] += " — no summary"
    drawn = (DOCS / "fork.svg").read_text()
    return re.sub(r'(<text class="(?:st|y|n)"[^>]*>)[^<]*', lambda found: found[1] + labels.pop(0), drawn)


def _sent(tip: ChatMessage, marks: dict[int, str]) -> Iterator[str]:
    depths = {message.pk: message.depth for message in chat.get_branch(tip)}
    for message in chat.get_context(tip).messages:
        pk = message.message_id
        yield f"{depths[pk]}{marks.get(pk, '')}" if pk in depths else "summary"


DRAWN = {"rooms": rooms, "fork": fork}

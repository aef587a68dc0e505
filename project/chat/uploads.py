"""Files that a user sends with a message: texts become a part of the message, pictures its attachments.

What a file is, its bytes say and not its name. A picture is stored as a ``data:`` URL in its message: so it has the
message's owner, is sent to any provider as it is, and is erased with the message.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django import forms
from django.core.files.uploadedfile import UploadedFile
from django.utils.formats import number_format
from django.utils.translation import gettext

MAX_FILES = 10
#: Of all files of a message: as base64 within ``MAX_MESSAGE_BYTES``.
MAX_BYTES = 2_900_000

#: The key of a message's metadata with the names of its pictures, which are read without their bytes.
PICTURES = "pictures"

_PICTURES = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF....WEBP", re.DOTALL),
}
_DATA_URL = re.compile(r"data:(image/(?:png|jpeg|gif|webp));base64,(.+)", re.DOTALL)
#: A text file as it stands in a message. The end is missing where the page has cut the message off.
_FILE = re.compile(r'^<file name="([^"\n]*)">\n(.*?)(?:\n</file>$|\Z)', re.DOTALL | re.MULTILINE)
_FORBIDDEN_IN_NAMES = re.compile(r'[\x00-\x1f\x7f"<>/\\]+')


class TextFile(NamedTuple):
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Uploads:
    texts: Sequence[TextFile] = ()
    pictures: Sequence[dict[str, Any]] = ()

    @property
    def as_fields(self) -> dict[str, Any]:
        """In the keywords of ``append_message``."""
        if not self.pictures:
            return {}
        return {"attachments": [*self.pictures], "metadata": {PICTURES: [one["name"] for one in self.pictures]}}

    def content_with(self, typed: str) -> str:
        """The message: what was typed, and below it each text in tags that name it."""
        return "\n\n".join(
            [*filter(None, [typed]), *(f'<file name="{f.name}">\n{f.text}\n</file>' for f in self.texts)]
        )


def number(value: float, decimals: int = 0) -> str:
    """As the reader's language writes it."""
    # Django cuts the digits off.
    return number_format(round(value, decimals), decimals, force_grouping=True)


def megabytes() -> str:
    """The most that files of a message may have."""
    return number(MAX_BYTES / 1_000_000, 1)


def too_large() -> str:
    return gettext("Files may have {megabytes} MB together; these have more.").format(megabytes=megabytes())


def read_files(files: Iterable[UploadedFile[bytes]]) -> Uploads:
    """Raises :class:`forms.ValidationError`, with words for whoever chose the file."""
    files = list(files)
    if len(files) > MAX_FILES:
        raise forms.ValidationError(gettext("Send at most {most} files with a message.").format(most=MAX_FILES))
    if sum(file.size or 0 for file in files) > MAX_BYTES:
        raise forms.ValidationError(too_large())
    texts, pictures = [], []
    for file in files:
        name = _FORBIDDEN_IN_NAMES.sub("_", file.name or "file")[:100]
        content = file.read()
        if kind := next((kind for kind, begins in _PICTURES.items() if begins.match(content)), ""):
            url = f"data:{kind};base64,{base64.b64encode(content).decode()}"
            pictures.append({"type": "image", "mime_type": kind, "name": name, "url": url})
            continue
        try:
            text = content.decode("utf-8-sig").replace("\r\n", "\n")
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:
            told = gettext("“{name}” is neither a text nor a picture (PNG, JPEG, GIF, WebP).").format(name=name)
            raise forms.ValidationError(told)
        texts.append(TextFile(name, text.rstrip("\n")))
    return Uploads(texts, pictures)


def split_files(content: str) -> tuple[str, list[TextFile]]:
    """What was typed, and the texts that were sent with it."""
    return _FILE.sub("", content).rstrip() if "<file " in content else content, [
        TextFile(*found) for found in _FILE.findall(content)
    ]


def picture_in(attachment: Any) -> tuple[str, bytes] | None:
    """The type and the bytes of a picture that was uploaded here; None for anything else."""
    found = _DATA_URL.fullmatch(str(attachment.get("url") or ""))
    try:
        return (found[1], base64.b64decode(found[2], validate=True)) if found else None
    except ValueError:
        return None

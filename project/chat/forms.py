"""Forms for what a user types, checked before anything is stored."""

from typing import Any

from django import forms
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from project.chat import uploads
from project.chat.uploads import number

#: Longer than anyone types, and under Django's limit for a request's body however many bytes the characters take.
MAX_CHARACTERS = 200_000
MAX_SYSTEM_PROMPT_CHARACTERS = 20_000
EMPTY = _("Type a message first.")


class _Files(forms.FileField):
    """Any number of files, as :class:`uploads.Uploads`."""

    widget = type("Files", (forms.FileInput,), {"allow_multiple_selected": True})

    def clean(self, data: Any, initial: Any = None) -> uploads.Uploads:
        return uploads.read_files(data or ())


class _Text(forms.CharField):
    """Without maxlength in the page: browsers silently cut off a pasted text."""

    def widget_attrs(self, widget: forms.Widget) -> dict[str, Any]:
        return {}


class MessageForm(forms.Form):
    """A message, or a slash command, as it was typed."""

    content = _Text(
        label=_("Your message"),
        strip=False,
        required=False,
        widget=forms.Textarea(attrs={"rows": 1, "dir": "auto", "placeholder": _("Write a message")}),
    )
    attached = _Files(label=_("Files"), required=False)
    #: What is sent where no files can be chosen.
    kept = uploads.Uploads()

    def focus(self) -> None:
        """Put the cursor into the box, since its text has to be corrected."""
        self.fields["content"].widget.attrs["autofocus"] = True

    def clean(self) -> None:
        """``content`` becomes the whole message, texts of files in it."""
        if self.errors:
            return
        # Browsers send CRLF for every line break of a text area, whatever was typed or pasted.
        typed = str(self.cleaned_data["content"]).replace("\r\n", "\n")
        sent = self.cleaned_data.get("attached") or self.kept
        content = sent.content_with(typed if typed.strip() else "")
        if not (content or sent.pictures):
            self.add_error("content", EMPTY)
        if len(content) > MAX_CHARACTERS:
            told = (
                gettext("With its files this message has {count} characters; {allowed} are allowed.")
                if sent.texts
                else gettext("This message has {count} characters; {allowed} are allowed.")
            )
            self.add_error("content", told.format(count=number(len(content)), allowed=number(MAX_CHARACTERS)))
        self.cleaned_data["content"] = content


class EditForm(MessageForm):
    """The form of an edited message, whose files stay."""

    def __init__(self, original: str, data: Any = None) -> None:
        typed, texts = uploads.split_files(original)
        # The link to it ends in #edited-content: a browser puts the cursor into the box that an address points at.
        super().__init__(data, auto_id="edited-%s", initial={"content": typed})
        self.kept = uploads.Uploads(texts)
        del self.fields["attached"]
        self.fields["content"].label = _("Edited message")
        # The user has just opened this box.
        self.fields["content"].widget.attrs.update(rows=3, autofocus=True)


class NewForm(MessageForm):
    """The first message of a conversation, and its system prompt."""

    system_prompt = _Text(
        label=_("Instructions for the model"),
        max_length=MAX_SYSTEM_PROMPT_CHARACTERS,
        required=False,
        help_text=_("Sent first in every request, and never summarized."),
        widget=forms.Textarea(attrs={"rows": 2, "dir": "auto"}),
    )


class TitleForm(forms.Form):
    title = forms.CharField(
        label=_("Title"), max_length=255, widget=forms.TextInput(attrs={"dir": "auto", "autocomplete": "off"})
    )
    #: How often something had been erased when the page was made.
    erased = forms.IntegerField(required=False, widget=forms.HiddenInput)

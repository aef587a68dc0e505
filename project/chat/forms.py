"""Forms for what a user types, checked before anything is stored."""

from typing import Any

from django import forms

#: Longer than anyone types, and under Django's limit for a request's body however many bytes the characters take.
MAX_CHARACTERS = 200_000
MAX_SYSTEM_PROMPT_CHARACTERS = 20_000


class MessageForm(forms.Form):
    """A message, or a slash command, as it was typed."""

    content = forms.CharField(
        label="Your message",
        strip=False,
        max_length=MAX_CHARACTERS,
        error_messages={
            "required": "Type a message first.",
            "max_length": "This message has %(show_value)s characters; %(limit_value)s are allowed.",
        },
        # No maxlength in the page: browsers silently cut off a pasted text.
        widget=forms.Textarea(attrs={"rows": 2, "dir": "auto", "maxlength": None}),
    )

    def focus(self) -> None:
        """Put the cursor into the box, since its text has to be corrected."""
        self.fields["content"].widget.attrs["autofocus"] = True

    def clean_content(self) -> str:
        # Browsers send CRLF for every line break of a text area, whatever was typed or pasted.
        content = str(self.cleaned_data["content"]).replace("\r\n", "\n")
        if not content.strip():
            raise forms.ValidationError("Type a message first.", code="required")
        return content


class EditForm(MessageForm):
    """The form of an edited message."""

    def __init__(self, data: Any = None, **kwargs: Any) -> None:
        # The link to it ends in #edited-content: a browser puts the cursor into the box that an address points at.
        super().__init__(data, auto_id="edited-%s", **kwargs)
        self.fields["content"].label = "Edited message"
        # The user has just opened this box.
        self.fields["content"].widget.attrs.update(rows=5, autofocus=True)


class SessionForm(forms.Form):
    """A new conversation; both fields are optional."""

    title = forms.CharField(
        label="Title",
        max_length=255,
        required=False,
        help_text="If empty, the first message becomes the title.",
        widget=forms.TextInput(attrs={"dir": "auto", "autocomplete": "off"}),
    )
    system_prompt = forms.CharField(
        label="Instructions for the model",
        max_length=MAX_SYSTEM_PROMPT_CHARACTERS,
        required=False,
        help_text="Sent first in every request, and never summarized.",
        widget=forms.Textarea(attrs={"rows": 3, "dir": "auto", "maxlength": None}),
    )

"""The digests by which a sent list is found again."""

from collections.abc import Sequence
from typing import Any

from django.db import models
from django.dispatch import receiver

from compaction_app.models import ChatMessage
from compaction_app.signals import text_erased

_BATCH = 500


class BranchDigest(models.Model):
    """Of a message that the gateway stored: keyed digests of it and all above it, of it alone, and of its owner.

    It is gone as soon as any of these is redacted: whoever has the key could test guesses at the erased text.
    """

    message = models.OneToOneField(
        ChatMessage, on_delete=models.CASCADE, primary_key=True, related_name="gateway_digest"
    )
    digest = models.CharField(max_length=64)
    #: Of the message alone.
    own = models.CharField(max_length=64)
    #: Whether a reply that we gave is at or above the message. What a client says that we replied is none.
    has_reply = models.BooleanField()

    class Meta:
        indexes = [
            models.Index(fields=["digest"], name="compaction_gateway_digest"),
            models.Index(fields=["own"], name="compaction_gateway_own"),
        ]

    def __str__(self) -> str:
        return f"Digest of the branch at message {self.message_id}"


@receiver(text_erased)
def forget(session_id: Any, message_ids: Sequence[int], using: str, **_: Any) -> None:
    """Under the session's lock: of many messages that may be below the erased one, those that have a digest are few."""
    stored, erased = BranchDigest.objects.using(using), set(message_ids)
    known = stored.filter(message__session=session_id).values_list("pk", flat=True)
    gone = [pk for pk in known if pk in erased]
    for start in range(0, len(gone), _BATCH):
        stored.filter(pk__in=gone[start : start + _BATCH]).delete()

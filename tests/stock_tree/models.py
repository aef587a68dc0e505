"""A stock treebeard tree to compare with, and what a host may have: rows that point at messages."""

from django.conf import settings
from django.db import models
from treebeard.al_tree import AL_Node

from compaction_app.models import ChatMessage, ChatSession


class StockNode(AL_Node):
    """treebeard's adjacency list as it comes: the truth that the node API of messages is compared with."""

    label = models.CharField(max_length=50)
    parent = models.ForeignKey("self", models.CASCADE, related_name="children_set", null=True)
    sib_order = models.PositiveIntegerField()

    def __str__(self) -> str:
        return self.label


class Row(models.Model):
    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{type(self).__name__} {self.pk}"


class Bookmark(Row):
    """Goes with the message. Its relation is hidden, as that of many-to-many tables is."""

    message = models.ForeignKey(ChatMessage, models.CASCADE, related_name="+")


class BookmarkNote(Row):
    """Goes with what goes with the message: two steps away, so that Django can not delete in one."""

    bookmark = models.ForeignKey(Bookmark, models.CASCADE)


class Ticket(Row):
    """Outlives the message."""

    message = models.ForeignKey(ChatMessage, models.SET_NULL, null=True)


class Receipt(Row):
    """Forbids that the message goes."""

    message = models.ForeignKey(ChatMessage, models.PROTECT)


class Quotation(Row):
    """Forbids that the message goes, unless the bookmark or the person goes too and takes this along."""

    message = models.ForeignKey(ChatMessage, models.RESTRICT)
    bookmark = models.ForeignKey(Bookmark, models.CASCADE, null=True)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, null=True)


class Folder(Row):
    """Holds messages and does not mind losing one."""

    messages = models.ManyToManyField(ChatMessage)


class SupportChat(ChatSession):  # type: ignore[django-manager-missing]  # as of ChatSession
    """As a host makes one for an admin page of its own."""

    class Meta:
        proxy = True

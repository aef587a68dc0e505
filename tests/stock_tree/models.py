"""A stock treebeard tree to compare with, and what a host may have: rows that point at messages."""

from __future__ import annotations

from django.db import models
from treebeard.al_tree import AL_Node

from compaction_app.models import ChatMessage


class StockNode(AL_Node):
    """treebeard's adjacency list as it comes: the truth that the node API of messages is compared with."""

    label = models.CharField(max_length=50)
    parent = models.ForeignKey("self", models.CASCADE, related_name="children_set", null=True)
    sib_order = models.PositiveIntegerField()

    def __str__(self) -> str:
        return self.label


class Bookmark(models.Model):
    """Goes with the message. Its relation is hidden, as that of many-to-many tables is."""

    message = models.ForeignKey(ChatMessage, models.CASCADE, related_name="+")

    def __str__(self) -> str:
        return f"Bookmark {self.pk}"


class BookmarkNote(models.Model):
    """Goes with what goes with the message: two steps away, so that Django can not delete in one."""

    bookmark = models.ForeignKey(Bookmark, models.CASCADE)

    def __str__(self) -> str:
        return f"Note {self.pk}"


class Ticket(models.Model):
    """Outlives the message."""

    message = models.ForeignKey(ChatMessage, models.SET_NULL, null=True)

    def __str__(self) -> str:
        return f"Ticket {self.pk}"


class Receipt(models.Model):
    """Forbids that the message goes."""

    message = models.ForeignKey(ChatMessage, models.PROTECT)

    def __str__(self) -> str:
        return f"Receipt {self.pk}"


class Quotation(models.Model):
    """Forbids that the message goes, unless the bookmark goes too and takes this along."""

    message = models.ForeignKey(ChatMessage, models.RESTRICT)
    bookmark = models.ForeignKey(Bookmark, models.CASCADE, null=True)

    def __str__(self) -> str:
        return f"Quotation {self.pk}"


class Folder(models.Model):
    """Holds messages and does not mind losing one."""

    messages = models.ManyToManyField(ChatMessage)

    def __str__(self) -> str:
        return f"Folder {self.pk}"

from typing import Any

from django.db import migrations, models
from django.db.models import CASCADE, PROTECT, RESTRICT, SET_NULL

CHAT_MESSAGE = "compaction_app.chatmessage"


def table(name: str, **fields: Any) -> migrations.CreateModel:
    key = models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")
    return migrations.CreateModel(name, [("id", key), *fields.items()])


class Migration(migrations.Migration):
    initial = True

    dependencies = [("compaction_app", "0001_initial")]

    operations = [
        table("Bookmark", message=models.ForeignKey(CHAT_MESSAGE, CASCADE, related_name="+")),
        table("BookmarkNote", bookmark=models.ForeignKey("stock_tree.bookmark", CASCADE)),
        table("Folder", messages=models.ManyToManyField(CHAT_MESSAGE)),
        table(
            "Quotation",
            bookmark=models.ForeignKey("stock_tree.bookmark", CASCADE, null=True),
            message=models.ForeignKey(CHAT_MESSAGE, RESTRICT),
        ),
        table("Receipt", message=models.ForeignKey(CHAT_MESSAGE, PROTECT)),
        table(
            "StockNode",
            label=models.CharField(max_length=50),
            sib_order=models.PositiveIntegerField(),
            parent=models.ForeignKey("stock_tree.stocknode", CASCADE, null=True, related_name="children_set"),
        ),
        table("Ticket", message=models.ForeignKey(CHAT_MESSAGE, SET_NULL, null=True)),
    ]

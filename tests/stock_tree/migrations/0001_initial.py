"""The tables of ``tests/stock_tree/models.py``."""

from django.db import migrations, models

MESSAGE, BOOKMARK = "compaction_app.chatmessage", "stock_tree.bookmark"


def table(name, **fields):
    key = models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")
    return migrations.CreateModel(name=name, fields=[("id", key), *fields.items()])


class Migration(migrations.Migration):
    initial = True
    dependencies = [("compaction_app", "0001_initial")]
    operations = [
        table("Bookmark", message=models.ForeignKey(MESSAGE, models.CASCADE, related_name="+")),
        table("BookmarkNote", bookmark=models.ForeignKey(BOOKMARK, models.CASCADE)),
        table("Folder", messages=models.ManyToManyField(MESSAGE)),
        table(
            "Quotation",
            bookmark=models.ForeignKey(BOOKMARK, models.CASCADE, null=True),
            message=models.ForeignKey(MESSAGE, models.RESTRICT),
        ),
        table("Receipt", message=models.ForeignKey(MESSAGE, models.PROTECT)),
        table(
            "StockNode",
            label=models.CharField(max_length=50),
            sib_order=models.PositiveIntegerField(),
            parent=models.ForeignKey("stock_tree.stocknode", models.CASCADE, related_name="children_set", null=True),
        ),
        migrations.CreateModel("SupportChat", [], {"proxy": True}, bases=["compaction_app.chatsession"]),
        table("Ticket", message=models.ForeignKey(MESSAGE, models.SET_NULL, null=True)),
    ]

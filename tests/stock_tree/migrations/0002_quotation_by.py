"""A quotation goes with the person who made it."""

from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("stock_tree", "0001_initial"), migrations.swappable_dependency(settings.AUTH_USER_MODEL)]
    operations = [
        migrations.AddField("quotation", "by", models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, null=True))
    ]

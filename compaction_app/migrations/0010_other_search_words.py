from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("compaction_app", "0009_copies"),
    ]

    operations = [
        # Made of other words than those that are looked for now. They are written anew when somebody searches.
        migrations.RunSQL("DELETE FROM compaction_app_searchentry", migrations.RunSQL.noop),
    ]

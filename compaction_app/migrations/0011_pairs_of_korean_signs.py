from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("compaction_app", "0010_other_search_words"),
    ]

    operations = [
        # Made without the signs and pairs that are looked for now. They are written anew when somebody searches.
        migrations.RunSQL("DELETE FROM compaction_app_searchentry", migrations.RunSQL.noop),
    ]

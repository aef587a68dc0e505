from django.db import migrations, models

# On SQLite triggers keep the index in step with the table, which no later migration may alter: Django would make it
# anew, without them. The index has nothing but row numbers by term.
DELETE = """INSERT INTO compaction_app_searchentry_fts(compaction_app_searchentry_fts, rowid, terms)
    VALUES ('delete', old.message_id, old.terms);"""
INSERT = "INSERT INTO compaction_app_searchentry_fts(rowid, terms) VALUES (new.message_id, new.terms);"
INDEX = {
    "sqlite": [
        "CREATE VIRTUAL TABLE compaction_app_searchentry_fts USING fts5(terms, content='', detail='none')",
        f"CREATE TRIGGER compaction_search_added AFTER INSERT ON compaction_app_searchentry BEGIN {INSERT} END",
        f"CREATE TRIGGER compaction_search_deleted AFTER DELETE ON compaction_app_searchentry BEGIN {DELETE} END",
        f"CREATE TRIGGER compaction_search_changed AFTER UPDATE ON compaction_app_searchentry BEGIN {DELETE} {INSERT} END",
    ],
    "postgresql": [
        """CREATE INDEX compaction_search_terms ON compaction_app_searchentry
        USING gin (array_to_tsvector(string_to_array(terms, ' ')))""",
    ],
}
NO_INDEX = {
    "sqlite": [
        "DROP TRIGGER compaction_search_added",
        "DROP TRIGGER compaction_search_deleted",
        "DROP TRIGGER compaction_search_changed",
        "DROP TABLE compaction_app_searchentry_fts",
    ],
    "postgresql": ["DROP INDEX compaction_search_terms"],
}


def make_index(apps, schema_editor):
    for statement in INDEX[schema_editor.connection.vendor]:
        schema_editor.execute(statement)


def drop_index(apps, schema_editor):
    for statement in NO_INDEX[schema_editor.connection.vendor]:
        schema_editor.execute(statement)


class Migration(migrations.Migration):
    dependencies = [
        ("compaction_app", "0007_pins"),
    ]

    operations = [
        migrations.CreateModel(
            name="SearchEntry",
            fields=[
                (
                    "message",
                    models.OneToOneField(
                        on_delete=models.deletion.CASCADE,
                        primary_key=True,
                        related_name="search_entry",
                        serialize=False,
                        to="compaction_app.chatmessage",
                    ),
                ),
                ("terms", models.TextField()),
            ],
            options={"db_table": "compaction_app_searchentry"},
        ),
        migrations.RunPython(make_index, drop_index),
    ]

"""Settings of sessions and of runs in their new form: summarizers are named entries, models have one table."""

from django.db import migrations

#: Of an entry, by the key that each was.
_ENTRY = {
    "SUMMARIZER": "BACKEND",
    "SUMMARIZER_MODELS": "MODELS",
    "SUMMARIZER_CHAT_MODELS": "CHAT_MODELS",
    "SUMMARIZER_TIMEOUT": "TIMEOUT",
    "SUMMARIZER_MAX_OUTPUT_TOKENS": "MAX_OUTPUT_TOKENS",
    "SUMMARY_PROMPT": "PROMPT",
}
#: What a session may ask of an entry.
_OF_SESSIONS = ("SUMMARIZER_TIMEOUT", "SUMMARIZER_MAX_OUTPUT_TOKENS", "SUMMARY_PROMPT")
_OF_MODELS = {"CONTEXT_WINDOWS": "window", "TRIGGER_RATIOS": "trigger_ratio", "PRICES": "price"}
_FIXED = "COVERAGE_RATIO MIN_SUMMARY_CHARS LOOKAHEAD_TOKENS BREAKER_FAILURES BREAKER_SECONDS SUMMARY_ROLE".split()
_OLD = {*_ENTRY, *_OF_MODELS, *_FIXED, "SUMMARIZERS", "SUMMARIZER_NAME"}


def _common(settings):
    return {key: value for key, value in settings.items() if key not in _OLD}


def of_session(settings):
    # A session could not have SUMMARIZER before: it is of the new form.
    if not isinstance(settings, dict) or not (_OLD - {"SUMMARIZER"}) & set(settings):
        return settings
    new, name = _common(settings), settings.get("SUMMARIZER_NAME")
    asked = {_ENTRY[key]: settings[key] for key in _OF_SESSIONS if settings.get(key) is not None}
    if asked:
        new["SUMMARIZER"] = {**({"NAME": name} if name else {}), **asked}
    elif name:
        new["SUMMARIZER"] = name
    return new


def of_session_back(settings):
    if not isinstance(settings, dict) or "SUMMARIZER" not in settings:
        return settings
    old = {key: value for key, value in settings.items() if key != "SUMMARIZER"}
    chosen = settings["SUMMARIZER"]
    chosen = chosen if isinstance(chosen, dict) else {"NAME": chosen}
    if chosen.get("NAME", "default") != "default":
        old["SUMMARIZER_NAME"] = chosen["NAME"]
    return old | {key: chosen[_ENTRY[key]] for key in _OF_SESSIONS if chosen.get(_ENTRY[key]) is not None}


def of_run(settings):
    if not isinstance(settings, dict) or not isinstance(settings.get("SUMMARIZER"), str):
        return settings
    new, name = _common(settings), settings.get("SUMMARIZER_NAME") or "default"
    entry = {_ENTRY[key]: settings[key] for key in _ENTRY if key in settings}
    for key in ("MODELS", "CHAT_MODELS"):
        entry[key] = [{"model": one} if isinstance(one, str) else one for one in entry.get(key) or ()]
    # A chosen summarizer that the site had removed stays unknown: its conversations are sent nowhere.
    is_known = name == "default" or name in (settings.get("SUMMARIZERS") or {})
    new |= {"SUMMARIZER": {"NAME": name}, "SUMMARIZERS": {name: entry} if is_known else {}, "MODELS": {}}
    for key, option in _OF_MODELS.items():
        for model, value in (settings.get(key) or {}).items():
            new["MODELS"].setdefault(model, {})[option] = value
    return new


def of_run_back(settings):
    if not isinstance(settings, dict) or not isinstance(settings.get("SUMMARIZER"), dict):
        return settings
    chosen, entries = settings["SUMMARIZER"], settings.get("SUMMARIZERS") or {}
    name = chosen.get("NAME", "default")
    entry = {**entries.get(name, {}), **{k: v for k, v in chosen.items() if k != "NAME" and v is not None}}
    old = {key: value for key, value in settings.items() if key not in ("SUMMARIZER", "SUMMARIZERS", "MODELS")}
    old |= {key: entry[new] for key, new in _ENTRY.items() if new in entry}
    if name not in ("default", "extractive"):
        old |= {"SUMMARIZER_NAME": name, "SUMMARIZERS": {name: {}} if name in entries else {}}
    for key, option in _OF_MODELS.items():
        models = (settings.get("MODELS") or {}).items()
        old[key] = {model: one[option] for model, one in models if one.get(option) is not None}
    return old


def _rewrite(apps, editor, converted):
    using = editor.connection.alias
    for name, convert in converted.items():
        rows = apps.get_model("compaction_app", name).objects.using(using).order_by("pk").only("pk", "settings")
        changed = []
        for row in rows.exclude(settings={}).iterator(chunk_size=500):
            try:
                new = convert(row.settings)
            except (AttributeError, TypeError, ValueError):
                # Nothing that the app has written. A run with it fails when it is claimed, and asks nobody.
                continue
            if new != row.settings:
                row.settings = new
                changed.append(row)
            if len(changed) >= 500:
                rows.bulk_update(changed, ["settings"])
                changed = []
        rows.bulk_update(changed, ["settings"])


def forwards(apps, editor):
    _rewrite(apps, editor, {"ChatSession": of_session, "CompactionRun": of_run})


def backwards(apps, editor):
    _rewrite(apps, editor, {"ChatSession": of_session_back, "CompactionRun": of_run_back})


class Migration(migrations.Migration):
    dependencies = [
        ("compaction_app", "0003_originals"),
    ]

    operations = [migrations.RunPython(forwards, backwards)]

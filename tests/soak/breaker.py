"""A breaker that closes after five seconds, in every process of the soak."""

from django.apps import AppConfig


class ShortBreaker(AppConfig):
    name = "tests.soak"
    label = "soak"

    def ready(self):
        from compaction_app.compaction import trigger

        trigger.BREAKER_SECONDS = 5

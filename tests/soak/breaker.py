"""A breaker that closes after five seconds and a lease of fourteen, in every process of the soak."""

from django.apps import AppConfig

from tests.soak.faults import LEASE_SECONDS


class ShortBreaker(AppConfig):
    name = "tests.soak"
    label = "soak"

    def ready(self):
        from compaction_app.compaction import trigger
        from compaction_app.models import runs

        trigger.BREAKER_SECONDS = 5
        runs.LEASE_SECONDS = LEASE_SECONDS

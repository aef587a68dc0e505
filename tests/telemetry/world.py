"""What the tests of telemetry tell the app and must not find again, and what a real SDK collected of it."""

from opentelemetry import metrics
from opentelemetry.sdk.metrics import Counter, Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader

from compaction_app import chat
from tests.builders import grow

SECRET = "pelican"
GOOD = f"## Recap\n\nThe {SECRET} keeps the harbour's books, and you help with it."
USAGE = {
    "prompt_tokens": 3_000,
    "completion_tokens": 50,
    "total_tokens": 3_050,
    "prompt_tokens_details": {"cached_tokens": 1_000},
}


class Collected:
    """What the SDK of this process has collected since the last look."""

    def __init__(self):
        delta = AggregationTemporality.DELTA
        self._reader = InMemoryMetricReader(preferred_temporality={Counter: delta, Histogram: delta})
        self._meters = MeterProvider([self._reader])
        # Set once a process, as in a host's: what the app made before it is bound to it now.
        metrics.set_meter_provider(self._meters)

    def clear(self):
        self._reader.get_metrics_data()

    def shut_down(self):
        """The tests that follow collect nothing more."""
        self._meters.shutdown()

    def metrics(self):
        """Name → points, each as its attributes and its value: a sum, or how many were recorded and their sum."""
        data = self._reader.get_metrics_data()
        found = {}
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                assert scope.scope.name == "compaction_app"
                for metric in scope.metrics:
                    found[metric.name] = [(dict(point.attributes), point) for point in metric.data.data_points]
        return found


def over_threshold(session=None):
    session = session or chat.start_session(title=SECRET)
    return grow(session, None, "u a " * 35, word=SECRET)

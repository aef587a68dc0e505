from django.apps import AppConfig


class GatewayConfig(AppConfig):
    name = "compaction_app.contrib.gateway"
    label = "compaction_gateway"

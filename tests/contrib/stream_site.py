"""A host that streams to pages: its settings, its URLs, and its servers. ``python -m tests.contrib.stream_site asgi``."""

from __future__ import annotations

import os
import sys

from django.urls import include, path

from tests.settings import *  # noqa: F403
from tests.settings import BASE_DIR

ROOT_URLCONF = "tests.contrib.stream_site"
ALLOWED_HOSTS = ["127.0.0.1"]
CELERY_BROKER_URL = "redis://127.0.0.1:1/0"
COMPACTION = {"SUMMARIZER": "extractive", "CONTEXT_WINDOW": 3_000, "RESERVED_TOKENS": 200}
FOLDER = os.environ.get("STREAM_CACHE", "")
BACKEND = "filebased.FileBasedCache" if FOLDER else "locmem.LocMemCache"
CACHES = {"default": {"BACKEND": f"django.core.cache.backends.{BACKEND}", "LOCATION": FOLDER}}
FRONT_ENDS = BASE_DIR / "var" / "front_ends"


def turn(request, session, extra):
    tools = [{"type": "function", "function": {"name": "weather", "parameters": {}}}]
    run_tool = {"run_tool": lambda call: "Rain."} if extra.get("serverTools") else {}
    return {"model": "house-model", "tools": tools, **run_tool}


def urls():
    from compaction_app.api.mounting import api_urls
    from compaction_app.contrib.stream import stream_router

    return [path("api/v1/", include((api_urls(extra=[stream_router(turn)]), "compaction_api")))]


def serve(kind: str) -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.contrib.stream_site"
    if kind == "asgi":
        import uvicorn
        from django.core.asgi import get_asgi_application

        config = uvicorn.Config(get_asgi_application(), port=0, log_level="info", lifespan="off")
        uvicorn.Server(config).run()
        return
    from socketserver import ThreadingMixIn
    from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

    from django.core.wsgi import get_wsgi_application

    class Server(ThreadingMixIn, WSGIServer):
        pass

    server = make_server("127.0.0.1", 0, get_wsgi_application(), Server, WSGIRequestHandler)
    print(f"running on http://127.0.0.1:{server.server_port}", file=sys.stderr, flush=True)
    server.serve_forever()


def __getattr__(name):
    """The URLs are made when they are first asked for: of settings nothing may be imported before."""
    if name == "urlpatterns":
        return urls()
    raise AttributeError(name)


if __name__ == "__main__":
    serve(sys.argv[1])

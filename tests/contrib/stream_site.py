"""A host that streams to pages: settings, URLs and servers in one. ``python -m tests.contrib.stream_site asgi``."""

import os
import sys
import time
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from django.urls import include, path

from tests.settings import *  # noqa: F403

ROOT_URLCONF = "tests.contrib.stream_site"
ALLOWED_HOSTS = ["127.0.0.1"]
COMPACTION = {
    "SUMMARIZER": "extractive",
    "CONTEXT_WINDOW": 3_000,
    "RESERVED_TOKENS": 200,
    # The exact one takes a process seconds to load.
    "TOKEN_COUNTER": "tests.builders.WordTokenCounter",
}
FILES = "django.core.cache.backends.filebased.FileBasedCache"
CACHES = {"default": {"BACKEND": FILES, "LOCATION": os.environ["STREAM_CACHE"]}}
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}]


def turn(request, session, extra):
    asked = {"model": "house-model", "tools": TOOLS, "max_tokens": 100, "recall": bool(extra.get("searches"))}
    if extra.get("hostsTools"):
        asked["run_tool"] = run_tool
    if extra.get("pageTools"):
        asked["page_tools"] = extra["pageTools"]
    return asked


def run_tool(call):
    name = call["function"]["name"]
    if name == "broken":
        raise RuntimeError(name)
    time.sleep(2 if name == "slow" else 0)
    return "Rain."


def __getattr__(name):
    """The URLs are made when they are asked for: beside settings nothing of Django's may be loaded."""
    if name != "urlpatterns":
        raise AttributeError(name)
    from django.http import HttpResponse
    from django.middleware.csrf import get_token
    from django.views.static import serve as serve_file

    from compaction_app.api.mounting import api_urls
    from compaction_app.contrib.stream import stream_router

    def page(request, kind, session):
        told = f'data-kind="{kind}" data-session="{session}" data-csrf="{get_token(request)}"'
        return HttpResponse(f'<div id="root" {told}></div><script type="module" src="/bundle/page.js"></script>')

    return [
        path("api/v1/", include((api_urls(extra=[stream_router(turn, at_once=3)]), "compaction_api"))),
        path("bundle/<path:path>", serve_file, {"document_root": f"{os.environ.get('FRONT_ENDS')}/pages"}),
        path("<slug:kind>/<uuid:session>", page),
        # Its page for a token that is missing leads there.
        path("example/", include("project.urls")),
    ]


class ThreadedServer(ThreadingMixIn, WSGIServer):
    daemon_threads = True


def serve(kind: str) -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.contrib.stream_site"
    if kind == "asgi":
        import uvicorn
        from django.core.asgi import get_asgi_application

        uvicorn.run(get_asgi_application(), port=0, lifespan="off")
        return
    from django.core.wsgi import get_wsgi_application

    server = make_server("127.0.0.1", 0, get_wsgi_application(), ThreadedServer, WSGIRequestHandler)
    sys.stderr.write(f"running on http://127.0.0.1:{server.server_port} (WSGI)\n")
    server.serve_forever()


if __name__ == "__main__":
    serve(sys.argv[1])

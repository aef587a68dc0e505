"""The strictest Content-Security-Policy that a host may set: the pages have to work under it."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "object-src 'none'",
    )
)


def strict_policy(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware: nothing inline and nothing from elsewhere, beside what an answer demands of itself."""

    def answer(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        own = response.headers.get("Content-Security-Policy")
        # Of two policies in one header a browser obeys both.
        response.headers["Content-Security-Policy"] = ", ".join(filter(None, (own, CONTENT_SECURITY_POLICY)))
        return response

    return answer

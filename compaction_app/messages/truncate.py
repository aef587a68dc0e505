"""Shortens a text to a number of bytes (head, notice, tail), between characters, or to one line. Pure."""

_ROUND = str.maketrans("[]", "()")


def shorten(text: str, limit: int) -> str:
    """``text`` in at most ``limit`` bytes of UTF-8: head, ``...truncated N bytes...``, tail.

    Text that fits is returned as it is, so shortening is idempotent. Where the limit is too small for the notice, a
    head and three dots are left.
    """
    # A character has at most four bytes, so most texts need not be encoded.
    if len(text) * 4 <= limit:
        return text
    encoded = text.encode("utf-8", "surrogatepass")
    size = len(encoded)
    if size <= limit:
        return text
    room = limit - len(_notice(size))
    if room <= 0:
        dots = "..."[: max(limit, 0)]
        return encoded[: max(limit - len(dots), 0)].decode(errors="ignore") + dots
    # Of a character that is cut nothing is left.
    head = encoded[: room - room // 3].decode(errors="ignore")
    tail = encoded[size - room // 3 :].decode(errors="ignore")
    return head + _notice(size - len(head.encode()) - len(tail.encode())) + tail


def one_line(text: str, limit: int) -> str:
    """White space collapsed; over ``limit`` characters the middle is left out, because a path's ends matter most."""
    line = " ".join(text[: limit * 20].split())
    if len(line) <= limit:
        return line
    tail = limit // 3
    return f"{line[: limit - tail - 1]}…{line[-tail:]}"


def in_brackets(name: str, limit: int = 300) -> str:
    """A name from outside, for a place between square brackets: on one line, and without any of its own."""
    return one_line(name, limit).translate(_ROUND)


def _notice(left_out: int) -> str:
    return f"\n...truncated {left_out} bytes...\n"

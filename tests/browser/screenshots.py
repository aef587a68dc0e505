"""Takes the pictures of the documentation into docs/: ``make screenshots``."""

from tests.browser import conversations
from tests.docs import drawings
from tests.docs.pictures import DOCS, Picture, demo, own_words, pictures, with_words

#: How much of a long page is drawn.
MOST_PIXELS = 6000
#: Pixels around what a picture shows.
MARGIN = 6
#: The lowest place at or above that of the picture's end at which no line of text is cut.
END = """(end) => {
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const lines = [];
    for (const range = document.createRange(); texts.nextNode(); ) {
        range.selectNode(texts.currentNode);
        // The text below a closed summary has a place, too.
        if (texts.currentNode.parentElement.checkVisibility()) lines.push(...range.getClientRects());
    }
    for (let cut = lines; cut.length; end = Math.min(end, ...cut.map(({top}) => top - 1)))
        cut = lines.filter(({top, bottom}) => top < end && end < bottom);
    return end;
}"""


def take(page, picture: Picture) -> None:
    page.goto(picture.address)
    page.wait_for_load_state()
    png = as_seen(page, picture.opened) if picture.opened else clip_of(page, picture)
    picture.file.write_bytes(with_words(png, own_words(page.request.get(picture.address).text(), picture.parts)))


def as_seen(page, opened: str) -> bytes:
    """A window, in which a fold is open and seen from its beginning."""
    fold = page.locator(opened)
    fold.evaluate("(fold) => { fold.open = true; fold.scrollIntoView({block: 'start', behavior: 'instant'}); }")
    return page.screenshot()


def clip_of(page, picture: Picture) -> bytes:
    page.set_viewport_size({**picture.screen, "height": MOST_PIXELS})
    parts = [page.locator(f'[id="{part}"]:not(h2), [aria-labelledby="{part}"]').first for part in picture.parts]
    boxes = [part.bounding_box() for part in parts]
    top, bottom = boxes[0]["y"] - MARGIN, boxes[-1]["y"] + boxes[-1]["height"] + MARGIN
    left = max(boxes[0]["x"] - MARGIN, 0)
    width = min(boxes[0]["width"] + 2 * MARGIN, picture.screen["width"] - left)
    height = page.evaluate(END, min(bottom, top + picture.most_pixels)) - top
    return page.screenshot(clip={"x": left, "y": top, "width": width, "height": height})


def test_pictures_of_the_pages(open_page):
    admin = conversations.superuser()
    with demo(admin) as session:
        for picture in pictures(session):
            take(open_page(admin, viewport=picture.screen), picture)


def test_drawings(db):
    for name, draw in drawings.DRAWN.items():
        (DOCS / f"{name}.svg").write_text(draw())

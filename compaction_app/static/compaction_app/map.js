/* Scrolls the map to the lane of the newest message or fits it to the page, makes it one tab stop in which the arrow keys
   move, and shows below it the description of the mark under the pointer, the finger or the focus. The map works without
   it: its box scrolls, and each mark is a link with that name. */
"use strict";

// A picture that would be smaller than this share of its size cannot be read.
const SMALLEST = 0.6;

function fit(map, box, picture) {
  const width = Number(picture.getAttribute("width"));
  const button = map.querySelector(".compaction-map-zoom button");
  const show = (isFitted) => {
    box.classList.toggle("compaction-map-fitted", isFitted);
    button.setAttribute("aria-pressed", String(isFitted));
    if (!isFitted) box.scrollLeft = Number(picture.dataset.newest) + 14 - box.clientWidth;
  };
  if (width <= box.clientWidth || box.clientWidth === 0) return;
  button.parentElement.hidden = false;
  button.addEventListener("click", () => show(!box.classList.contains("compaction-map-fitted")));
  show(box.clientWidth / width >= SMALLEST);
}

function moveWithArrows(box, picture) {
  const marks = [...picture.querySelectorAll("a")];
  const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
  let here = 0;
  const enter = (next) => {
    marks[here].tabIndex = -1;
    here = next;
    marks[here].tabIndex = 0;
  };
  marks.forEach((mark, at) => {
    mark.tabIndex = at === 0 ? 0 : -1;
    mark.addEventListener("focus", () => enter(at));
  });
  box.addEventListener("keydown", (event) => {
    const last = marks.length - 1;
    // From the box itself, which has the focus before any mark, an arrow key goes to the mark that Tab would go to.
    const step = event.target === box && steps[event.key] ? 0 : steps[event.key] ?? NaN;
    const next = event.key === "Home" ? 0 : event.key === "End" ? last : here + step;
    if (!(next >= 0 && next <= last)) return;
    event.preventDefault();
    enter(next);
    marks[here].focus();
  });
}

document.addEventListener("DOMContentLoaded", () => {
  for (const map of document.querySelectorAll(".compaction-map")) {
    const box = map.querySelector(".compaction-map-box");
    const picture = map.querySelector(".compaction-map-picture");
    if (box && picture) {
      fit(map, box, picture);
      moveWithArrows(box, picture);
    }
    // On a phone the table is shown instead of the picture.
    const table = map.querySelector(".compaction-map-table");
    if (table && box && box.clientWidth === 0) table.open = true;
    const said = map.querySelector(".compaction-map-said");
    if (!said) continue;
    said.hidden = false;
    let tapped = null;
    const markOf = (event) => event.target.closest(".compaction-map-picture a");
    const say = (event) => {
      const mark = markOf(event);
      if (mark) said.textContent = mark.getAttribute("aria-label");
    };
    map.addEventListener("pointerover", say);
    map.addEventListener("focusin", say);
    // A finger cannot point without tapping: the first tap only describes.
    map.addEventListener("click", (event) => {
      const mark = markOf(event);
      if (!mark || event.pointerType !== "touch" || mark === tapped) return;
      event.preventDefault();
      tapped = mark;
      say(event);
    });
  }
});

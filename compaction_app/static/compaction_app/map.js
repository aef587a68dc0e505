/* Scrolls the map to the lane of the newest message, and shows below it the description of the mark under the pointer,
   the finger or the focus. The map works without it: its box scrolls, and each mark is a link with that name. */
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  for (const map of document.querySelectorAll(".compaction-map")) {
    const box = map.querySelector(".compaction-map-box");
    const picture = map.querySelector(".compaction-map-picture");
    if (box && picture) box.scrollLeft = Number(picture.dataset.newest) + 14 - box.clientWidth;
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

/* Says below the map what the mark under the pointer or the focus is. The map works without it: each mark is a
   link with that name. */
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  for (const map of document.querySelectorAll(".compaction-map")) {
    const said = map.querySelector(".compaction-map-said");
    if (!said) continue;
    said.hidden = false;
    const say = (event) => {
      const mark = event.target.closest(".compaction-map-picture a");
      if (mark) said.textContent = mark.getAttribute("aria-label");
    };
    map.addEventListener("pointerover", say);
    map.addEventListener("focusin", say);
  }
});

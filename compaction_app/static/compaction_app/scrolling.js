/* Marks boxes that scroll sideways with where there is more of them, so that the style sheet can fade that edge. Without
   it they scroll all the same. */
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const boxes = document.querySelectorAll(".compaction-scroll, .compaction-map-box");
  const look = (box) => {
    // Below 0 where the page runs from right to left, and half a pixel off where it is zoomed.
    const before = Math.abs(box.scrollLeft), after = box.scrollWidth - box.clientWidth - before;
    box.classList.toggle("compaction-more-before", before > 1);
    box.classList.toggle("compaction-more-after", after > 1);
  };
  const sizes = new ResizeObserver((entries) => entries.forEach((entry) => look(entry.target)));
  for (const box of boxes) {
    box.addEventListener("scroll", () => look(box), { passive: true });
    sizes.observe(box);
  }
});

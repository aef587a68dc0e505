/* Marks boxes that scroll sideways with the sides where there is more, so that the style sheet can fade that edge. They
   scroll without it as well. */
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const boxes = document.querySelectorAll(".compaction-scroll, .app-compaction_app #changelist .results");
  const look = (box) => {
    // Negative on a right-to-left page, and half a pixel off on a zoomed one.
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

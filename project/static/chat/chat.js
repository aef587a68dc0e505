// The page works without this. It shows that a reply is awaited, sends with Ctrl+Enter, prevents a second click from
// posting twice, and follows an open compaction.
"use strict";

const POLL_MILLISECONDS = 2000;
// A page left open overnight stops polling.
const POLLS = 150;

function announceNotices() {
  // Screen readers announce changes of a live region, not its content when the page loads.
  const notices = document.getElementById("notices").textContent.trim();
  if (notices) {
    setTimeout(() => {
      document.getElementById("announced").textContent = notices;
    }, 200);
  }
}

function waitForReply(form) {
  form.addEventListener("submit", (event) => {
    if (form.dataset.sent) {
      event.preventDefault();
      return;
    }
    form.dataset.sent = "yes";
    for (const button of form.querySelectorAll("button")) button.disabled = true;
    const waiting = form.querySelector(".waiting") || document.querySelector(".composer .waiting");
    if (waiting) {
      waiting.hidden = false;
      waiting.textContent = "Waiting for the reply…";
    }
  });
}

function wakeForms() {
  // The browser's "back" shows the page as it was left, with its buttons disabled.
  for (const form of document.querySelectorAll("form[data-waits]")) {
    delete form.dataset.sent;
    for (const button of form.querySelectorAll("button")) button.disabled = false;
    const waiting = form.querySelector(".waiting");
    if (waiting) waiting.hidden = true;
  }
}

function sendWithKeys(event) {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.matches("textarea")) {
    event.preventDefault();
    event.target.form.requestSubmit();
  }
}

async function followCompaction(panel, left) {
  if (!panel.querySelector("[data-open]") || left === 0) return;
  await new Promise((done) => setTimeout(done, POLL_MILLISECONDS));
  // A redirect leads to the sign-in page: then there is nothing to show any more.
  const answer = await fetch(panel.dataset.url, { redirect: "error" }).catch(() => null);
  if (answer === null || !answer.ok) return;
  panel.innerHTML = await answer.text();
  if (panel.querySelector("[data-open]")) {
    await followCompaction(panel, left - 1);
    return;
  }
  const notice = document.createElement("p");
  notice.className = "notice";
  notice.textContent = "Compaction finished. ";
  const link = document.createElement("a");
  link.href = window.location.pathname;
  link.textContent = "Reload the conversation";
  notice.append(link);
  document.getElementById("notices").append(notice);
}

announceNotices();
document.querySelectorAll("form[data-waits]").forEach(waitForReply);
document.addEventListener("keydown", sendWithKeys);
window.addEventListener("pageshow", wakeForms);
const panel = document.getElementById("panel");
if (panel) followCompaction(panel, POLLS);

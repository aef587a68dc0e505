// The page works without this. With it a reply is seen while it is written, and edits, variants and summaries come
// without a new page: the server renders every page, and this puts the new one in the place of the old.

import { read, rendered, stop, words } from "./stream.js";

const POLL_MILLISECONDS = 2000;
// A page left open overnight stops asking.
const POLLS = 150;
const SLICE_MILLISECONDS = 5;
const PAGES = { Accept: "text/html" };

const find = (selector, root = document) => root.querySelector(selector);
const wait = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
let busy = false;
// Rises with every page that is shown: what was begun for an older one stops.
let shown = 0;
const addressed = () => location.pathname + location.search;
let here = addressed();

// What needs the site says so where it is not reached.
async function reached(work) {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    notice(words.unreachable);
  }
}

// -- Pages -------------------------------------------------------------------------------------------------

async function load(address) {
  // A redirect may lead to the sign-in page; a page without a message box is followed by the browser itself.
  const answer = await fetch(address, { headers: PAGES });
  const page = parsed(await answer.text());
  // To read a page, to decorate it and to show it are three tasks: on a slow device each is short.
  await wait(0);
  decorate(page);
  await wait(0);
  return { page, ok: answer.ok };
}

function parsed(text) {
  return new DOMParser().parseFromString(text, "text/html");
}

// Make a part of this page like that of another one. What is the same is not touched: it keeps its place, its focus and
// what was typed, and costs nothing.
function patch(old, fresh) {
  // An edit that is not sent yet stays open.
  if (old.isEqualNode(fresh) || old.hasAttribute("data-kept")) return;
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  let at = old.firstChild;
  for (const next of [...fresh.childNodes]) {
    const isElement = next.nodeType === Node.ELEMENT_NODE;
    let same = at;
    // White space is no reason to drop what stands before the next one.
    while (same && (same.nodeName !== next.nodeName || (same.id && same.id !== next.id)))
      same = isElement ? same.nextSibling : null;
    if (!same) {
      old.insertBefore(next, at);
      continue;
    }
    while (at !== same) at = dropped(at);
    if (isElement) patch(same, next);
    else if (same.data !== next.data) same.data = next.data;
    at = same.nextSibling;
  }
  while (at) at = dropped(at);
}

function dropped(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

// Put a page in the place of this one. `at`: an element of it whose place on the screen stays, [selector, from the top].
// `focus`: selectors of what takes the place of what had the focus; the first that is there gets it.
function show(page, address, { push = false, at = null, focus = [] } = {}) {
  const { hash, href } = new URL(address, location.href);
  if (!find("#page", page) || !find("#side", page)) {
    location.assign(address);
    return;
  }
  shown += 1;
  const held = document.activeElement?.closest("article[id]");
  const edit = find("form.edit", page) ? null : find("form.edit:not([data-over])")?.closest("article");
  edit?.setAttribute("data-kept", "");
  const form = find("[data-draft]")?.action;
  for (const open of document.querySelectorAll("#page :popover-open")) open.hidePopover();
  patch(find("#page"), find("#page", page));
  const sought = find("[data-search] [name=q]");
  // What was found stays, and is looked for again.
  if (sought?.value) search(sought);
  else patch(find("#sessions"), find("#sessions", page));
  edit?.removeAttribute("data-kept");
  if (edit) find("textarea", edit).removeAttribute("autofocus");
  find("#about form")?.reset();
  // A model is chosen for one conversation.
  const models = form === find("[data-draft]")?.action ? [] : document.querySelectorAll(".row option");
  for (const one of models) one.selected = one.defaultSelected;
  document.title = page.title;
  if (href !== location.href) history[push ? "pushState" : "replaceState"]({}, "", address);
  here = addressed();
  const typed = [...document.querySelectorAll("#page details textarea")].filter((one) => one.value !== one.defaultValue);
  for (const fold of document.querySelectorAll("#page details")) if (typed.some((one) => fold.contains(one))) fold.open = true;
  begin();
  const kept = at && find(at[0]);
  if (kept) scrollBy({ top: kept.getBoundingClientRect().top - at[1], behavior: "instant" });
  else if (hash) document.getElementById(hash.slice(1))?.scrollIntoView({ block: "nearest", behavior: "instant" });
  // The place of an article may be such that its box for an edit begins behind the page's head.
  find("form.edit textarea[autofocus]")?.scrollIntoView({ block: "nearest", behavior: "instant" });
  if (held && document.activeElement === document.body) focus.push(`#${held.id}`);
  const there = focus.map((one) => find(one)).filter(Boolean);
  const next = there.find(isInView) ?? there[0];
  (find("[autofocus]") ?? next)?.focus({ preventScroll: true });
}

function isInView(element) {
  const { top, bottom } = element.getBoundingClientRect();
  const composer = find(".composer");
  const end = composer?.contains(element) ? innerHeight : (composer?.getBoundingClientRect().top ?? innerHeight);
  return top > 0 && bottom <= end;
}

const isAtEnd = () => document.documentElement.scrollHeight - innerHeight - scrollY < 80;
const tipHere = () => find("[data-draft] [name=parent]")?.value;
const scrollToEnd = () => scrollTo({ top: document.documentElement.scrollHeight, behavior: "instant" });
const placeOf = (element, selector) => [selector ?? `#${element.id}`, element.getBoundingClientRect().top];

// The first message that is seen, which stays where it is while others change. `reply`: where a reply that is still
// coming will be.
function seen(reply) {
  const article = [...document.querySelectorAll("article")].find((one) => one.getBoundingClientRect().bottom > 80);
  return article ? placeOf(article, article.id ? undefined : reply) : null;
}

async function follow(link) {
  const article = link.closest("article");
  const target = new URL(link.href).hash;
  const isMessage = /^#m\d+$/.test(target);
  const place = article && placeOf(article, isMessage ? target : undefined);
  const loaded = await reached(load(link.href));
  if (!loaded) return;
  link.closest("form.edit")?.setAttribute("data-over", "");
  const focus = isMessage ? [`${target} [rel=${link.rel || "edit"}]`, `${target} .variants a`, target] : [];
  show(loaded.page, link.href, { push: true, at: place, focus });
}

// -- A turn ------------------------------------------------------------------------------------------------

function notice(text, kind = "error") {
  const line = document.createElement("p");
  line.className = `notice ${kind}`;
  if (kind === "error") line.setAttribute("role", "alert");
  line.textContent = text;
  line.append(closer());
  const wasAtEnd = isAtEnd();
  find("#notices").replaceChildren(line);
  if (wasAtEnd) scrollToEnd();
}

function closer() {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "link close";
  button.setAttribute("aria-label", words.close);
  return button;
}

// Press a button that changes something: a turn, or a pin, an undo, another title.
async function take(form, pressed) {
  if (busy) {
    notice(words.busy, "info");
    return;
  }
  busy = true;
  const body = new FormData(form, pressed);
  for (const button of form.querySelectorAll("button")) button.disabled = true;
  await reached(post(form, body)).finally(() => {
    busy = false;
    for (const button of form.querySelectorAll("button")) button.disabled = false;
  });
}

async function post(form, body) {
  const isDraft = form.matches("[data-draft]");
  const article = form.closest("article");
  const answer = await fetch(form.action, { method: "POST", body, headers: { Accept: "application/json" } });
  const text = await answer.text();
  const isAsked = answer.headers.get("Content-Type")?.startsWith("application/json");
  const answered = parsed(isAsked ? "" : text);
  const isPage = find("#side", answered);
  // A page that says what went wrong; what is here stays.
  if (!answer.ok && !isPage) {
    notice(find("main .narrow p", answered)?.textContent ?? words.internal);
    return;
  }
  // Where one has to sign in again, the draft is for afterwards.
  if (isDraft && answer.ok && (isAsked || isPage)) clearDraft(form);
  form.dataset.over = "";
  if (!isAsked) {
    decorate(answered);
    const [wasAtEnd, tip] = [isAtEnd(), tipHere()];
    const place = isDraft ? null : article ? placeOf(article) : seen();
    // The button was off meanwhile, or is gone: the focus goes where it led.
    const popover = form.closest("[popover]")?.id;
    const opener = popover ? `[popovertarget=${popover}]` : "#cutoff summary";
    const focus = [...(article ? [`#${article.id} .more > summary`, `#${article.id}`] : [opener]), "[data-draft] textarea"];
    const isLost = document.activeElement === document.body && hasKeys();
    const then = { push: answer.redirected, at: place, focus: isLost ? focus : [] };
    show(answered, answer.redirected ? answer.url : location.href, then);
    if (isDraft ? wasAtEnd : tip !== tipHere() || (place && !find(place[0]))) scrollToEnd();
    const list = find("#compactions-heading");
    if (isDraft) list?.scrollIntoView({ behavior: "instant" });
    if (isDraft) list?.focus({ preventScroll: true });
    return;
  }
  const asked = JSON.parse(text);
  const { page } = await load(asked.page);
  // An edited message stands where the one before it stood; above a reply that is asked for again nothing moves.
  const edited = article?.matches(".user") ? placeOf(article, `#m${asked.message}`) : null;
  const focus = edited ? [edited[0]] : isDraft && hasKeys() ? ["[data-draft] textarea"] : [];
  show(page, asked.page, { push: true, at: edited ?? (article && seen()), focus });
  await wait(0);
  await stream(asked);
}

// Put the paragraphs, lists and tables of a reply that grows into an element; what is the same is not touched. A few
// at a time, since each is a page to be read: on a slow device no task is long.
async function put(element, blocks, before) {
  const atStart = shown;
  let begun = performance.now();
  for (const [at, html] of blocks.entries()) {
    if (html === before[at]) continue;
    if (performance.now() - begun > SLICE_MILLISECONDS) {
      await wait(0);
      // The whole of it is here by now.
      if (atStart !== shown) return;
      begun = performance.now();
    }
    const page = parsed(html);
    decorate(page);
    const fresh = page.body.firstElementChild ?? document.createElement("p");
    if (element.children[at]) element.children[at].replaceWith(fresh);
    else element.append(fresh, "\n");
  }
  while (element.children.length > blocks.length) element.lastElementChild.remove();
}

// Show a reply as it comes below the message that it answers, then the page with the whole of it.
// False where there is none to be had.
async function stream({ message, page, resume = false }) {
  const question = find(`#m${message}`);
  const atStart = shown;
  const section = find(".messages");
  while (question?.nextElementSibling && !resume) question.nextElementSibling.remove();
  const bubble = document.createElement("article");
  bubble.className = "message assistant streaming";
  bubble.setAttribute("aria-busy", "true");
  bubble.tabIndex = -1;
  const by = document.createElement("header");
  by.className = "by speaker";
  by.textContent = find(".row select")?.value ?? find(".row > .quiet").textContent;
  const content = document.createElement("div");
  content.className = "text markdown";
  content.dir = "auto";
  let said = "";
  let drawn = "";
  let blocks = [];
  let drawing = null;
  let end;
  const ended = new Promise((done) => (end = done));
  // As the page will have it, by the same code. One request at a time; the longer the reply, the fewer.
  const drawAll = async () => {
    while (drawn !== said && atStart === shown) {
      drawn = said;
      const fresh = await rendered(drawn).catch(() => null);
      if (fresh && atStart === shown) await put(content, fresh, blocks);
      blocks = fresh ?? blocks;
      if (follows) scrollToEnd();
      await Promise.race([wait(100 + drawn.length / 50), ended]);
    }
    drawing = null;
  };
  const draw = () => (drawing ??= drawAll());
  bubble.append(by, content);
  section.append(bubble);
  const [send, halt] = [find(".composer .send"), find(".composer .stop")];
  send.hidden = true;
  halt.hidden = false;
  halt.onclick = () => {
    halt.disabled = true;
    // The button goes, and the focus with it.
    focusBox();
    reached(stop(message)).finally(() => {
      halt.disabled = false;
    });
  };
  if (!resume && document.activeElement === document.body) bubble.focus({ preventScroll: true });
  let follows = true;
  const onScroll = () => {
    follows = isAtEnd();
  };
  addEventListener("scroll", onScroll, { passive: true });
  scrollToEnd();
  let problem = "";
  for await (const part of read({ message, resume })) {
    if (atStart !== shown) break;
    if (part.nothing) {
      bubble.remove();
      [send.hidden, halt.hidden] = [false, true];
      return false;
    }
    if (part.text) {
      if (!said) find("[data-answering]")?.remove();
      said += part.text;
      draw();
    }
    if (part.problem) problem = part.problem;
    if (part.compaction?.dropped) {
      const line = document.createElement("p");
      line.textContent = words.left_out;
      find("#state").replaceChildren(line);
    }
  }
  removeEventListener("scroll", onScroll);
  // The rest is drawn before the page comes: in one task it takes long on a slow device.
  end();
  await draw();
  // Another page is shown by now, and the reply is stored all the same.
  if (atStart !== shown) return true;
  const whole = await load(page).catch(() => null);
  if (!whole) {
    // It is loaded when the site is reached again.
    [send.hidden, halt.hidden] = [false, true];
    bubble.removeAttribute("aria-busy");
    notice(problem || words.broken);
    return true;
  }
  const reply = `#m${message} ~ article`;
  show(whole.page, page, { at: seen(reply), focus: document.activeElement === bubble ? [reply, `#m${message}`] : [] });
  if (problem && said && !find(reply)) {
    // What was read already stays to be read.
    bubble.removeAttribute("aria-busy");
    bubble.classList.replace("streaming", "lost");
    by.append(` · ${words.lost}`);
    find(`#m${message}`)?.after(bubble);
  }
  // A message that is too long is told of by the page itself.
  if (problem && problem !== find("#state .bad")?.textContent) notice(problem);
  if (!problem) {
    find("#announced").textContent = find(`${reply} .stopped`) ? words.stopped : words.complete;
  }
  if (follows) scrollToEnd();
  return true;
}

// -- Compaction --------------------------------------------------------------------------------------------

// Follow a compaction until it is over, and a reply that another page has asked for.
async function watch() {
  const atStart = shown;
  for (let left = POLLS; left && find("[data-open], [data-answering]"); left -= 1) {
    await wait(POLL_MILLISECONDS);
    if (atStart !== shown) return;
    if (busy || document.hidden) continue;
    const answer = await load(location.href).catch(() => null);
    if (atStart !== shown || busy) return;
    if (!answer?.ok) continue;
    const { page } = answer;
    if (find("[data-open], [data-answering]", page)) {
      for (const part of ["#state", "#gauge"]) find(part)?.replaceWith(find(part, page));
    } else if (!find("form.edit")) {
      const wasAtEnd = isAtEnd();
      show(page, location.href, { at: seen() });
      if (wasAtEnd) scrollToEnd();
      const said = find("#state").textContent.trim();
      find("#announced").textContent = said || words.summarized;
      if (!said) notice(words.summarized, "info");
      return;
    }
  }
}

// -- Drafts and files --------------------------------------------------------------------------------------

// Under their user's id: the next one who signs in here has drafts of their own.
const draftKey = (form) => `draft ${form.dataset.draft} ${form.getAttribute("action")}`;

function forgetDrafts(user) {
  for (const key of Object.keys(localStorage)) if (key.startsWith(`draft ${user} `)) localStorage.removeItem(key);
}

function clearDraft(form) {
  localStorage.removeItem(draftKey(form));
  find("textarea", form).value = "";
  find("[type=file]", form).value = "";
}

function fits(files, form) {
  if ([...files].reduce((sum, file) => sum + file.size, 0) <= words.most) return true;
  notice(words.files);
  listFiles(form);
  return false;
}

function addFiles(form, added) {
  const input = find("[type=file]", form);
  const all = new DataTransfer();
  for (const file of [...input.files, ...added]) all.items.add(file);
  if (fits(all.files, form)) input.files = all.files;
  listFiles(form);
}

// Drawn, and not linked: the page's policy allows no pictures but the site's.
async function showPicture(file, item) {
  const picture = await createImageBitmap(file, { resizeHeight: 96 }).catch(() => null);
  if (!picture) return;
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [picture.width, picture.height];
  canvas.getContext("2d").drawImage(picture, 0, 0);
  item.prepend(canvas);
}

function sizeOf(file) {
  const [unit, size] = file.size < 1e6 ? ["kilobyte", Math.ceil(file.size / 1e3)] : ["megabyte", file.size / 1e6];
  const digits = { style: "unit", unit, maximumFractionDigits: 1 };
  return new Intl.NumberFormat(document.documentElement.lang, digits).format(size);
}

function listFiles(form) {
  const input = find("[type=file]", form);
  const list = find(".chosen", form);
  const wasAtEnd = isAtEnd();
  list.hidden = !input.files.length;
  list.replaceChildren(
    ...[...input.files].map((file) => {
      const item = document.createElement("li");
      const name = document.createElement("bdi");
      name.textContent = file.name;
      const size = document.createElement("span");
      size.className = "quiet";
      size.textContent = sizeOf(file);
      const remove = document.createElement("button");
      remove.type = "button";
      remove.className = "link";
      remove.textContent = "×";
      remove.setAttribute("aria-label", words.remove.replace("{name}", file.name));
      remove.onclick = () => {
        const rest = new DataTransfer();
        for (const other of input.files) if (other !== file) rest.items.add(other);
        input.files = rest.files;
        listFiles(form);
        focusBox();
      };
      item.append(name, size, remove);
      if (file.type.startsWith("image/")) showPicture(file, item);
      return item;
    }),
  );
  if (wasAtEnd && !list.hidden) scrollToEnd();
}

// -- What happens on the page ------------------------------------------------------------------------------

async function copy(button, text) {
  // The text may still be on its way: browsers want to know at the click that something is copied.
  const isCopied = await navigator.clipboard.write([new ClipboardItem({ "text/plain": text })]).then(
    () => true,
    () => false,
  );
  if (!isCopied) return;
  button.firstChild.textContent = find("#announced").textContent = words.copied;
  await wait(1500);
  button.firstChild.textContent = words.copy;
}

const plain = (text) => new Blob([text], { type: "text/plain" });

document.addEventListener("click", (event) => {
  for (const open of document.querySelectorAll(".more[open]")) if (!open.contains(event.target)) open.open = false;
  const link = event.target.closest("a[data-swap]");
  if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey && !busy) {
    event.preventDefault();
    follow(link);
  }
  const button = event.target.closest("[data-copy]");
  if (button) {
    const text = fetch(button.dataset.copy).then((answer) => answer.text());
    reached(text);
    copy(button, text.then(plain));
  }
  if (event.target.closest(".notice .close")) {
    find("#notices").replaceChildren();
    focusBox();
  }
  const code = event.target.closest(".copy-code");
  if (code) copy(code, plain(find("code", code.parentElement).textContent));
});

document.addEventListener("focusout", (event) => {
  const more = event.target.closest(".more[open]");
  if (more && event.relatedTarget && !more.contains(event.relatedTarget)) more.open = false;
});

document.addEventListener("submit", (event) => {
  // The list is there as one types, and on a phone a new page would close it.
  if (event.target.matches("form[data-search]")) {
    event.preventDefault();
    find("#sessions a")?.focus();
  }
  if (event.target.matches("form[data-sign-out]")) forgetDrafts(event.target.dataset.signOut);
  if (!event.target.matches("#side ~ #page form[method=post]")) return;
  event.preventDefault();
  take(event.target, event.submitter);
});

const hasKeys = () => matchMedia("(hover: hover)").matches;

function focusBox() {
  if (hasKeys()) find("[data-draft] textarea").focus({ preventScroll: true });
}

document.addEventListener("keydown", (event) => {
  const more = event.key === "Escape" && event.target.closest(".more[open]");
  if (more) {
    more.open = false;
    find("summary", more).focus();
  }
  const edited = event.target.closest("form.edit textarea");
  // What was typed is not dropped by a key.
  if (event.key === "Escape" && !event.isComposing && edited?.value === edited?.defaultValue)
    event.target.closest("form.edit")?.querySelector("a").click();
  // With a finger there is a button for sending, and no other key for a new line. An input method ends words by Enter.
  const sends = hasKeys() ? !event.shiftKey : event.ctrlKey || event.metaKey;
  if (event.key !== "Enter" || !sends || event.isComposing || !event.target.matches("[data-turn] textarea")) return;
  if (event.target.name !== "content") return;
  event.preventDefault();
  event.target.form.requestSubmit();
});

document.addEventListener("input", (event) => {
  const form = event.target.closest("[data-draft]");
  if (form && event.target.name === "content") localStorage.setItem(draftKey(form), event.target.value);
  if (event.target.closest("[data-search]")) search(event.target);
});

// What another tab has sent is no draft here.
addEventListener("storage", ({ key, oldValue, newValue }) => {
  const form = find("[data-draft]");
  const box = form && find("textarea", form);
  if (box && key === draftKey(form) && newValue === null && box.value === oldValue) box.value = "";
});

document.addEventListener("change", (event) => {
  const form = event.target.closest("[data-draft]");
  if (form && event.target.type === "file") {
    if (!fits(event.target.files, form)) event.target.value = "";
    listFiles(form);
  }
});

document.addEventListener("paste", (event) => {
  const form = event.target.closest?.("[data-draft]");
  if (!form || !event.clipboardData.files.length) return;
  event.preventDefault();
  addFiles(form, event.clipboardData.files);
});

document.addEventListener("dragover", (event) => {
  if (event.dataTransfer.types.includes("Files") && find("[data-draft]")) event.preventDefault();
});

document.addEventListener("drop", (event) => {
  const form = find("[data-draft]");
  if (!form || !event.dataTransfer.files.length) return;
  event.preventDefault();
  addFiles(form, event.dataTransfer.files);
});

let searched = 0;
async function search(box) {
  const mine = (searched += 1);
  await wait(250);
  if (mine !== searched) return;
  const address = `${location.pathname}?q=${encodeURIComponent(box.value)}`;
  const found = await load(address).catch(() => null);
  if (found?.ok && mine === searched) find("#sessions").replaceWith(find("#sessions", found.page));
}

addEventListener("popstate", async () => {
  if (addressed() === here) return;
  const loaded = await reached(load(location.href));
  if (loaded) show(loaded.page, location.href);
});

// Another tab may have gone on, or the site is reached again.
for (const [target, event] of [[document, "visibilitychange"], [window, "online"]]) target.addEventListener(event, refresh);
async function refresh() {
  if (document.hidden || busy || find("form.edit") || !find("#state")) return;
  const atStart = shown;
  const loaded = await load(location.href).catch(() => null);
  if (loaded?.ok && atStart === shown && !busy && !find("form.edit")) show(loaded.page, location.href, { at: seen() });
}

// Buttons that need a script.
function decorate(page) {
  for (const line of page.querySelectorAll(".notice")) line.append(closer());
  if (!navigator.clipboard) return;
  for (const button of page.querySelectorAll("[data-copy]")) button.hidden = false;
  for (const block of page.querySelectorAll("pre")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "link copy-code";
    button.textContent = words.copy;
    const frame = document.createElement("div");
    frame.className = "frame";
    block.replaceWith(frame);
    frame.append(block, button);
  }
}

function begin() {
  const form = find("[data-draft]");
  const box = form && find("textarea", form);
  if (box && !box.value) box.value = localStorage.getItem(draftKey(form)) ?? "";
  if (form) listFiles(form);
  const edited = find("form.edit textarea");
  edited?.setSelectionRange(edited.value.length, edited.value.length);
  const answering = find("[data-answering]");
  if (answering && !busy) resume(answering.dataset.answering);
  else watch();
}

async function resume(message) {
  busy = true;
  const isHere = await stream({ message, page: location.href, resume: true }).finally(() => {
    busy = false;
  });
  // Another process has it, and it is here when it is whole.
  if (!isHere) watch();
}

decorate(document);
begin();
if (!location.hash) find("#compactions, #latest")?.scrollIntoView();

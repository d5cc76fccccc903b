"use strict";

const on = (names, act) => names.split(" ").forEach((name) => document.addEventListener(name, act));
const byId = (id) => document.getElementById(id);
const every = (selector, inside = document) => [...inside.querySelectorAll(selector)];

// The row in hand
let last;
const focused = () => document.activeElement;
const rowOf = (element) => element?.closest?.(".row[id]");
const marked = () => rowOf(every(".row-link[aria-current]")[0]);
const current = () => rowOf(focused()) ?? marked() ?? byId(last);
const focusRow = (row) => {
  const link = row?.querySelector(".row-link");
  (link?.checkVisibility() ? link : byId("pull-title"))?.focus();
};
on("focusin", ({ target }) => (last = rowOf(target)?.id ?? last));

const choose = (row) => {
  for (const one of every(".row-link[aria-current]")) one.removeAttribute("aria-current");
  row?.querySelector(".row-link").setAttribute("aria-current", "true");
};
const changes = ":is(.pull form:not(.looking), .offer)";
// A sent form keeps its place until its answer.
on("htmx:beforeRequest", (event) => {
  const { elt } = event.detail;
  if (elt.matches(changes)) htmx.trigger("#open", "htmx:abort");
  if (!elt.matches(".row-link")) return;
  if (every(`${changes}.htmx-request`)[0]) {
    event.preventDefault();
    awaited = "";
  } else choose(rowOf(elt));
});
on("htmx:afterSwap", ({ detail: { target, requestConfig: { elt } = {} } }) => {
  const row = byId(every("#open .pull")[0]?.dataset.row);
  if (!elt || target.id !== "open" && !elt.matches(target.id === row?.id ? ".slot" : ".offer")) return;
  choose(row);
  const key = awaited;
  if (key) setTimeout(() => {
    awaited = "";
    document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  });
  if (elt.id === "first") return; // a page that opens moves no focus
  row?.scrollIntoView({ block: "nearest" });
  const at = focused();
  if (rowOf(at) || at === document.body || !at.checkVisibility()) focusRow(row);
  if (!row?.checkVisibility()) scrollTo(0, 0);
});
on("htmx:afterRequest", ({ detail: { elt, successful } }) => {
  if (elt.id === "first" && !successful) {
    elt.textContent = byId("problem").dataset.failed;
    elt.id = "";
  }
  setTimeout(() => opening() || (awaited = ""));
});
// An undo that is pressed before the answer takes back what was sent, and nothing older.
let older;
const offered = () => every("#offers [name=key]")[0]?.value ?? "";
on("htmx:afterSettle htmx:afterRequest", ({ type, detail: { requestConfig, successful } }) => {
  if (!requestConfig?.elt.matches(changes) || successful && type === "htmx:afterRequest") return;
  if ((older ?? offered()) !== offered()) every("#offers [data-key]")[0]?.click();
  older = undefined;
});

// What is typed stays until it is sent.
const forget = (form) => every("[data-draft]", form).forEach(({ dataset }) => delete drafts[dataset.draft]);
on("input", ({ target: { dataset, value } }) => dataset.draft && (drafts[dataset.draft] = value));
on("submit", ({ target }) => target.hasAttribute("hx-post") || forget(target));
on("htmx:beforeSwap", ({ detail: { xhr, requestConfig } }) => xhr.status < 300 && forget(requestConfig.elt));

const ready = () => {
  for (const field of every("[data-draft]")) {
    const { value, dataset: { draft } } = field;
    const text = drafts[draft] ?? "";
    if (text !== value) drafts[draft] = field.value = text.includes(value) ? text : `${text}\n${value}`.trim();
  }
  for (const one of every("[data-script]")) one.hidden = false;
  byId("theme").lastElementChild.textContent = root.dataset.theme;
  byId("keys-on").checked = root.dataset.keys === "on";
  for (const offer of every("[data-left]")) {
    offer.ends ??= Date.now() + +offer.dataset.left;
    const left = offer.ends - Date.now();
    if (left > 0) setTimeout(ready, left + 50);
    else {
      if (offer.contains(focused())) focusRow(rowOf(offer));
      offer.remove();
    }
  }
  byId("offers").hidden = !byId("offers").children[0];
  if (byId("first") && !marked()) choose(byId(byId("first").dataset.row));
};
on("htmx:historyRestore htmx:afterSettle", ready);
ready();

const closeMenu = (clicked) => {
  const menu = every(".menu[open]")[0];
  if (!menu || menu.contains(clicked)) return;
  menu.open = false;
  if (!clicked) menu.firstElementChild.focus();
  return true;
};
const themes = { system: "light", light: "dark", dark: "system" };
on("click", (event) => {
  const { target, detail } = event;
  closeMenu(target);
  // A second click presses nothing new.
  if (detail > 1 && target.closest("form button")) event.preventDefault();
  const { copy } = target.dataset;
  if (copy) {
    const around = target.parentNode;
    around.open = true; // what is folded cannot be selected
    byId(copy).select();
    if (document.execCommand("copy")) target.textContent = "Copied";
    target.focus();
  }
  if (target.closest("#theme")) kept.theme = root.dataset.theme = themes[root.dataset.theme];
  const said = target.closest(".say > summary")?.nextElementSibling.querySelector("textarea, button");
  setTimeout(() => said?.focus());
  const { hash } = target.closest(".parts a") ?? {};
  if (hash) { // Back leaves the pull request
    const { state } = history;
    event.preventDefault();
    location.replace(hash);
    history.replaceState(state, "");
  }
  if (target.id === "help") byId("keys").showModal();
  if (target.id === "keys-on") kept.keys = root.dataset.keys = target.checked ? "on" : "off";
  ready();
});

// A key clicks its button, in the row in hand first.
let before;
let awaited = ""; // pressed before its pane is there, which is when it acts
const opening = () => every(":is(.row-link, .offer).htmx-request, #first").some((one) => one.checkVisibility());
const steps = { n: [".finding", 1], p: [".finding", -1], "]": [".kept > summary", 1], "[": [".kept > summary", -1] };
const stepped = (key) => {
  const [what, step] = steps[key];
  const found = [".flag", ".review", ":not(.flag, .review)"].flatMap((tone) => every(`#open .what-side ${what}${tone}`)).filter((one) => one.checkVisibility());
  const next = found[found.indexOf(focused()) + step] ?? found.at(step > 0 ? 0 : -1);
  if (next) next.tabIndex = -1;
  return next;
};
const keyed = (key) => {
  const row = current();
  if (key === "j" || key === "k") {
    const rows = every(".row[id]");
    return rows[row ? rows.indexOf(row) + (key === "j" ? 1 : -1) : 0]?.querySelector(".row-link");
  }
  if (key in steps && byId("open")) return opening() ? undefined : stepped(key);
  const found = every(`[data-key~="${CSS.escape(key)}"]`).filter((one) => key.length === 2 || one.checkVisibility());
  const wanted = found.find((one) => row?.contains(one)) ?? found.find((one) => !rowOf(one));
  const pull = wanted?.closest(".pull");
  if (!row || !pull || pull.dataset.row === row.id) return wanted;
  awaited = key; // its own pane first
  return row.querySelector(".row-link");
};
on("keydown", (event) => {
  const { key, target } = event;
  const leaves = key === "Escape";
  const held = event.ctrlKey || event.metaKey;
  const types = target.matches("input:not([type=checkbox]), textarea, select");
  if (key === "Enter" && held && !event.repeat && target.matches(".say textarea")) target.form.querySelector("button").click();
  if (byId("keys").open || leaves && every(":popover-open")[0] || held || event.altKey || event.isComposing) return;
  if (leaves && target.type === "search" && target.value) {
    target.value = "";
    target.form.requestSubmit();
  }
  const say = every(".say[open]")[0];
  if (leaves && say) say.open = false;
  if (leaves && (closeMenu() || types || say)) return (types || say) && (target.blur(), focusRow(current()));
  if (types || root.dataset.keys === "off" || (event.repeat && !"jk".includes(key))) return;
  if (key === "u" && every(`${changes}.htmx-request`)[0]) older = offered();
  if (older !== undefined || awaited && "cru".includes(awaited)) return; // its text, or a slip
  if (key.length < 2) awaited = "";
  const name = before === "g" ? `g${key}` : key;
  const wanted = keyed(name);
  before = key;
  if (!wanted && key.length < 2 && opening()) awaited = key;
  if (!wanted) return leaves && focusRow(current());
  event.preventDefault();
  const isUnseen = !event.isTrusted && wanted.matches("button[value=approve]");
  const why = isUnseen ? byId("problem").dataset.unseen : wanted.dataset.why;
  warn(why);
  if (why) return;
  const moves = "jk".includes(name);
  const looks = name === "/" || name in steps && byId("open");
  if (moves || looks) wanted.focus();
  if (say?.firstChild === wanted) say.open = false;
  if (moves ? byId("open") && wanted.checkVisibility() : !looks) wanted.click();
});

let warned = 0;
const warn = (words) => {
  if (words) warned = performance.now();
  Object.assign(byId("problem"), { hidden: !words, textContent: words });
};

on("htmx:sendError htmx:timeout htmx:responseError htmx:afterOnLoad", ({ detail: { elt, successful, xhr, requestConfig } }) => {
  if (!requestConfig.triggeringEvent) return;
  const { dataset } = byId("problem");
  if (successful && requestConfig.triggeringEvent.timeStamp < warned) return;
  warn(successful ? "" : dataset[xhr.status] ?? dataset.failed);
  if (!successful && elt.matches(".row form")) focusRow(rowOf(elt));
});

// New rows are announced; nothing moves.
let state = byId("freshness")?.dataset.state;
let arrived;
const ask = async (address) => {
  const answer = await fetch(address, { cache: "no-cache", headers: { "HX-Request": "true" } }).catch(() => null);
  const found = answer?.ok && !answer.headers.has("HX-Redirect");
  return new DOMParser().parseFromString(found ? await answer.text() : "", "text/html");
};
const parts = ".row-text > p, .figure";
const compare = (fresh) => {
  const rows = every(".row[id]", fresh);
  const added = rows.filter(({ id }) => !byId(id));
  const changed = rows.filter(({ id, dataset }) => byId(id) && byId(id).dataset.mark !== dataset.mark);
  const gone = every(".row[id]").filter(({ id }) => !fresh.getElementById(id));
  const counts = Object.entries({ new: added, changed, gone }).filter(([, found]) => found.length);
  const words = counts.map(([name, found]) => `${found.length} ${name}`).join(", ");
  arrived = added[0]?.id;
  for (const row of changed) row.remove();
  for (const one of every(parts, fresh)) {
    const shown = byId(one.closest("[id]").id)?.querySelector(parts);
    if (shown && !shown.contains(focused())) shown.replaceWith(one);
  }
  byId("fresh").hidden = !words;
  byId("fresh").firstElementChild.textContent = byId("announce").textContent = words;
};
const poll = async () => {
  const shown = byId("freshness");
  if (!shown?.dataset.live || document.hidden) return;
  const told = (await ask(shown.dataset.live)).getElementById("freshness");
  if (!told) {
    shown.className = "freshness stopped";
    shown.textContent = "Not updated any more: load the page again";
    return;
  }
  if (!shown.contains(focused())) shown.replaceWith(told);
  if (told.dataset.state === state || !byId("fresh")) return;
  const { href } = location;
  const queue = await ask(href);
  if (!queue.getElementById("results") || href !== location.href) return;
  state = told.dataset.state;
  compare(queue);
};
setInterval(poll, 15_000);
if (matchMedia("(display-mode: standalone)").matches) navigator.serviceWorker?.register("/service-worker.js");
if (performance.getEntriesByType("navigation")[0]?.type === "back_forward") poll();
on("visibilitychange", poll);
// A new list has focus and mark on the pane's row.
on("htmx:historyRestore htmx:afterSettle", ({ detail: { target, requestConfig: { elt } = {} } }) => {
  const lost = focused() === document.body;
  const isNew = !target || target.matches("#results, .question") && !elt.matches(".offer");
  if (isNew) byId("results")?.parentElement.scrollTo(0, 0);
  const row = elt?.closest("#fresh") && byId(arrived) || (isNew && byId("open")?.checkVisibility() && marked() || byId(last));
  if (isNew && rowOf(focused()) || lost && (row || isNew)) focusRow(row);
});

// Comforts on top of pages that work without scripts.
"use strict";

const on = (names, act) => names.split(" ").forEach((name) => document.addEventListener(name, act));
const byId = (id) => document.getElementById(id);
const every = (selector, inside = document) => [...inside.querySelectorAll(selector)];

// The row with the focus, now or last.
let last;
const focused = () => document.activeElement;
const rowOf = (element) => element?.closest?.(".row[id]");
const current = () => rowOf(focused()) ?? byId(last);
const focusRow = (row) => row?.querySelector(".row-link")?.focus();
const beside = (row, step) => {
  const rows = every(".row[id]");
  return rows[row ? rows.indexOf(row) + step : 0];
};
on("focusin", ({ target }) => (last = rowOf(target)?.id ?? last));

// An offer to undo goes when it is too late.
const ready = () => {
  for (const one of every("[data-script]")) one.hidden = false;
  byId("theme").lastElementChild.textContent = root.dataset.theme;
  byId("keys-on").checked = root.dataset.keys === "on";
  for (const offer of every(".offer")) {
    offer.ends ??= Date.now() + +offer.dataset.left;
    const left = offer.ends - Date.now();
    if (left > 0) setTimeout(ready, left + 50);
    else offer.remove();
  }
  byId("offers").hidden = !every(".offer")[0];
};
on("htmx:historyRestore htmx:afterSettle", ready);
ready();

// The menu closes on Esc and keeps the focus, and on a click beside it.
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
  // The second click of a double click does not meet what the first put there.
  if (detail > 1 && target.closest(".row button, .offer button")) event.preventDefault();
  if (target.closest("#theme")) kept.theme = root.dataset.theme = themes[root.dataset.theme];
  if (target.id === "help") byId("keys").showModal();
  if (target.id === "keys-on") kept.keys = root.dataset.keys = target.checked ? "on" : "off";
  ready();
});

// A key clicks the real button that names it: in the focused row, else outside of all rows.
let before;
const keyed = (key) => {
  const row = current();
  if (key === "j" || key === "k") return beside(row, key === "j" ? 1 : -1)?.querySelector(".row-link");
  const found = every(`[data-key~="${CSS.escape(key)}"]`).filter((one) => one.checkVisibility());
  return found.find((one) => row?.contains(one)) ?? found.find((one) => !rowOf(one));
};
on("keydown", (event) => {
  const { key, target } = event;
  const types = target.matches("input:not([type=checkbox]), textarea, select");
  if (byId("keys").open || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (key === "Escape" && (closeMenu() || types)) return types && (target.blur(), focusRow(current()));
  if (types || root.dataset.keys === "off" || (event.repeat && !"jk".includes(key))) return; // held, `a` approves one
  const wanted = keyed(before === "g" ? `g${key}` : key);
  before = key;
  if (!wanted) return;
  event.preventDefault();
  if ("jk/".includes(key)) wanted.focus();
  else wanted.click();
});

// A row that opens stays under the pointer when another closes.
let held, heldAt;
on("htmx:beforeSwap", ({ detail }) => {
  held = rowOf(detail.requestConfig?.elt);
  heldAt = held?.getBoundingClientRect().top;
});
on("htmx:afterSwap", () => {
  const row = held && byId(held.id);
  if (row) window.scrollBy({ top: row.getBoundingClientRect().top - heldAt, behavior: "instant" });
});

// A failed update says so; the focus is where it can be tried again.
on("htmx:sendError htmx:timeout htmx:responseError htmx:afterOnLoad", ({ detail: { elt, successful, xhr } }) => {
  const problem = byId("problem");
  problem.hidden = successful;
  problem.textContent = problem.dataset[xhr.status] ?? problem.dataset.failed;
  if (!successful && elt.matches(".row form:not(.note-form)")) focusRow(rowOf(elt));
});

// Who acts goes on to the next row at once.
on("htmx:beforeRequest", ({ detail: { elt } }) => {
  if (!elt.matches(".row form[hx-target]")) return;
  const next = !elt.matches(".note-form, :has([data-key=u])") && beside(rowOf(elt), 1);
  focusRow(next || rowOf(elt));
});
on("submit", (event) => {
  const key = event.target.matches(".offer") && event.target.elements.key.value;
  const same = every(".slot [name=key]").find((field) => field.value === key);
  if (!same) return;
  event.preventDefault(); // its row is here: that one is swapped, and the page stays
  same.form.requestSubmit();
});

// New rows are announced; nothing moves, nothing that could be approved changes.
let state = byId("freshness")?.dataset.state;
let arrived;
const ask = async (address) => {
  const answer = await fetch(address, { cache: "no-cache", headers: { "HX-Request": "true" } }).catch(() => null);
  const text = answer?.ok && !answer.headers.has("HX-Redirect") ? await answer.text() : "";
  return new DOMParser().parseFromString(text, "text/html");
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
if (performance.getEntriesByType("navigation")[0]?.type === "back_forward") poll(); // Back shows what it was then
on("visibilitychange", poll);
on("htmx:afterSettle", () => focused() === document.body && focusRow(byId(arrived) ?? byId(last)));

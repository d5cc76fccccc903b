// The settings: which Sunstead, the token, and on which pages. A saved token is never shown again.

import { originOf, patternOf, settings } from "./instance.js";

const { FORGE } = globalThis.places;
const TOKEN = /^sunstead_[A-Za-z0-9_-]{20,200}$/;
const byId = (id) => document.getElementById(id);
const boxes = () => [...document.querySelectorAll("[name=pages]")];
const say = (words) => (byId("said").textContent = words);

let saved = {};
const fill = async () => {
  const { origin, token, pages } = (saved = await settings());
  byId("address").value ||= origin; // what was typed while it was read stays
  byId("token").required = !token;
  byId("token").placeholder = token ? "A token is saved. Type another one to replace it." : "sunstead_…";
  for (const box of boxes()) box.checked = pages.includes(box.value);
};
const save = async (origin, typed) => {
  const before = saved;
  const token = typed || (before.origin === origin ? before.token : "");
  if (!token) return say("Nothing was saved: a token goes to the address for which it was typed. Type it again.");
  // Before anything is waited for, while the click counts: a browser asks its person only then.
  const isAllowed = await chrome.permissions.request({ origins: [patternOf(origin), `${FORGE}/*`] });
  if (!isAllowed) return say("Nothing was saved: the browser was not allowed to reach that address.");
  const pages = boxes().filter((box) => box.checked).map((box) => box.value);
  await chrome.storage.local.set({ origin, token, pages });
  if (before.origin && patternOf(before.origin) !== patternOf(origin))
    await chrome.permissions.remove({ origins: [patternOf(before.origin)] });
  byId("address").value = byId("token").value = "";
  await fill();
  say("Saved. Asking…");
  const { inbox, line } = await chrome.runtime.sendMessage({ ask: "inbox", isChanged: true });
  if (!inbox) return say(`Saved, but: ${line}`);
  const { repositories: count, only } = inbox;
  const watched = `${count.toLocaleString("en")} watched ${count === 1 ? "repository" : "repositories"}`;
  say(`Saved. Sunstead answers: ${watched}${only ? ", the one of this token" : ""}.`);
};
byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const origin = originOf(byId("address").value.trim());
  const typed = byId("token").value.trim();
  if (!origin) return say("Nothing was saved: the address begins with https://, or here with http://127.0.0.1.");
  if (typed && !TOKEN.test(typed)) return say("Nothing was saved: a token begins with sunstead_ and has no spaces.");
  save(origin, typed).catch(() => say("Nothing was saved: the browser refused. Try again."));
});
fill();

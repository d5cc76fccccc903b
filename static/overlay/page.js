"use strict";

// In the forge's pages: sees what one is about, asks the worker, places the hat. It has no token and fetches nothing.
(() => {
  const { MOST, isDid, isPullUri, placeOf, addressOf } = globalThis.places;
  const { TAG, draw } = globalThis.hat;
  const SETTLE_MS = 20; // between a change of the page and the look at it
  const FRESH_MS = 60_000;
  const every = (selector, inside = document) => [...inside.querySelectorAll(selector)];
  const only = (values) => (new Set(values).size === 1 ? values[0] : undefined);

  // A number as the forge writes it stands in an element of its own, which holds nothing else.
  const numberIn = (element, number) => every("*", element).find((one) => one.textContent.trim() === `#${number}`);

  const see = {
    pull: (place) => {
      const panel = document.querySelector("#at-uri-panel [data-aturi]");
      const uri = panel ? panel.dataset.aturi : only(every("[data-aturi]").map((one) => one.dataset.aturi));
      const title = every("h1").find((one) => !one.closest("article") && numberIn(one, place.number));
      return isPullUri(uri) && title && { uri, spots: [{ after: title }] };
    },
    list: (place) => {
      const spots = new Map();
      for (const link of every("a[href]")) {
        const { kind, owner, name, number } = link.origin === location.origin ? placeOf(link.pathname) : {};
        const isRow = kind === "pull" && owner === place.owner && name === place.name && !link.search && !link.hash;
        const after = isRow && !spots.has(number) && spots.size < MOST && numberIn(link, number);
        if (after) spots.set(number, { after, number });
      }
      return spots.size > 0 && { numbers: [...spots.keys()], spots: [...spots.values()] };
    },
    person: () => {
      const marked = every("[data-followers-did]");
      const did = only(marked.map((one) => one.dataset.followersDid));
      return isDid(did) && { did, spots: marked.map((one) => ({ after: one.parentElement })) };
    },
  };
  const seen = () => {
    const path = location.pathname;
    const place = placeOf(path);
    const found = see[place.kind]?.(place);
    if (found) return { ask: place.kind, path, ...found };
    return { ask: place.kind === "pull" || place.kind === "list" ? "lost" : "other", path, spots: [] };
  };

  let asked = { key: "", at: 0, answer: undefined };
  const drawn = new WeakMap(); // what each of our elements shows
  const place = (spots) => {
    const kept = new Set();
    for (const { after, number } of spots) {
      const view = number ? asked.answer?.views?.[number] : asked.answer?.view;
      if (!view) continue;
      let host = after.nextElementSibling;
      if (drawn.get(host) !== view) {
        host = draw(view);
        drawn.set(host, view);
        after.after(host);
      }
      kept.add(host);
    }
    // Copies come back from the history of htmx, without what was in them.
    for (const one of every(TAG)) if (!kept.has(one)) one.remove();
  };
  const look = async () => {
    const { spots, ...question } = seen();
    const key = JSON.stringify(question);
    if (key !== asked.key) asked = { key, at: Date.now(), answer: undefined };
    place(spots);
    if (asked.answer || asked.isUnderWay || !(question.ask in see)) return;
    const mine = asked;
    mine.isUnderWay = true;
    try {
      mine.answer = (await chrome.runtime.sendMessage(question)) ?? {};
    } catch {
      mine.answer = {}; // the extension was updated or removed beneath this page
    }
    if (mine !== asked) return;
    const { spots: left, ...still } = seen(); // the page may have become another one meanwhile
    if (JSON.stringify(still) === mine.key) place(left);
    else later();
  };

  let due = 0;
  const later = () => (due ||= setTimeout(() => {
    due = 0;
    look();
  }, SETTLE_MS));
  const watched = { childList: true, subtree: true, attributeFilter: ["data-aturi", "data-followers-did"] };
  new MutationObserver(later).observe(document, watched);
  for (const name of ["popstate", "hashchange"]) addEventListener(name, later);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden || Date.now() - asked.at < FRESH_MS) return;
    asked = { key: "", at: 0, answer: undefined };
    later();
  });
  chrome.runtime.onMessage.addListener((message, sender, reply) => {
    if (sender.id !== chrome.runtime.id || message?.ask !== "seen") return;
    const { spots, ...question } = seen();
    reply(question);
  });
  look();
})();

// What the instance answered, checked for shape and bounded, as views that hold nothing but text.

const { FORGE, isDid, isPullUri } = globalThis.places;
const KINDS = ["fast", "would", "review", "flag", "person", "audit", "unknown"];
const SEVERITIES = ["low", "med", "high"];
const LANES = ["needs_human", "normal_queue", "fast_lane", "would_be_fast_lane"];
const MOST_WATCHED = 5_000;
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cn}\p{Co}\p{Cs}\p{Zl}\p{Zp}]/gu;

export class NotUnderstood extends Error {}

const demand = (holds) => {
  if (!holds) throw new NotUnderstood();
};
const object = (value) => (demand(value !== null && typeof value === "object" && !Array.isArray(value)), value);
const list = (value, most) => (demand(Array.isArray(value) && value.length <= most), value);
const one = (value, known) => (demand(known.includes(value)), value);
const count = (value) => (demand(Number.isSafeInteger(value) && value >= 0), value);
const key = (value) => (demand(typeof value === "string" && value.length <= 2_048), value);
const maybe = (value, read) => (value === null || value === undefined ? null : read(value));

// A text of others, cut, with what hides in it spelled out.
export const text = (value, most) => {
  demand(typeof value === "string");
  const spell = (it) => `⟨U+${it.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`;
  const shown = value.slice(0, 2 * most).replace(HIDDEN, spell);
  const letters = [...shown];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : shown;
};

const badgeOf = (value) => {
  const { kind, word, chance, interval } = object(value);
  return { kind: one(kind, KINDS), word: text(word, 40), chance: text(chance, 8), interval: text(interval, 10) };
};
const findingOf = (value) => {
  const { name, severity, file, line, removed } = object(value);
  const path = maybe(file, (it) => text(it, 120)) ?? "";
  const at = maybe(line, count);
  const place = path && at !== null ? `${path}:${at}${removed === true ? " (removed)" : ""}` : path;
  return { name: text(name, 60), severity: one(severity, SEVERITIES), place };
};
// The clause that decided, or the next one where the finding already says it.
const reasonOf = (decided, explanation, finding) => {
  if (!finding || !decided.startsWith(finding.name)) return decided;
  const next = explanation.split("; ").find((clause) => !clause.startsWith(finding.name)) ?? "";
  return next.charAt(0).toUpperCase() + next.slice(1);
};

export const pullOf = (value, origin) => {
  const told = object(value);
  demand(isPullUri(told.uri));
  const badge = badgeOf(told.badge);
  const finding = maybe(told.finding, findingOf);
  const reason = reasonOf(text(told.decided, 80), text(told.explanation, 300), finding);
  const words = badge.kind === "fast" ? "Approve on Sunstead" : "Open on Sunstead";
  return {
    uri: told.uri,
    page: maybe(told.page, key),
    repository: key(told.repository),
    label: text(told.label, 60),
    title: text(told.title, 120),
    openedAt: text(told.opened_at, 40),
    view: { badge, reason, finding, link: { href: `${origin}/pull/${told.uri}`, words } },
  };
};

export const pullsOf = (value, addresses, origin) => {
  const found = list(object(value).found, addresses.length);
  demand(found.every((each, index) => object(each).asked === addresses[index]) && found.length === addresses.length);
  return found.map((each) => maybe(each.pull_request, (it) => pullOf(it, origin)));
};

export const inboxOf = (value, origin) => {
  const told = object(value);
  const lanes = Object.fromEntries(LANES.map((lane) => [lane, count(object(told.lanes)[lane])]));
  const watched = {};
  for (const each of list(told.repositories, MOST_WATCHED)) {
    const { repository, name, owner, handle } = object(each);
    for (const who of [owner, handle]) if (who) watched[`${key(who).toLowerCase()}/${key(name)}`] = key(repository);
  }
  const oldest = maybe(told.oldest, (it) => pullOf(it, origin));
  const repositories = told.repositories.length;
  return { lanes, recent: count(told.new), oldest, watched, repositories, only: maybe(told.only, key) };
};

const nameOf = (value) => {
  const { did, handle } = object(value);
  demand(isDid(did));
  return text(handle ?? (did.length > 24 ? `${did.slice(0, 14)}…${did.slice(-4)}` : did), 60);
};
export const pathOf = (value) => {
  const [first] = list(object(value).paths, 3);
  return first ? list(first, 20).map(nameOf) : [];
};
export const personOf = (value, path, origin) => {
  const told = object(value);
  const { chance, interval } = badgeOf(told.badge);
  const word = chance ? `Stays clean ${chance}` : interval ? "Chance hidden" : "No score yet";
  const view = {
    badge: { kind: "person", word, chance: "", interval: chance ? interval : "" },
    reason: text(told.explanation, 200),
    path,
    link: { href: `${origin}/c/${encodeURIComponent(told.did)}`, words: "Open on Sunstead" },
  };
  demand(isDid(told.did));
  return { did: told.did, handle: maybe(told.handle, (it) => text(it, 260).toLowerCase()), view };
};

export const isOnForge = (page, number) =>
  page === null || (page.startsWith(`${FORGE}/`) && page.endsWith(`/pulls/${number}`));

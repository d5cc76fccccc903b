// The popup: what the page in view is, as the worker says it again, and the inbox in brief.

import { settings } from "./instance.js";

const { draw } = globalThis.hat;
const LANES = {
  needs_human: "Flagged",
  normal_queue: "Needs review",
  fast_lane: "Fast lane",
  would_be_fast_lane: "Would be fast lane",
};
const LOST = "This page was not understood, so nothing is shown on it.";
const OTHER = "Nothing to say about this page. Sunstead looks at pull requests, their lists and people on tangled.org.";
const byId = (id) => document.getElementById(id);
const line = (words) => Object.assign(document.createElement("p"), { textContent: words, className: "quiet" });
const show = (id, ...parts) => byId(id).replaceChildren(...parts);
const counted = (count, thing) => `${count.toLocaleString("en")} ${thing}${count === 1 ? "" : "s"}`;

const showHere = async () => {
  const [tab] = await chrome.tabs.query({ active: true, currentWindow: true });
  const question = await chrome.tabs.sendMessage(tab.id, { ask: "seen" }, { frameId: 0 }).catch(() => undefined);
  if (!question || question.ask === "other") return show("here", line(OTHER));
  if (question.ask === "lost") return show("here", line(LOST));
  const answer = await chrome.runtime.sendMessage(question);
  const found = Object.keys(answer.views ?? {}).length;
  if (found) return show("here", line(`${counted(found, "pull request")} of this list judged.`));
  const words = answer.line ?? answer.silence;
  show("here", words ? line(words) : answer.view ? draw(answer.view) : line(LOST));
};
const ageOf = (moment) => {
  const hours = Math.max(0, (Date.now() - Date.parse(moment)) / 3_600_000);
  return hours < 48 ? counted(Math.floor(hours), "hour") : counted(Math.floor(hours / 24), "day");
};
const showInbox = async () => {
  const { inbox, line: trouble } = await chrome.runtime.sendMessage({ ask: "inbox" });
  if (!inbox) return show("inbox", line(trouble ?? LOST));
  const table = document.createElement("table");
  for (const [lane, word] of Object.entries(LANES)) {
    const row = table.insertRow();
    row.append(Object.assign(document.createElement("th"), { scope: "row", textContent: word }));
    row.insertCell().textContent = inbox.lanes[lane].toLocaleString("en");
  }
  const parts = [table, line(`${counted(inbox.recent, "new pull request")} within 24 hours.`)];
  if (inbox.oldest) {
    const { label, title, openedAt, view } = inbox.oldest;
    const waits = line(`Waits longest, ${ageOf(openedAt)}: `);
    const link = document.createElement("a");
    const name = document.createElement("bdi");
    name.textContent = title;
    Object.assign(link, { href: view.link.href, target: "_blank", rel: "noreferrer" });
    link.append(`${label}: `, name);
    waits.append(link);
    parts.push(waits);
  }
  show("inbox", ...parts);
};
const showSite = async () => {
  const { origin } = await settings();
  if (origin) Object.assign(byId("site"), { href: `${origin}/`, hidden: false });
};
for (const part of [showHere, showInbox, showSite]) part().catch(() => {});

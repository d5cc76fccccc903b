// The one place that fetches: from the origin that was set up, with its token, bounded in size and time.

import "./places.js";
import { NotUnderstood, inboxOf, pathOf, personOf, pullsOf } from "./answers.js";

const JSON_TYPE = "application/json";
const PROBLEM_TYPE = "application/problem+json";
const UNKNOWN = "unknown_contributor"; // the code of a problem: nobody of this name
const STRANGE = "The answer of Sunstead was not understood. It may be of another version.";
const TIMEOUT_MS = 5_000;
const MOST_BYTES = 2_000_000;
const FRESH_MS = 30_000; // an answer that is asked for again within this time is not fetched again
const WATCHED_MS = 600_000;
const MOST_HELD = 50; // answers
const MOST_A_MINUTE = 120; // requests, whatever pages want to know
const HOLD_SECONDS = { least: 15, most: 300 }; // after a failure, before the next request
export const PAGES = ["pull", "list", "person"];

// One sentence on why there is no answer; a silent one is only for the popup.
export class Trouble extends Error {
  constructor(line, isSilent = false) {
    super(line);
    this.isSilent = isSilent;
  }
}

// As they are stored now.
export const settings = async () => {
  const { origin = "", token = "", pages = PAGES } = await chrome.storage.local.get(["origin", "token", "pages"]);
  return { origin, token, pages };
};
export const originOf = (address) => {
  let url;
  try {
    url = new URL(address.includes("://") ? address : `https://${address}`);
  } catch {
    return "";
  }
  const isLoopback = url.protocol === "http:" && ["127.0.0.1", "localhost"].includes(url.hostname);
  return (url.protocol === "https:" || isLoopback) && !url.username && !url.password ? url.origin : "";
};
// Firefox takes no port in a pattern, so none is named: only the code below says to which port requests go.
export const patternOf = (origin) => `${new URL(origin).protocol}//${new URL(origin).hostname}/*`;

let known; // settings, and whether the browser lets us reach their origin, until either changes
const current = () => (known ??= settings().then(async (stored) => {
  const isAllowed = stored.origin && await chrome.permissions.contains({ origins: [patternOf(stored.origin)] });
  return { ...stored, isAllowed };
}));
let held = new Map(); // by path and body: when it was asked, and its answer to come
let sentAt = []; // of the requests of the last minute
export const forget = () => {
  known = undefined;
  held = new Map();
  return chrome.storage.session.remove("quiet");
};

// Kept while the browser runs, since it ends a worker that does nothing for half a minute.
const holdOff = (line, seconds) => {
  const { least, most } = HOLD_SECONDS;
  const until = Date.now() + 1_000 * Math.min(Math.max(seconds || 0, least), most);
  chrome.storage.session.set({ quiet: { until, line } });
  return new Trouble(line);
};
const refusal = (status, retryAfter) => {
  const wait = Math.ceil(Math.min(Math.max(+retryAfter || HOLD_SECONDS.least, HOLD_SECONDS.least), HOLD_SECONDS.most));
  const lines = {
    401: "Sunstead does not take the token any more. Make a new one there and save it in the settings.",
    403: "The token may not read this on Sunstead. Make another one there and save it in the settings.",
    404: "Sunstead does not know this address. It may be older than this extension.",
    429: `Too many requests to Sunstead. The next one goes out in ${wait} s.`,
    503: `Sunstead cannot answer just now. The next request goes out in ${wait} s.`,
  };
  return holdOff(lines[status] ?? `Sunstead answered with the error ${status}.`, wait);
};
const readJson = async (response) => {
  const chunks = [];
  let size = 0;
  for await (const chunk of pieces(response.body.getReader())) {
    size += chunk.length;
    if (size > MOST_BYTES) throw new NotUnderstood();
    chunks.push(chunk);
  }
  try {
    return JSON.parse(await new Blob(chunks).text());
  } catch {
    throw new NotUnderstood();
  }
};
const pieces = async function* (reader) {
  try {
    for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read()) yield value;
  } finally {
    reader.cancel().catch(() => {});
  }
};
// What no operation answers, as on an older instance, is 404 too, with another code.
const isUnknownPerson = async (path, { status, headers, body }) => {
  const isProblem = status === 404 && headers.get("Content-Type")?.startsWith(PROBLEM_TYPE);
  return isProblem && /^\/(score|trust)\//.test(path) && (await readJson({ body }))?.code === UNKNOWN;
};

const send = async (path, body) => {
  const { origin, token, isAllowed } = await current();
  if (!origin || !token) throw new Trouble("Not set up yet. Open the settings.", true);
  if (!isAllowed)
    throw new Trouble(`The browser does not let this extension reach ${origin}. Save the settings again.`);
  const { quiet } = await chrome.storage.session.get("quiet");
  if (Date.now() < quiet?.until) throw new Trouble(quiet.line);
  sentAt = [...sentAt.filter((at) => Date.now() - at < 60_000), Date.now()];
  if (sentAt.length > MOST_A_MINUTE) throw holdOff("More pages were opened than are asked about in a minute.");
  try {
    const response = await fetch(origin + path, {
      method: body ? "POST" : "GET",
      headers: { Authorization: `Bearer ${token}`, Accept: JSON_TYPE, ...(body && { "Content-Type": JSON_TYPE }) },
      body: body && JSON.stringify(body),
      credentials: "omit",
      redirect: "error",
      cache: "no-store",
      referrerPolicy: "no-referrer",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    if (response.ok) return await readJson(response);
    if (await isUnknownPerson(path, response)) return null;
    response.body?.cancel().catch(() => {}); // read to its end it is locked
    throw refusal(response.status, response.headers.get("Retry-After"));
  } catch (problem) {
    if (problem instanceof Trouble) throw problem;
    if (problem instanceof NotUnderstood) throw holdOff(STRANGE);
    const isSlow = problem.name === "TimeoutError";
    throw holdOff(isSlow ? `Sunstead did not answer within ${TIMEOUT_MS / 1_000} s.` : "Sunstead cannot be reached.");
  }
};
const ask = (path, body) => {
  const key = JSON.stringify([path, body]);
  const known = held.get(key);
  if (known && Date.now() - known.at < FRESH_MS) return known.answer;
  const answer = send(path, body);
  if (held.size >= MOST_HELD) held.delete(held.keys().next().value);
  held.delete(key);
  held.set(key, { at: Date.now(), answer });
  answer.catch(() => held.delete(key));
  return answer;
};
// Reads an answer; one of another shape is a failure like any other.
const understood = (read) => {
  try {
    return read();
  } catch (problem) {
    if (!(problem instanceof NotUnderstood)) throw problem;
    throw holdOff(STRANGE);
  }
};

export const isOn = async (page) => (await current()).pages.includes(page);
export const inbox = async () => {
  const { origin } = await current();
  const told = await ask("/inbox");
  const read = understood(() => inboxOf(told, origin));
  await chrome.storage.session.set({ watched: { at: Date.now(), origin, names: read.watched, only: read.only } });
  return read;
};
// The watched repositories by the beginning of their addresses, kept while the browser runs and renewed now and then.
export const watched = async () => {
  const { origin } = await current();
  const { watched: kept } = await chrome.storage.session.get("watched");
  const isKept = kept?.origin === origin;
  if (isKept && Date.now() - kept.at < WATCHED_MS) return kept;
  try {
    const { watched: names, only } = await inbox();
    return { names, only };
  } catch (problem) {
    if (!(problem instanceof Trouble)) throw problem;
    if (isKept) return kept;
    throw new Trouble(problem.message, true); // nobody knows whether this page is one of the watched
  }
};
export const pulls = async (uris) => {
  const { origin } = await current();
  const told = await ask("/pulls", { uris });
  return understood(() => pullsOf(told, uris, origin));
};
export const person = async (did, repository) => {
  const { origin } = await current();
  const named = encodeURIComponent(did) + (repository ? `?repo=${encodeURIComponent(repository)}` : "");
  const [score, trust] = await Promise.all([ask(`/score/${named}`), ask(`/trust/${named}`)]);
  return score && understood(() => personOf(score, trust ? pathOf(trust) : [], origin));
};

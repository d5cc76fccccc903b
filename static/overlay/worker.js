// The background worker: answers the extension's own pages and its scripts in the forge's pages, and nobody else.

import "./places.js";
import { Trouble, forget, inbox, isOn, person, pulls, watched } from "./instance.js";
import { isOnForge } from "./answers.js";

const { FORGE, MOST, addressOf, isDid, isPullUri, placeOf } = globalThis.places;
const OFF = { silence: "Switched off for pages of this kind in the settings." };
const UNWATCHED = { silence: "This repository is not watched by your Sunstead, so nothing was asked about it." };
const ABSENT = { silence: "Not open on your Sunstead: merged, closed or not read yet." };
const UNKNOWN = { silence: "Your Sunstead knows nobody of this name." };
const OTHER_PULL = "Sunstead shows nothing: this page names another pull request than its address.";
const OTHER_PERSON = "Sunstead shows nothing: this page names another person than its address.";

const isNumber = (value) => Number.isSafeInteger(value) && value > 0;
const refused = (line) => ({ line, view: { line } });
const repositoryOf = async ({ owner, name }) => (await watched()).names[`${owner.toLowerCase()}/${name}`];
const answers = {
  pull: async ({ path, uri }) => {
    const place = placeOf(path);
    if (place.kind !== "pull" || !isPullUri(uri)) return undefined;
    const repository = await repositoryOf(place);
    if (!repository) return UNWATCHED;
    // The address says which one it is; the page's own word counts only where that one's number is not known yet.
    const [named, marked] = await pulls([addressOf(place, place.number), uri]);
    const isSame = !marked || (marked.repository === repository && isOnForge(marked.page, place.number));
    if (!isSame || (named && named.uri !== uri)) return refused(OTHER_PULL);
    return marked ? { view: marked.view } : ABSENT;
  },
  list: async ({ path, numbers }) => {
    const place = placeOf(path);
    const isFine = Array.isArray(numbers) && numbers.length > 0 && numbers.length <= MOST && numbers.every(isNumber);
    if (place.kind !== "list" || !isFine) return undefined;
    const repository = await repositoryOf(place);
    if (!repository) return UNWATCHED;
    const found = await pulls(numbers.map((number) => addressOf(place, number)));
    const views = {};
    numbers.forEach((number, index) => {
      const { repository: its, view } = found[index] ?? {};
      if (its === repository) views[number] = { badge: { ...view.badge, interval: "" }, isSmall: true };
    });
    return Object.keys(views).length ? { views } : ABSENT;
  },
  person: async ({ path, did }) => {
    const place = placeOf(path);
    if (place.kind !== "person" || !isDid(did)) return undefined;
    const { only } = await watched();
    const found = await person(did, only);
    if (!found) return UNKNOWN;
    const owner = place.owner.toLowerCase();
    const isSame = isDid(place.owner) ? place.owner === did : !found.handle || found.handle === owner;
    return found.did === did && isSame ? { view: found.view } : refused(OTHER_PERSON);
  },
};

const reply = async (message) => {
  try {
    if (!(await isOn(message.ask))) return OFF;
    return (await answers[message.ask](message)) ?? {};
  } catch (problem) {
    if (!(problem instanceof Trouble)) throw problem;
    const { message: line, isSilent } = problem;
    return isSilent || message.ask === "list" ? { line } : { line, view: { line } };
  }
};
const forgetAll = () => Promise.all([forget(), chrome.storage.session.remove("watched")]);
const replyInbox = async ({ isChanged }) => {
  if (isChanged) await forgetAll(); // the settings may say so before the storage does
  try {
    return { inbox: await inbox() };
  } catch (problem) {
    if (!(problem instanceof Trouble)) throw problem;
    return { line: problem.message };
  }
};

const isOwn = ({ id, url }) => id === chrome.runtime.id && url?.startsWith(chrome.runtime.getURL(""));
const isForge = ({ id, tab, frameId, url }) =>
  id === chrome.runtime.id && tab && frameId === 0 && url?.startsWith(`${FORGE}/`);
chrome.runtime.onMessage.addListener((message, sender, answer) => {
  const isQuestion = typeof message?.ask === "string" && Object.hasOwn(answers, message.ask);
  if (isQuestion && (isForge(sender) || isOwn(sender))) reply(message).then(answer, () => answer({}));
  else if (message?.ask === "inbox" && isOwn(sender)) replyInbox(message).then(answer, () => answer({}));
  else return false;
  return true;
});

// Scripts in pages cannot read what is stored: where a browser does not know this, none of them asks for it.
chrome.storage.local.setAccessLevel?.({ accessLevel: "TRUSTED_CONTEXTS" });
chrome.storage.onChanged.addListener((changes, area) => {
  if (area === "local") forgetAll();
});
for (const change of [chrome.permissions.onAdded, chrome.permissions.onRemoved]) change.addListener(forget);

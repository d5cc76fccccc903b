"use strict";

// The addresses and names of the forge, read by the same rules in its pages, in the worker and in the popup.
globalThis.places = (() => {
  const FORGE = "https://tangled.org";
  const MOST = 100; // pull requests of one list
  const DID = "did:(?:plc:[a-z2-7]{24}|web:[A-Za-z0-9.:%-]{1,250})";
  const HANDLE = "(?=.{3,253}$)(?:[A-Za-z0-9-]{1,63}\\.)+[A-Za-z][A-Za-z0-9-]{0,62}";
  const isDid = (text) => typeof text === "string" && new RegExp(`^${DID}$`).test(text);
  const PULL = `at://${DID}/sh\\.tangled\\.repo\\.pull/[A-Za-z0-9._~:-]{1,512}`;
  const isPullUri = (text) => typeof text === "string" && new RegExp(`^${PULL}$`).test(text);
  const isOwner = (text) => isDid(text) || new RegExp(`^${HANDLE}$`).test(text);
  const isName = (text) => /^(?!\.+$)[A-Za-z0-9._-]{1,100}$/.test(text);

  // What a path of the forge leads to: a pull request, a list of them, perhaps a person, or something else.
  const placeOf = (path) => {
    const OTHER = { kind: "other" };
    if (typeof path !== "string" || path.length > 2_000) return OTHER;
    let parts;
    try {
      parts = decodeURIComponent(path).split("/").slice(1);
    } catch {
      return OTHER; // a lone % is no address
    }
    const [first, name, pulls, number, ...rest] = parts.at(-1) === "" ? parts.slice(0, -1) : parts;
    const owner = first?.replace(/^@/, "") ?? "";
    if (!isOwner(owner)) return OTHER;
    if (name === undefined) return { kind: "person", owner };
    if (!isName(name) || pulls !== "pulls") return OTHER;
    if (number === undefined) return { kind: "list", owner, name };
    return /^[1-9][0-9]{0,8}$/.test(number) && rest.length < 4 ? { kind: "pull", owner, name, number: +number } : OTHER;
  };
  const addressOf = ({ owner, name }, number) => `${FORGE}/${owner}/${name}/pulls/${number}`;
  return Object.freeze({ FORGE, MOST, isDid, isPullUri, placeOf, addressOf });
})();

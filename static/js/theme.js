// Runs before the first paint: a chosen theme does not flash.
const root = document.documentElement;
let kept = {}; // storage is forbidden: choices and drafts hold for this page
let drafts = {};
try {
  kept = localStorage;
  drafts = sessionStorage;
} catch {}
root.dataset.theme = kept.theme ?? "system";
root.dataset.keys = kept.keys ?? "on";

// Runs before the first paint, so that a chosen theme does not flash.
const root = document.documentElement;
let kept;
try {
  kept = localStorage;
} catch {
  kept = {}; // storage is forbidden: choices hold for this page only
}
root.dataset.theme = kept.theme ?? "system";
root.dataset.keys = kept.keys ?? "on";

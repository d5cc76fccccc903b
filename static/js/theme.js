// Runs before the first paint: a chosen theme does not flash.
const root = document.documentElement;
let kept;
try {
  kept = localStorage;
} catch {
  kept = {}; // storage is forbidden: choices hold for this page
}
root.dataset.theme = kept.theme ?? "system";
root.dataset.keys = kept.keys ?? "on";

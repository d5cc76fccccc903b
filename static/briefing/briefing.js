"use strict";

// The briefing read aloud by a voice of this device: any other would send the text to its maker.
const byId = (id) => document.getElementById(id);
const speech = window.speechSynthesis;
const lines = [...document.querySelectorAll("#briefing .lines > li")];
const [read, pause, stop] = ["read", "pause", "stop"].map(byId);
let voice;
let at = 0; // the sentence that is read, or at which reading goes on
let turn = 0; // what belongs to an older one is not heeded
let state = "silent";

const choose = () => {
  const own = (speech?.getVoices() ?? []).filter(({ localService, lang }) => localService === true && /^en\b/i.test(lang));
  voice = own.find((one) => one.default) ?? own[0];
  byId("player").hidden = !voice;
  byId("no-voice").hidden = Boolean(voice);
};

const show = (now) => {
  state = now;
  for (const button of [pause, stop]) button.setAttribute("aria-disabled", state === "silent"); // it keeps the focus
  pause.textContent = state === "paused" ? "Go on" : "Pause";
  lines.forEach((line, place) => {
    if (state !== "silent" && place === at) line.setAttribute("aria-current", "true");
    else line.removeAttribute("aria-current");
  });
};

const silence = (now, place = at) => {
  turn += 1;
  at = place;
  show(now);
  if (speech.speaking || speech.pending) speech.cancel();
};

const say = () => {
  if (at >= lines.length) return silence("silent", 0);
  const mine = ++turn;
  const words = new SpeechSynthesisUtterance(lines[at].querySelector(".said").textContent);
  words.voice = voice;
  words.lang = voice.lang;
  words.onend = () => {
    if (mine !== turn) return;
    at += 1;
    say();
  };
  words.onerror = () => mine === turn && silence("silent", 0);
  show("reading");
  lines[at].scrollIntoView({ block: "nearest" });
  speech.speak(words);
};

read.addEventListener("click", () => {
  silence("silent", 0);
  say();
});
// A pause ends the sentence and begins it again: not every engine goes on in the middle of one.
pause.addEventListener("click", () => {
  if (state === "paused") say();
  else if (state === "reading") silence("paused");
});
const end = () => state !== "silent" && silence("silent", 0);
stop.addEventListener("click", end);
document.addEventListener("keydown", ({ key }) => key === "Escape" && end());
addEventListener("pagehide", end);
speech?.addEventListener?.("voiceschanged", choose);
choose();

"use strict";

// The hat: lane, chance, reason and worst finding, drawn with text alone into a closed shadow root.
globalThis.hat = (() => {
  const TAG = "sunstead-hat";
  const RING = "M8 1.6a6.4 6.4 0 1 0 0 12.8a6.4 6.4 0 1 0 0-12.8";
  const TICK = "M2.5 8.2 6 11.7 13.5 4";
  const BOX = "M3.8 1.8h8.4a2 2 0 0 1 2 2v8.4a2 2 0 0 1-2 2H3.8a2 2 0 0 1-2-2V3.8a2 2 0 0 1 2-2z";
  // Shapes in a box of 16: what is drawn as a line, what is filled, and the dashes of the line.
  const MARKS = {
    flag: { solid: "M8 1 15.4 14.4H.6zM7.2 5.6v4h1.6v-4zm0 5.4v1.6h1.6v-1.6z" },
    review: { line: RING, solid: "M8 1.6a6.4 6.4 0 0 1 0 12.8z" },
    fast: { line: TICK, width: 2.2 },
    would: { line: TICK, width: 2.2, dashes: "3 1.8" },
    person: { line: RING },
    audit: { line: `${BOX}M5 5h.1M8 8h.1M11 11h.1` },
    unknown: { line: RING, dashes: "3 2" },
  };
  const STYLE = `
    :host { all: initial; display: block; font: inherit; color-scheme: light dark; }
    :host(.small) { display: inline-block; margin-left: 6px; vertical-align: 1px; }
    .hat { margin-top: 8px; font-size: 14px; line-height: 24px; color: #6b7280; overflow-wrap: anywhere; }
    .lane { display: inline-flex; align-items: center; gap: 6px; margin-right: 8px; padding: 5px 8px; }
    .lane { line-height: 20px; border-radius: 4px; background: #f3f4f6; color: #374151; white-space: nowrap; }
    .small { margin: 0; line-height: 20px; }
    .small .lane { padding: 0 6px; font-size: 12px; line-height: 18px; gap: 4px; }
    .fast { background: #e2f3e8; color: #14653a; }
    .review { background: #fcf0d8; color: #7a4a00; }
    .flag { background: #fce7e4; color: #a3211c; }
    svg { width: 12px; height: 12px; flex: none; }
    b { font-weight: 500; }
    b, .reason, .low { color: #111827; }
    .number { font-variant-numeric: tabular-nums; }
    code { font: 12px/16px ui-monospace, SFMono-Regular, Menlo, monospace; }
    .high { color: #a3211c; }
    .med { color: #7a4a00; }
    a { color: #111827; text-decoration: underline; text-underline-offset: 2px; }
    a:focus-visible { outline: 2px solid #0b5cad; outline-offset: 2px; border-radius: 2px; }
    p { margin: 8px 0 0; font-size: 12px; line-height: 16px; color: #6b7280; }
    @media (prefers-color-scheme: dark) {
      .hat, p { color: #9ca3af; }
      .lane { background: #374151; color: #e5e7eb; }
      .fast { background: #14301f; color: #7fd8a3; }
      .review { background: #33270c; color: #f0c168; }
      .flag { background: #3d1915; color: #ff9c92; }
      b, .reason, .low, a { color: #f3f4f6; }
      .high { color: #ff9c92; }
      .med { color: #f0c168; }
      a:focus-visible { outline-color: #84bcf7; }
    }`;

  const make = (name, className, ...parts) => {
    const element = document.createElement(name);
    if (className) element.className = className;
    element.append(...parts);
    return element;
  };
  const shape = (name, values, ...parts) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(values)) element.setAttribute(key, value);
    element.append(...parts);
    return element;
  };
  const mark = ({ line, solid, width = 1.6, dashes = "none" }) => {
    const stroke = { fill: "none", stroke: "currentColor", "stroke-width": width, "stroke-dasharray": dashes };
    const drawn = line ? [shape("path", { d: line, "stroke-linecap": "round", ...stroke })] : [];
    if (solid) drawn.push(shape("path", { d: solid, fill: "currentColor", "fill-rule": "evenodd" }));
    return shape("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, ...drawn);
  };
  const lane = ({ kind, word }) => make("span", `lane ${kind}`, mark(MARKS[kind] ?? MARKS.unknown), word);
  const odds = ({ chance, interval }) => {
    const number = chance ? ["stays clean ", make("b", "", chance), interval ? " " : ""] : [];
    return make("span", "number", ...number, interval && `(${interval})`);
  };
  const worst = ({ severity, name, place }) => {
    const where = place ? [" in ", make("code", "", make("bdi", "", place))] : [];
    return make("span", "", make("span", severity, name), ...where);
  };
  const path = (names) => {
    const shown = names.flatMap((name, index) => [...(index ? [" → "] : []), make("bdi", "", name)]);
    return make("span", "", "trust path ", ...shown);
  };
  const link = ({ href, words }) => {
    const shown = make("a", "", words);
    Object.assign(shown, { href, target: "_blank", rel: "noopener noreferrer" });
    return make("span", "", shown);
  };
  const contents = ({ line, badge, reason, finding, path: names, link: place, isSmall }) => {
    if (line) return make("p", "", line);
    const parts = [];
    if (badge.chance || badge.interval) parts.push(odds(badge));
    if (reason) parts.push(make("bdi", "reason", reason));
    if (finding) parts.push(worst(finding));
    if (names?.length > 1) parts.push(path(names));
    if (place) parts.push(link(place));
    const spaced = parts.flatMap((part, index) => (index ? [" · ", part] : [part]));
    return make("div", isSmall ? "hat small" : "hat", lane(badge), ...spaced);
  };

  // The element that shows a view; what is in it no script of the page can read.
  const draw = (view) => {
    const host = document.createElement(TAG);
    if (view.isSmall) host.className = "small";
    const root = host.attachShadow({ mode: "closed" });
    const sheet = new CSSStyleSheet(); // no policy of a page forbids what is adopted
    sheet.replaceSync(STYLE);
    root.adoptedStyleSheets = [sheet];
    root.append(contents(view));
    return host;
  };
  return Object.freeze({ TAG, draw });
})();

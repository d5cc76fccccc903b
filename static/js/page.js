// Comforts on top of pages that work without any script.
"use strict";

// The theme button goes round: system, light, dark.
{
  const root = document.documentElement;
  const themes = ["system", "light", "dark"];
  const label = () => {
    const button = document.getElementById("theme");
    if (!button) return;
    button.hidden = false;
    button.querySelector("span").textContent = root.dataset.theme ?? "system";
  };
  const choose = (theme) => {
    if (theme === "system") delete root.dataset.theme;
    else root.dataset.theme = theme;
    try {
      if (theme === "system") localStorage.removeItem("theme");
      else localStorage.setItem("theme", theme);
    } catch {
      // The choice then holds for this page only.
    }
    label();
  };
  document.addEventListener("click", (event) => {
    if (event.target instanceof Element && event.target.closest("#theme"))
      choose(themes[(themes.indexOf(root.dataset.theme ?? "system") + 1) % themes.length]);
  });
  document.addEventListener("htmx:historyRestore", label);
  label();
}

// The menu closes on Esc, which leaves the focus on its name, and on a click beside it.
{
  const shut = (event, isOutside) => {
    for (const menu of document.querySelectorAll(".menu[open]")) {
      if (isOutside && menu.contains(event.target)) continue;
      menu.open = false;
      if (!isOutside) menu.firstElementChild.focus();
    }
  };
  document.addEventListener("keydown", (event) => event.key === "Escape" && shut(event, false));
  document.addEventListener("click", (event) => shut(event, true));
}

// A row that is opened or closed stays where it is under the pointer, also when another row above it closes.
{
  let held = null;
  document.addEventListener("htmx:beforeSwap", (event) => {
    const row = event.detail.requestConfig?.elt?.closest?.(".row");
    held = row ? { id: row.id, top: row.getBoundingClientRect().top } : null;
  });
  document.addEventListener("htmx:afterSwap", () => {
    const row = held && document.getElementById(held.id);
    if (row) window.scrollBy({ top: row.getBoundingClientRect().top - held.top, behavior: "instant" });
    held = null;
  });
}

// A failed update says what happened to what is on the screen.
{
  const say = (words) => {
    const place = document.getElementById("problem");
    if (!place) return;
    place.textContent = words;
    place.hidden = !words;
  };
  document.addEventListener("htmx:sendError", () => say("The server cannot be reached. What you see is unchanged. Try again."));
  document.addEventListener("htmx:responseError", () => say("The server could not answer. What you see is unchanged. Try again."));
  document.addEventListener("htmx:afterOnLoad", (event) => {
    if (event.detail.successful) say("");
  });
}

// After an action the focus goes to the next row, and the offer to undo it goes when it is too late.
{
  let acted = null;
  const tidy = () => {
    for (const offer of document.querySelectorAll(".offer")) {
      offer.ends ??= Date.now() + Number(offer.dataset.left); // by this clock alone, whatever the server's says
      const left = offer.ends - Date.now();
      if (left > 0) setTimeout(tidy, left + 50);
      else offer.remove();
    }
    document.getElementById("offers").hidden = !document.querySelector(".offer");
  };
  document.addEventListener("htmx:beforeRequest", (event) => {
    const { elt, requestConfig } = event.detail;
    acted = requestConfig.verb === "post" && requestConfig.path !== "/act/look" ? elt.closest(".row")?.id : null;
  });
  document.addEventListener("htmx:afterSettle", () => {
    const row = acted && document.getElementById(acted);
    acted = null;
    if (row) (row.nextElementSibling ?? row).querySelector(".row-link")?.focus({ preventScroll: true });
    tidy();
  });
  tidy();
}

"use strict";
// It shows pushes, and a page of its own while the site cannot be reached. It keeps no other page: they are private.
const files = [{% for file in files %}"{{ file|escapejs }}"{% if not forloop.last %}, {% endif %}{% endfor %}];
const [offline] = files;
const version = "{{ version|escapejs }}";

const keep = async () => {
  await (await caches.open(version)).addAll(files);
  await skipWaiting();
};
const begin = async () => {
  for (const name of await caches.keys()) if (name !== version) await caches.delete(name);
  await registration.navigationPreload?.enable();
  await clients.claim();
};
addEventListener("install", (event) => event.waitUntil(keep()));
addEventListener("activate", (event) => event.waitUntil(begin()));

const load = async ({ preloadResponse, request }) => {
  try {
    return await preloadResponse ?? await fetch(request);
  } catch {
    return caches.match(offline);
  }
};
addEventListener("fetch", (event) => {
  const { method, mode, url } = event.request;
  if (mode === "navigate" && method === "GET") event.respondWith(load(event));
  else if (files.includes(new URL(url).pathname)) event.respondWith(caches.match(url).then((file) => file ?? fetch(url)));
});

addEventListener("push", (event) => {
  const { text, path } = event.data.json();
  const shown = { body: text, data: path, icon: "{{ icon|escapejs }}", badge: "{{ badge|escapejs }}", tag: "sunstead", renotify: true };
  event.waitUntil(registration.showNotification("Sunstead", shown));
});
addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(clients.openWindow(event.notification.data));
});

"use strict";

const form = document.getElementById("subscribe");
const problem = document.getElementById("push-problem");
const say = (name) => Object.assign(problem, { textContent: form.dataset[name], hidden: false });

const subscribe = async () => {
  const { worker, key } = form.dataset;
  await navigator.serviceWorker.register(worker);
  const { pushManager } = await navigator.serviceWorker.ready;
  const options = { userVisibleOnly: true, applicationServerKey: key };
  return pushManager.subscribe(options).catch(async (problem) => {
    if (problem.name !== "InvalidStateError") throw problem; // this one alone: one for an earlier key is in the way
    await (await pushManager.getSubscription())?.unsubscribe();
    return pushManager.subscribe(options);
  });
};

if ("serviceWorker" in navigator && "PushManager" in window) [problem.hidden, form.hidden] = [true, false];
else say("unable");
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    if (await Notification.requestPermission() !== "granted") return say("denied");
    const { endpoint, keys } = (await subscribe()).toJSON();
    const time_zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    for (const [name, value] of Object.entries({ endpoint, ...keys, time_zone })) form.elements[name].value = value;
    form.submit();
  } catch {
    say("failed");
  }
});

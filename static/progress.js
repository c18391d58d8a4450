// A recording under way: how far, how long still, and a way out.

/**
 * @param {HTMLElement} host is filled, and emptied again by remove()
 * @param {{onCancel: () => void, say?: (progress: import("./record.js").Progress) => string}} options  say: the words for it
 * @returns {{update(progress: import("./record.js").Progress): void, remove(): void}}
 */
export function progressView(host, { onCancel, say = sentence }) {
  const box = document.createElement("div");
  box.className = "progress";
  const bar = document.createElement("progress");
  bar.max = 1;
  bar.setAttribute("aria-label", "Recording");
  const said = document.createElement("span");
  said.className = "said";
  said.setAttribute("role", "status");
  const cancel = document.createElement("button");
  cancel.type = "button";
  cancel.className = "button";
  cancel.textContent = "Cancel";
  cancel.addEventListener("click", onCancel);
  box.append(said, bar, cancel);
  host.append(box);
  return {
    update(progress) {
      if (progress.state === "running" && progress.total) bar.value = progress.done / progress.total;
      else bar.removeAttribute("value");
      const text = say(progress);
      if (said.textContent !== text) said.textContent = text;
    },
    remove: () => box.remove(),
  };
}

/** @param {import("./record.js").Progress} progress */
export function sentence({ state, done, total, secondsLeft }, doing = "Recording") {
  if (state === "waiting") return "The server is busy; asking again …";
  if (state === "queued") return "Waiting for its turn …";
  const percent = total ? Math.floor((100 * done) / total) : 0;
  const left = secondsLeft === null ? "" : ` · ${duration(secondsLeft)} left`;
  return `${doing} ${percent} %${left}`;
}

function duration(seconds) {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  return `${Math.round(seconds / 60)} min`;
}

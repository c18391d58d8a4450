// Those who follow: the link and its code, and every move of the lecture, sent to the server with the key that this tab holds.

import { el, setText } from "../player/dom.js";

const KEPT = "flashstep-follow"; // in this tab's storage: a reload and the next lecture go on with the same session
const AGAIN_MS = 1000;
const COUNT_MS = 2500;

/** @typedef {{code: string, key: string, links: {link: string, qr: string}[], sequence: number}} Session */

/**
 * @param {{title: HTMLElement, count: HTMLElement, lecture: {kernel: string, query: string}, told: (session: Session|null) => void}} options
 *   title: stands beside the lecture's title; count: says in the strip how many follow; told: whenever there is another session
 */
export function createStudents({ title, count, lecture, told }) {
  /** @type {Session|null} */
  let session = remembered();
  /** @type {object|null} the newest place that the server does not know */
  let pending = null;
  let newest = null;
  let sending = false;
  let trouble = "";
  let followers = 0;
  let chosen = 0; // which of this machine's addresses is shown

  const body = el("div", { class: "students-body" });
  const dialog = /** @type {HTMLDialogElement} */ (el("dialog", { class: "students", "aria-labelledby": "students-title" },
    el("h2", { id: "students-title", text: "Follow this lecture" }), body,
    el("form", { method: "dialog", class: "buttons" },
      el("button", { class: "button end-session", type: "button", text: "End the session", on: { click: end } }),
      el("button", { class: "button primary", autofocus: true, text: "Close" }))));
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  document.body.append(dialog);

  /** Ask the server for a session, or for the one that this tab has. @returns {Promise<string>} why not, or "" */
  async function begin() {
    const again = session ? { code: session.code, key: session.key, sequence: session.sequence } : {};
    let answer;
    try {
      answer = await fetch("/api/follow", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(again) });
    } catch {
      return "The server does not answer. Is flashstep still running?";
    }
    const found = await answer.json().catch(() => ({}));
    if (!answer.ok) return found.error ?? `The server answered ${answer.status}.`;
    keep({ ...found, sequence: session?.sequence ?? 0 });
    return "";
  }

  function keep(next) {
    session = next;
    remember(session);
    told(session);
  }

  /** One move at a time, and only the newest: those who follow need no other. */
  async function send() {
    if (sending) return;
    sending = true;
    while (session && pending) {
      const place = pending;
      pending = null;
      const said = await post(place);
      if (said !== trouble) {
        trouble = said;
        show();
      }
      if (!said) continue;
      pending ??= place;
      await new Promise((resolve) => { setTimeout(resolve, AGAIN_MS); });
    }
    sending = false;
  }

  /** @returns {Promise<string>} what is wrong, or "" */
  async function post(place) {
    try {
      const answer = await fetch(`/api/follow/${session.code}`, { method: "POST", body: JSON.stringify(place),
        headers: { "Content-Type": "application/json", "X-Follow-Key": session.key } });
      if (answer.ok) {
        const { sequence, followers: now } = await answer.json();
        keep({ ...session, sequence });
        counted(now);
        return "";
      }
      if (answer.status === 404) return await begin() || "asking again"; // the server was started anew
      return (await answer.json()).error;
    } catch {
      return "Those who follow are not reached.";
    }
  }

  function counted(now) {
    if (now === followers) return;
    followers = now;
    show();
  }

  async function end() {
    const ended = session;
    keep(null);
    pending = null;
    show();
    dialog.close();
    if (ended) await fetch(`/api/follow/${ended.code}`, { method: "DELETE", headers: { "X-Follow-Key": ended.key } }).catch(() => {});
  }

  function show() {
    const link = session?.links[Math.min(chosen, session.links.length - 1)];
    title.hidden = !link;
    if (link) title.replaceChildren(invitation(link));
    const follow = `${followers} ${followers === 1 ? "follows" : "follow"}`;
    count.hidden = !session;
    setText(count, trouble ? "not sent" : follow);
    count.title = trouble;
    dialog.querySelector(".end-session").hidden = !session;
    if (!session) return;
    body.replaceChildren(...(link ? [invitation(link), ...several()] : alone()),
      el("p", { class: "students-count", role: "status", text: trouble || `${follow} now.` }));
  }

  const invitation = ({ link, qr }) => el("div", { class: "invitation" },
    el("img", { class: "qr", src: qr, alt: `QR code of ${link}` }),
    el("p", { class: "students-link", text: link.replace(/^http:\/\//, "") }));

  /** A machine in several networks has several addresses; the lecturer knows which is the room's. */
  function several() {
    if (session.links.length < 2) return [];
    const select = /** @type {HTMLSelectElement} */ (el("select", { "aria-label": "Address", on: { change: () => {
      chosen = select.selectedIndex;
      show();
    } } }, ...session.links.map(({ link }, i) => el("option", { text: new URL(link).host, selected: i === chosen }))));
    return [el("label", { class: "students-several" }, "If students do not reach it, try another address of this machine ", select)];
  }

  const alone = () => {
    const here = `${location.origin}/f/${session.code}`;
    return [
      el("p", {}, "No other machine can reach this server: it listens on this one alone. Start it with ",
        el("code", { text: "flashstep serve --host 0.0.0.0" }), " and the link and its QR code stand here."),
      el("p", {}, "In this machine's own browsers: ", el("a", { href: here, target: "_blank", text: here.replace(/^http:\/\//, "") })),
    ];
  };

  async function open() {
    if (!dialog.open) dialog.showModal();
    const fresh = session === null;
    if (fresh) body.replaceChildren(el("p", { text: "Opening a session …" }));
    const said = await begin();
    if (said && fresh) body.replaceChildren(el("p", { class: "error", role: "alert", text: said }));
    else show();
    pending = newest;
    send();
  }

  // Students join while nothing moves: what the screen says of their number is asked for now and then.
  setInterval(async () => {
    if (!session || document.hidden || !(dialog.open || document.body.dataset.card === "title")) return;
    const answer = await fetch(`/api/follow/${session.code}`).catch(() => null);
    if (answer?.ok) counted((await answer.json()).followers);
  }, COUNT_MS);

  show();
  if (session) begin().then(show);
  return {
    open,
    session: () => session,
    /** @param {{position: number, order: string, focus: number, cell: string|null, card: string, question: string|null, blank: boolean}} place */
    show({ position, order, focus, cell, card, question, blank }) {
      newest = { kernel: lecture.kernel, query: lecture.query, position, order, focus, cell, card, question, blank };
      pending = newest;
      if (session) send();
    },
  };
}

/** In this tab, and in the one that it opens. @param {Session|null} session */
export function remember(session) {
  try {
    if (session) sessionStorage.setItem(KEPT, JSON.stringify(session));
    else sessionStorage.removeItem(KEPT);
  } catch {
    // without storage the session ends with this page
  }
}

/** @returns {Session|null} */
function remembered() {
  try {
    const found = JSON.parse(sessionStorage.getItem(KEPT) ?? "null");
    return found && typeof found.code === "string" && typeof found.key === "string" && Array.isArray(found.links) ? found : null;
  } catch {
    return null;
  }
}

// Predict, then reveal: the prediction stays, beside the answer. Without this the answer unfolds all the same.

/** @param {Iterable<HTMLElement>} sections */
export function questions(sections) {
  for (const section of sections) {
    const input = section.querySelector(".predict input");
    const reveal = section.querySelector(".reveal");
    const said = reveal.querySelector(".said");
    reveal.addEventListener("toggle", () => {
      const text = input.value.trim();
      said.hidden = !reveal.open || text === "";
      said.querySelector("b").textContent = text;
      said.dataset.verdict = verdict(text, reveal.dataset.result);
    });
    input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      reveal.open = true;
    });
  }
}

/** "right" where both are the same number as far as it was written, or the same words; else "". */
function verdict(text, result) {
  if (!text || !result) return "";
  const plain = (one) => one.trim().toLowerCase().replaceAll(",", "").replaceAll("−", "-").replaceAll("∞", "infinity")
    .replace(/^minus /, "-").replace(/inf$/, "infinity");
  const [a, b] = [plain(text), plain(result)];
  if (a === b) return "right";
  const [x, y] = [Number(a), Number(b)];
  const digits = a.split(".")[1]?.length ?? 0;
  return a !== "" && Number.isFinite(x) && Number.isFinite(y) && Math.abs(x - y) <= 0.5 * 10 ** -digits * (digits ? 1 : 0) ? "right" : "";
}

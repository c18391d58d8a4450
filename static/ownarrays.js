// The dialog for a person's own arrays: files dropped or chosen, or numbers pasted.

/**
 * @param {{openers: Iterable<HTMLElement>, onArrays: (hash: string) => void}} options
 *   onArrays is called with the hash under which the server keeps what was sent
 */
export function ownArrays({ openers, onArrays }) {
  const dialog = document.getElementById("own-arrays");
  const chooser = document.getElementById("own-files");
  const list = document.getElementById("own-files-list");
  const text = document.getElementById("own-text");
  const error = document.getElementById("own-error");
  const notes = document.getElementById("own-notes");
  const use = document.getElementById("own-use");
  const drop = dialog.querySelector(".drop");
  let files = [];
  let kept = null; // the hash of what was sent, while its notes are being read

  const changed = () => {
    kept = null;
    error.textContent = "";
    notes.textContent = "";
    use.textContent = "Use these";
  };
  const setFiles = (chosen) => {
    files = [...chosen];
    list.textContent = files.map((file) => file.name).join("  ");
    changed();
  };
  for (const opener of openers) opener.addEventListener("click", () => dialog.showModal());
  chooser.addEventListener("change", () => setFiles(chooser.files));
  text.addEventListener("input", changed);

  drop.addEventListener("dragover", (event) => {
    event.preventDefault();
    drop.classList.add("over");
  });
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    setFiles(event.dataTransfer.files);
  });

  use.addEventListener("click", async () => {
    if (kept) {
      onArrays(kept);
      return;
    }
    const body = new FormData();
    for (const file of files) body.append("files", file);
    if (text.value.trim()) body.append("text", text.value);
    use.disabled = true;
    try {
      const response = await fetch("/api/arrays", { method: "POST", body });
      const answer = await response.json();
      if (!response.ok) {
        error.textContent = answer.error;
        return;
      }
      const fits = answer.fits[JSON.parse(document.getElementById("explore").textContent).kernel];
      if (fits !== true) {
        error.textContent = fits;
        return;
      }
      if (answer.notes.length === 0) {
        onArrays(answer.arrays);
        return;
      }
      // Something was changed on the way in: said before it is used.
      kept = answer.arrays;
      error.textContent = "";
      notes.textContent = answer.notes.join(" ");
      use.textContent = "Use them so";
    } catch {
      error.textContent = "The server does not answer; is flashstep still running?";
    } finally {
      use.disabled = false;
    }
  });
}

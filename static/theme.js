// Light or dark, before anything is drawn: ?theme= wins, then what was chosen here, then the system. A classic script
// in the head, so that no page flashes in the wrong colours.
(function () {
  const root = document.documentElement;
  root.classList.add("scripted");
  const known = (theme) => theme === "light" || theme === "dark";
  function remembered() {
    try {
      return localStorage.getItem("theme");
    } catch {
      return null; // storage may be switched off
    }
  }
  const asked = new URLSearchParams(location.search).get("theme");
  const theme = known(asked) ? asked : remembered();
  if (known(theme)) root.dataset.theme = theme;

  document.addEventListener("DOMContentLoaded", () => {
    // On a phone the kernels' names scroll: the one that is open should show. Their row alone moves; scrollIntoView would
    // take the page with it, away from where a link or the player put it.
    const names = document.querySelector(".kernels");
    const open = names?.querySelector("[aria-current]");
    if (open) names.scrollLeft = open.offsetLeft - names.offsetLeft - (names.clientWidth - open.offsetWidth) / 2;
    const button = document.getElementById("theme");
    if (!button) return;
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
    const say = () => {
      const text = isDark() ? "Use light colours" : "Use dark colours";
      button.setAttribute("aria-label", text);
      button.title = text;
    };
    say();
    dark.addEventListener("change", say);
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      try {
        localStorage.setItem("theme", root.dataset.theme);
      } catch {
        // it holds for this page only
      }
      const here = new URL(location.href);
      if (here.searchParams.has("theme")) {
        here.searchParams.set("theme", root.dataset.theme);
        history.replaceState(history.state, "", here);
      }
      say();
      document.dispatchEvent(new CustomEvent("themechange"));
    });
  });
})();

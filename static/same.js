// Links to another view of the same run (`data-same`): they take the parameters, the step and the cell along.

// The address as it is at the moment of following: the player writes its newest state to it on "linkwanted".
function follow(link) {
  document.dispatchEvent(new CustomEvent("linkwanted"));
  link.href = new URL(link.href).pathname + location.search;
}

for (const link of document.querySelectorAll("a[data-same]")) {
  for (const type of ["pointerdown", "focus", "click"]) link.addEventListener(type, () => follow(link));
}

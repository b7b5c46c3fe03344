"use strict";
// The page is complete without this: it only opens and closes trees, and opens everything for printing.
const branches = (tree) => tree.querySelectorAll("details");
for (const buttons of document.querySelectorAll(".buttons")) {
  buttons.hidden = false;
  buttons.addEventListener("click", (event) => {
    const wish = event.target.dataset.tree;
    if (wish) {
      for (const branch of branches(buttons.nextElementSibling)) branch.open = wish === "open";
    }
  });
}
let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  for (const branch of closed) branch.open = true;
});
addEventListener("afterprint", () => {
  for (const branch of closed) branch.open = false;
});

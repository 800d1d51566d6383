// Light or dark before the first paint; a script of its own, since modules wait for the page.
"use strict";
try {
  const chosen = localStorage.getItem("kgwalk.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // no storage in this browser: the system's choice stands
}

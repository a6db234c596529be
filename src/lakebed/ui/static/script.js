// Loads the slow sections of a page after its first paint.
"use strict";
for (const place of document.querySelectorAll("[data-load]")) {
  fetch(place.dataset.load, { credentials: "same-origin" })
    .then((answer) => answer.text())
    .then((html) => { place.innerHTML = html; })
    .catch(() => { place.textContent = "The server does not answer. Is it still running?"; });
}

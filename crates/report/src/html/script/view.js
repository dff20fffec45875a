// What the reader has chosen, kept in the page's address, so that a view can be sent to others and outlives a reload.

const VIEW = "#view?";
const chosen = new URLSearchParams(location.hash.startsWith(VIEW) ? location.hash.slice(VIEW.length) : "");

let kept = String(chosen);

/** What an address said of a choice; null if nothing. */
function recall(key) {
  return chosen.get(key);
}

/** Keeps a choice; what is usual needs no room. */
function remember(key, value, usual = null) {
  if (value == null || value === "" || value === usual) chosen.delete(key);
  else chosen.set(key, String(value));
  const text = String(chosen);
  if (text === kept) return;
  kept = text;
  try {
    history.replaceState(null, "", text ? VIEW + text : location.pathname + location.search);
  } catch {
    // A page without an address of its own keeps nothing.
  }
}

/** A select that takes its choice from the address and keeps it there. */
function keepChoice(key, select, usual) {
  const first = select.value;
  const asked = recall(key);
  if ([...select.options].some((option) => option.value === asked)) select.value = asked;
  select.addEventListener("change", () => remember(key, select.value, usual ? usual() : first));
}

if (location.hash.startsWith(VIEW)) addEventListener("load", () => document.getElementById("explore").scrollIntoView());

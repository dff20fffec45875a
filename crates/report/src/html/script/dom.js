// Elements, numbers and clipboard: what every other part of the page uses.

/** An element with attributes (functions become listeners) and children (texts are never read as HTML). */
function el(tag, attributes = {}, ...children) {
  return fillElement(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
function svg(tag, attributes = {}, ...children) {
  return fillElement(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fillElement(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    // An attribute of style would be refused by the page's policy.
    else if (name === "style") element.style.cssText = value;
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child != null));
  return element;
}

/** A way to draw a part of the page anew: at once where the reader is, elsewhere when there is nothing else to do. */
function whenSeen(host, draw) {
  let isNear = false;
  let isStale = false;
  const now = () => {
    isStale = false;
    draw();
  };
  const ifStale = () => { if (isStale) now(); };
  new IntersectionObserver((changes) => {
    isNear = changes.at(-1).isIntersecting;
    if (isNear) ifStale();
  }).observe(host);
  addEventListener("beforeprint", ifStale);
  const later = window.requestIdleCallback ?? setTimeout;
  return () => {
    if (isNear) return now();
    if (!isStale) later(ifStale, { timeout: 200 });
    isStale = true;
  };
}

const thousands = new Intl.NumberFormat("en-US");

/** `10,000` */
function showCount(count) {
  return thousands.format(count);
}

/** About three significant digits, as in the rest of the report; `isPadded` keeps zeros at the end. */
function showNumber(value, isPadded = false) {
  const size = Math.abs(value);
  if (!Number.isFinite(value)) return value > 0 ? "unlimited" : "–";
  if (size !== 0 && (size >= 1e15 || size < 1e-4)) return value.toExponential(2);
  if (size >= 1e6) return `${+(value / 1e6).toFixed(2)}M`;
  if (size >= 100) return showCount(Math.round(value));
  return isPadded && size !== 0 ? value.toPrecision(3) : String(+value.toPrecision(3));
}

/** Figures that belong together, with the decimals of the first: a value and the ends of its range. Whole numbers need none. */
function showTogether(values) {
  const first = Math.abs(values[0]);
  const isPlain = (value) => Number.isFinite(value) && Math.abs(value) < 1e6 && (value === 0 || Math.abs(value) >= 1e-4);
  if (values.every(Number.isInteger) || !values.every(isPlain) || first === 0) return values.map((value) => showNumber(value));
  const decimals = Math.max(0, 2 - Math.floor(Math.log10(first)));
  return values.map((value) => (Math.abs(value) >= 100 && decimals === 0 ? showCount(Math.round(value)) : value.toFixed(decimals)));
}

/** A setting as it was given; only long fractions are shortened. */
function showValue(value) {
  if (value == null) return "–";
  return typeof value === "number" && !Number.isInteger(value) ? showNumber(value) : String(value);
}

function showSeconds(seconds) {
  if (seconds < 60) return `${+seconds.toFixed(1)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

/** Orders values as people list them: missing ones first, numbers by size, texts by alphabet. */
function compareValues(a, b) {
  const rank = (value) => (value == null ? 0 : typeof value === "boolean" ? 1 : typeof value === "number" ? 2 : 3);
  if (rank(a) !== rank(b)) return rank(a) - rank(b);
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Orders names as people do, numbers in them by size. To make it for each comparison takes most of a second for 500 names. */
const inOrder = new Intl.Collator("en", { numeric: true });

/** Appends to the list that a map holds for a key. */
function gather(lists, key, item) {
  const list = lists.get(key);
  if (list) list.push(item);
  else lists.set(key, [item]);
}

function middle(sorted) {
  const half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

/** Text with a button that copies it. */
function codeBlock(text, what) {
  return el("div", { class: "code" },
    el("pre", { tabindex: 0, "aria-label": what }, text),
    el("button", { type: "button", class: "copy", "aria-label": `Copy ${what}` }, "Copy"));
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Pages opened from a file or an old server have no clipboard; a selection can still be copied.
    const field = el("textarea", { class: "offscreen", "aria-hidden": "true" });
    field.value = text;
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.(".copy");
  if (!button) return;
  await copyText(button.parentElement.querySelector("pre").textContent);
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
});

// On paper nothing can be opened: what is decided on is.
addEventListener("beforeprint", () => {
  const closed = [...document.querySelectorAll("#answer .frontier:not([open]), #failures:not([open]), #environment:not([open])")];
  for (const each of closed) each.open = true;
  addEventListener("afterprint", () => { for (const each of closed) each.open = false; }, { once: true });
});

document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const isDark = getComputedStyle(root).getPropertyValue("color-scheme").trim() === "light dark"
    ? matchMedia("(prefers-color-scheme: dark)").matches
    : root.style.colorScheme === "dark";
  root.style.colorScheme = isDark ? "light" : "dark";
});

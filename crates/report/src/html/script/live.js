// What goes on now, asked of the server of this page every two seconds. Only a page of `vsweep report --live` has it.

const BETWEEN_LOOKS_MS = 2000;
const live = document.getElementById("live");
const follow = document.getElementById("live-follow");
let seen = "";

follow.checked = recall("follow") !== "no";
follow.addEventListener("change", () => remember("follow", follow.checked ? null : "no"));

function showNow(now) {
  const place = (name) => document.getElementById(`live-${name}`);
  const passed = (moment) => showSeconds(Math.max(0, (Date.parse(now.at) - Date.parse(moment)) / 1000));
  place("count").textContent = now.count;
  const doing = now.doing.map((one) => el("li", {}, el("strong", {}, one.server), `: ${one.what}${one.since ? `, for ${passed(one.since)}` : ""}`));
  place("doing").replaceChildren(...(doing.length ? doing : [el("li", {}, now.working ? "between two servers" : "not running")]));
  const text = JSON.stringify([now.recent, now.last]);
  if (text === seen) return;
  seen = text;
  place("last").replaceChildren(...now.last.map((run) => el("li", {}, el("span", { class: `tag ${run.outcome}` }, run.outcome), ` ${run.name}, ${passed(run.at)} ago`)));
  place("charts").replaceChildren(...(now.recent.length
    ? now.recent.flatMap(({ server, read }) => [server && el("h3", {}, server), watchedCharts(read)]).filter(Boolean)
    : [el("p", { class: "empty" }, "Nothing was read in the last minutes.")]));
}

async function look() {
  try {
    const answer = await fetch("now.json", { cache: "no-store" });
    if (!answer.ok) throw new Error(String(answer.status));
    const now = await answer.json();
    live.classList.remove("away");
    showNow(now);
    const isBusy = dialog.open || document.querySelector(".tip:not([hidden])") || document.activeElement?.matches("#explore input, #explore select, input[type=search]");
    if (now.version > Number(live.dataset.version) && follow.checked && !isBusy) location.reload();
  } catch {
    live.classList.add("away");
    document.getElementById("live-count").textContent = "vsweep report --live does not answer; what is below is the last that was seen.";
  }
  setTimeout(look, BETWEEN_LOOKS_MS);
}

look();

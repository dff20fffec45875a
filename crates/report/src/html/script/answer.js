// The recommendations one at a time, and the sections that open when they are asked for. Without scripts all recommendations are shown.

function buildPicks() {
  const picks = [...document.querySelectorAll(".pick")];
  if (picks.length < 2) return;
  const host = document.getElementById("picks");
  const buttons = [...host.children];
  const parts = [...document.querySelectorAll("#answer [data-pick]:not(button)")];
  const ofWorkloads = [...document.querySelectorAll("#answer [data-of]:not(.pick)")];
  const workloadOf = (number) => Number(picks[number].dataset.of);
  const show = (number) => {
    remember("pick", number, 0);
    parts.forEach((part) => part.classList.toggle("closed", Number(part.dataset.pick) !== number));
    ofWorkloads.forEach((part) => part.classList.toggle("closed", Number(part.dataset.of) !== workloadOf(number)));
    buttons.forEach((button, place) => button.setAttribute("aria-pressed", String(place === number)));
  };
  buttons.forEach((button, number) => button.addEventListener("click", () => {
    show(number);
    // A workload without measurements has no place.
    if (workloadOf(number) >= 0) chooseWorkload(workloadOf(number));
  }));
  targets.chosen.push((workload) => {
    const current = buttons.findIndex((button) => button.getAttribute("aria-pressed") === "true");
    const own = picks.findIndex((_, number) => workloadOf(number) === workload);
    if (own >= 0 && workloadOf(current) !== workload) show(own);
  });
  host.hidden = false;
  const kept = Number(recall("pick") ?? 0);
  show(picks[kept] ? kept : 0);
}

function buildParts() {
  const open = (hash) => {
    const part = document.getElementById(hash.slice(1));
    if (part?.matches("details")) part.open = true;
  };
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href^='#']");
    if (link) open(link.hash);
  });
  open(location.hash);
  // A phone begins with the answer alone.
  const isView = location.hash.startsWith(VIEW);
  if (matchMedia("(max-width: 559px)").matches && !isView && location.hash !== "#explore") document.getElementById("explore").open = false;
}

buildPicks();
buildParts();

// Pareto dominance and the knee, by the rules of src/table/pareto.rs, for any two figures. Places are { x, y }.

const sameFigure = (a, b) => Number.isFinite(a) && Number.isFinite(b) && Math.abs(a - b) <= 1e-9 * Math.max(Math.abs(a), Math.abs(b));

/** The places that no other beats, from the best x to the worst. */
function paretoFrontier(places, xUp, yUp) {
  const toward = (value, up) => (up ? value : -value);
  const ranked = places
    .filter((place) => Number.isFinite(place.x) && Number.isFinite(place.y))
    .map((place) => ({ place, x: toward(place.x, xUp), y: toward(place.y, yUp) }))
    .sort((a, b) => b.x - a.x || b.y - a.y);
  const front = [];
  let best = -Infinity; // best y among strictly better x
  for (let start = 0; start < ranked.length;) {
    let end = start;
    while (end < ranked.length && sameFigure(ranked[end].x, ranked[start].x)) end += 1;
    const group = ranked.slice(start, end);
    const top = Math.max(...group.map((one) => one.y));
    if (top > best && !sameFigure(top, best)) {
      front.push(...group.filter((one) => sameFigure(one.y, top)).map((one) => one.place));
      best = top;
    }
    start = end;
  }
  return front;
}

/** The frontier's place farthest beyond the line between its ends; null if it does not bend. */
function kneeOf(front, xUp, yUp) {
  if (front.length < 3) return null;
  const [first, last] = [front[0], front.at(-1)];
  const [width, height] = [last.x - first.x, last.y - first.y];
  if (!width || !height) return null;
  const beyond = (place) => (place.y - first.y) / height - (place.x - first.x) / width;
  const farthest = front.reduce((best, place) => (beyond(place) > beyond(best) ? place : best));
  return beyond(farthest) > 0.02 ? farthest : null;
}

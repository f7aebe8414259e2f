// The meaning of a segmenter's output: the share of the pixels of each class, and the colours of all but the background.
function meaningOf([scores], facts) {
  const [classes, side] = [facts.labels.length, facts.size];
  const found = new Array(classes).fill(0);
  const rgba = new Uint8ClampedArray(4 * side * side);
  const shown = facts.labels.filter((label) => label !== facts.background);
  const colours = facts.labels.map((label) => (label === facts.background ? '' : facts.palette[shown.indexOf(label) % facts.palette.length]));
  const inks = colours.map((colour) => (colour ? [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)).concat(255) : [0, 0, 0, 0]));
  for (let pixel = 0; pixel < side * side; pixel++) {
    let best = 0;
    for (let label = 1; label < classes; label++) {
      if (scores[pixel * classes + label] > scores[pixel * classes + best]) best = label;
    }
    found[best] += 1 / (side * side);
    rgba.set(inks[best], 4 * pixel);
  }
  const named = shown.filter((label) => found[facts.labels.indexOf(label)] > 0);
  return {found, answer: named.join(', ') || 'nothing', colours, layer: {rows: side, columns: side, rgba}};
}

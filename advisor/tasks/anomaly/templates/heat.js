// The meaning of an anomaly detector's output: its largest value is the score, and the map lies over the image.
function meaningOf([heat], facts) {
  const rows = Math.round(Math.sqrt(heat.length)); // the input is a square, and so is the map
  const colour = [1, 3, 5].map((at) => parseInt(facts.hot.slice(at, at + 2), 16));
  const rgba = new Uint8ClampedArray(4 * heat.length);
  heat.forEach((value, place) => rgba.set([...colour, (255 * (value - facts.least / 2)) / facts.least], 4 * place));
  const score = heat.reduce((one, other) => Math.max(one, other));
  return {found: [score], answer: score >= facts.least ? facts.labels[0] : facts.good, layer: {rows, columns: rows, rgba}};
}

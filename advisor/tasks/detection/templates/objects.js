// The meaning of a detector's or counter's outputs: the best score of each class, how many objects of each there are, and
// their boxes or centres over the image.
const SIDE = 640; // rows and columns of the layer
const LINE = 5; // width of its lines
const DOT = 0.012; // half the side of a centre, as a share of the image

// Return objects with label, score and box (top, left, bottom and right in shares of the image). `least` is the page's: the
// score from which on an object of a class counts.
function boxesOf([boxes, labels, scores, [count]]) {
  return Array.from({length: count}, (_, place) => (
    {label: labels[place], score: scores[place], box: Array.from(boxes.slice(4 * place, 4 * place + 4))}
  )).filter(({label, score}) => score >= least(label));
}

// The same of a map of scores: the places with the highest score of their class among their neighbours.
function centresOf([scores], {labels, near}) {
  const classes = labels.length;
  const side = Math.round(Math.sqrt(scores.length / classes)); // the input is a square, and so is the map
  const at = (row, column, label) => scores[(row * side + column) * classes + label];
  const around = Array.from({length: 2 * near + 1}, (_, place) => place - near);
  const inside = (place) => place >= 0 && place < side;
  const isHighest = (row, column, label, score) => around.every((down) => around.every((across) => (
    !inside(row + down) || !inside(column + across) || at(row + down, column + across, label) <= score
  )));
  const places = [];
  scores.forEach((score, place) => {
    const [cell, label] = [Math.floor(place / classes), place % classes];
    const [row, column] = [Math.floor(cell / side), cell % side];
    if (score >= least(label) && isHighest(row, column, label, score)) places.push({row, column, label, score});
  });
  const kept = []; // equal scores side by side are one object
  for (const one of places.sort((first, second) => second.score - first.score)) {
    const isNear = (other) => Math.max(Math.abs(other.row - one.row), Math.abs(other.column - one.column)) <= near;
    if (!kept.some((other) => other.label === one.label && isNear(other))) kept.push(one);
  }
  return kept.map(({row, column, label, score}) => {
    const [y, x] = [(row + 0.5) / side, (column + 0.5) / side];
    return {label, score, box: [y - DOT, x - DOT, y + DOT, x + DOT]};
  });
}

function drawn(objects, palette) {
  const rgba = new Uint8ClampedArray(4 * SIDE * SIDE);
  const pixel = (share) => Math.max(0, Math.min(SIDE - 1, Math.round(share * SIDE)));
  for (const {label, box} of objects) {
    const text = palette[label % palette.length];
    const colour = [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16)).concat(255);
    const [top, left, bottom, right] = box.map(pixel);
    for (let row = top; row <= bottom; row++) {
      for (let column = left; column <= right; column++) {
        const edge = Math.min(row - top, bottom - row, column - left, right - column);
        if (edge < LINE) rgba.set(colour, 4 * (row * SIDE + column));
      }
    }
  }
  return {rows: SIDE, columns: SIDE, rgba};
}

function meaningOf(outputs, facts) {
  const objects = outputs.length > 1 ? boxesOf(outputs) : centresOf(outputs, facts);
  const found = facts.labels.map((_, own) => Math.max(0, ...objects.filter(({label}) => label === own).map(({score}) => score)));
  const counts = facts.labels.map((name, own) => [objects.filter(({label}) => label === own).length, name]);
  const answer = counts.filter(([count]) => count).map((row) => row.join(' ')).join(', ') || 'nothing';
  const colours = facts.labels.map((_, own) => facts.palette[own % facts.palette.length]);
  return {found, answer, objects, colours, layer: drawn(objects, facts.palette)};
}

// The meaning of a tagger's output: the score of each label, and the labels from the threshold on.
function meaningOf([scores], facts) {
  const found = Array.from(scores);
  const order = found.map((_, place) => place).sort((one, other) => found[other] - found[one]);
  const leastOf = facts.least_of ?? {};
  const shown = order.filter((place) => found[place] >= (leastOf[place] ?? facts.least)).map((place) => facts.labels[place]);
  return {found, answer: shown.join(', ') || 'no label'};
}

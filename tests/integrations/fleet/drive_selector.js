
async ([document, scenarios, same]) => {
  const output = (tier, failing) => {
    if (failing.includes(tier)) return Array(tier === 2 ? 4 : 2).fill(NaN);
    return tier === 2 ? [0.25, 9, 0.76, 9] : [0.26, 0.74];
  };
  const found = {};
  for (const [name, steps] of Object.entries(scenarios)) {
    let selector = null;
    found[name] = [];
    for (const [kind, ...given] of steps) {
      if (kind === 'start' || kind === 'restart') {
        selector = new TierSelector(document, given[0], given[1] === same ? selector.state() : given[1]);
      }
      if (kind === 'place') selector.place(given[0], given[1]);
      if (kind === 'ran') for (let run = 0; run < given[1]; run++) selector.ran(given[0], given[2]);
      if (kind === 'test') await selector.selfTest((tier) => output(tier, given[0]));
      found[name].push(selector.tier ?? -1);
    }
  }
  return found;
}

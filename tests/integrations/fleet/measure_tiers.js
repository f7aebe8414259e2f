
async ([document]) => {
  const asked = [], selector = new TierSelector(document, {names: ['middle']});
  await selector.measure((tier) => { asked.push(tier); return 2; });
  return [asked.length, selector.ratio, selector.file];
}

// Choose the file of a fleet for this phone: by rules, by a measurement, and by the times of its runs.
// Needs nothing else. tiers.json is all that it reads; see README.md beside it.
//
//   const selector = new TierSelector(tiers, {gpu: renderer, memory_bytes: 1e9 * navigator.deviceMemory}, stored);
//   if (selector.isNew) {
//     await selector.selfTest(run);      // run(tier, inputs) -> outputs: floats of an image, flat
//     await selector.measure(timeRun);   // timeRun(tier) -> milliseconds of one run
//   }
//   selector.file                        // file to load; null: no file passed the self-test, show no answers
//   selector.ran(milliseconds, hot)      // after each run; true: load selector.file again
//   stored = selector.state();
'use strict';

class TierSelector {
  static MAKERS = /^(qualcomm|mediatek|samsung|hisilicon|google|unisoc|spreadtrum|apple)/;
  static CORES = 4;
  static NEARLY = 1.02; // a phone whose cores are so much faster in theory counts as slower
  static APART = 1.5; // of the phones whose cores are slower by up to this factor, the slowest one counts

  // A name for comparison: small letters, digits and plus, without the maker; of iPhones the first number.
  static plain(name) {
    return name.split(',')[0].toLowerCase().replace(/\((?:tm|r)\)|[^a-z0-9+]/g, '').replace(TierSelector.MAKERS, '');
  }

  constructor(tiers, phone, stored = '') {
    this.tiers = tiers;
    this.phone = phone;
    [this.known, this.knownBy] = this.recognise();
    this.ratio = null;
    this.highest = tiers.tiers.length - 1;
    this.failed = [];
    this.times = [];
    this.again = false; // measure again later: the phone was hot
    this.tier = null;
    this.isNew = !this.restore(stored);
    if (this.isNew) this.tier = this.best();
  }

  // The name of the file to load; null if every file failed the self-test.
  get file() {
    return this.tier === null ? null : this.tiers.tiers[this.tier].file;
  }

  // Milliseconds that a run of a tier does not exceed with the confidence; infinite if unknown.
  expectedMs(tier) {
    if (this.known === null) return Infinity;
    if (this.ratio === null) return this.known.sure_ms[tier];
    const change = this.tiers.measuring[tier];
    return this.known.ms[tier] * this.ratio ** change.gain * change.factor;
  }

  // Run the test vectors through the file of the tier; one that computes something else is left for the next.
  async selfTest(run) {
    while (this.tier !== null && !(await this.passes(this.tier, run))) {
      this.failed.push(this.tier);
      this.tier = this.best();
    }
    return this.tier;
  }

  // Time the fastest file, and choose by the ratio to its prediction. A hot phone is to be measured again.
  async measure(timeRun, hot = false) {
    const measured = this.tiers.measured_tier;
    await timeRun(measured); // the first run is slower than all others
    const times = [];
    let spent = 0;
    while (times.length < 3 || spent < this.tiers.window_ms) {
      const took = await timeRun(measured);
      times.push(took);
      spent += took;
    }
    times.sort((one, other) => one - other);
    const middle = times.length >> 1;
    return this.place(times.length % 2 ? times[middle] : (times[middle - 1] + times[middle]) / 2, hot);
  }

  // Choose by the median time of the fastest file; a better tier than before, also by rules, needs a margin.
  place(milliseconds, hot = false) {
    const measured = this.tiers.measured_tier;
    const [before, remembered] = [this.tier, this.ratio];
    if (this.known === null || this.knownBy === 'time') {
      const apart = (each) => Math.abs(Math.log(each.ms[measured] / milliseconds));
      this.known = this.tiers.phones.reduce((one, other) => (apart(other) < apart(one) ? other : one));
      this.knownBy = 'time';
    }
    this.ratio = milliseconds / this.known.ms[measured];
    let best = this.best();
    if (best !== null && before !== null && best > before) {
      const clear = this.usable().filter((each) => before <= each && each <= best && this.clearly(each));
      best = clear.length ? clear[clear.length - 1] : before;
    }
    this.tier = best;
    this.again = hot;
    if (hot) this.ratio = remembered;
    return this.tier;
  }

  // Take the time of a run; true if the budget is missed and the tier is now a lower one.
  // The lower tier is kept for good, but on a hot phone only until the app starts again.
  ran(milliseconds, hot = false) {
    const rules = this.tiers.rules;
    this.times.push(milliseconds);
    if (this.tier === null || this.times.length < rules.window) return false;
    const sorted = this.times.sort((one, other) => one - other);
    const slow = sorted[Math.ceil(0.9 * sorted.length) - 1] > rules.late * this.tiers.budget_ms;
    this.times = [];
    const lower = this.usable().filter((each) => each < this.tier);
    if (!slow || !lower.length) return false;
    this.tier = lower[lower.length - 1];
    this.again = this.again || hot;
    if (!hot) this.highest = this.tier;
    return true;
  }

  // What to store: the choice is remembered until the files change.
  state() {
    const placed = this.known !== null && this.knownBy === 'time' ? this.known.names[0] : '';
    const {ratio, highest, failed} = this;
    return JSON.stringify({id: this.tiers.id, ratio, highest, failed, tier: this.again ? null : this.tier, placed});
  }

  restore(stored) {
    let kept;
    try {
      kept = JSON.parse(stored);
    } catch {
      return false;
    }
    if (kept === null || kept.id !== this.tiers.id || !Array.isArray(kept.failed)) return false;
    if (!Number.isInteger(kept.highest) || kept.tier === undefined || kept.ratio === undefined) return false;
    if (kept.placed) {
      const placed = this.tiers.phones.find((each) => each.names.includes(kept.placed));
      if (!placed) return false;
      [this.known, this.knownBy] = [placed, 'time'];
    }
    [this.ratio, this.highest, this.failed] = [kept.ratio, kept.highest, kept.failed];
    this.again = kept.tier === null && this.best() !== null;
    this.tier = this.again ? this.best() : kept.tier;
    return true;
  }

  usable() {
    const all = this.tiers.tiers.map((_, place) => place);
    const share = this.tiers.rules.memory_share;
    const memory = this.phone.memory_bytes;
    const least = this.tiers.requires[this.phone.system ?? ''] ?? 0;
    let fits = all.filter((each) => each <= this.highest || each === 0);
    if (memory) fits = fits.filter((each) => (this.tiers.tiers[each].memory_bytes ?? 0) <= share * memory);
    if ((this.phone.version ?? least) < least) fits = fits.slice(0, 1);
    const found = fits.filter((each) => !this.failed.includes(each));
    return found.length ? found : all.filter((each) => !this.failed.includes(each)).slice(0, 1);
  }

  best() {
    const usable = this.usable();
    const good = usable.filter((each) => this.expectedMs(each) <= this.tiers.budget_ms);
    return good.length ? good[good.length - 1] : usable[0] ?? null;
  }

  clearly(tier) {
    return this.expectedMs(tier) <= this.tiers.rules.up * this.tiers.budget_ms;
  }

  async passes(tier, run) {
    const {pixels, stride, tolerance} = this.tiers.vectors;
    const expected = this.tiers.tiers[tier].expected;
    for (let place = 0; place < pixels.length; place++) {
      let found;
      try {
        found = Array.from(await run(tier, this.inputs(tier, pixels[place])));
      } catch {
        return false;
      }
      found = found.filter((_, at) => at % stride[tier] === 0);
      const near = (value, at) => Math.abs(value - expected[place][at]) <= tolerance[tier];
      if (found.length !== expected[place].length || !found.every(near)) return false;
    }
    return true;
  }

  // A test vector as a file takes it: its pixels repeated up to the side of the input, normalised.
  inputs(tier, pixels) {
    const {size, mean, std} = this.tiers.tiers[tier].input;
    const side = this.tiers.vectors.side;
    const small = Uint8Array.from(atob(pixels), (letter) => letter.charCodeAt(0));
    const values = new Float32Array(size * size * 3);
    const at = (place) => Math.floor((place * side) / size);
    for (let row = 0, to = 0; row < size; row++) {
      for (let column = 0; column < size; column++) {
        const from = 3 * (side * at(row) + at(column));
        for (let channel = 0; channel < 3; channel++) values[to++] = (small[from + channel] - mean) / std;
      }
    }
    return values;
  }

  recognise() {
    const phones = this.tiers.phones;
    const names = (this.phone.names ?? []).map(TierSelector.plain).filter(Boolean);
    const named = phones.find((each) => names.some((name) => each.names.includes(name)));
    if (named) return [named, 'name'];
    const gpu = TierSelector.plain(this.phone.gpu ?? '');
    const alike = phones.find((each) => each.gpu && gpu.includes(each.gpu)); // the slowest phones are first
    if (alike) return [alike, 'gpu'];
    const speed = this.speed(this.phone.cores ?? []);
    const slower = phones.filter((each) => each.speed > 0 && each.speed <= TierSelector.NEARLY * speed);
    const near = slower.filter((each) => each.speed >= speed / TierSelector.APART);
    const some = near.length ? near : slower.slice(-1);
    if (!some.length) return [null, ''];
    const measured = this.tiers.measured_tier;
    return [some.reduce((one, other) => (other.ms[measured] > one.ms[measured] ? other : one)), 'cores'];
  }

  // 10^9 multiply-accumulates a second of the fastest cores; an unknown core counts as a small one.
  speed(cores) {
    const rates = cores.map((each) => ((this.tiers.core_macs[each.part] ?? 4) * each.mhz) / 1000);
    rates.sort((one, other) => other - one);
    return rates.slice(0, TierSelector.CORES).reduce((sum, rate) => sum + rate, 0);
  }
}

if (typeof module !== 'undefined') module.exports = {TierSelector};

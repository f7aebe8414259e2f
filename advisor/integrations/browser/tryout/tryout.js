// What a page from `advisor try` does besides: answers of several files, images of the hold-out, timings, and photographs
// that are kept. It stands before page.js, whose names it uses once the page is there.

const BAD = 'The server does not answer. Start it again: advisor try';
const HIDDEN = 'The phone was locked, or another page lay over this one: keep this page open, and time the files again.';

// Return the answer of the server to a request, as JSON; an Error with its reason if it refuses.
async function asked(name, options = {}) {
  let answer;
  try {
    answer = await fetch(name, options);
  } catch {
    throw new Error(BAD);
  }
  const values = await answer.json();
  if (!answer.ok) throw new Error(values.error ?? BAD);
  return values;
}

// Return the runtime and the content of each file from the server of this page.
async function filesOfServer() {
  const bytes = async (name) => {
    const answer = await fetch(name);
    if (!answer.ok) throw new Error(`${name} cannot be loaded: ${await answer.text()}`);
    return new Uint8Array(await answer.arrayBuffer());
  };
  const stem = `litert_wasm_${isRelaxed() ? '' : 'compat_'}internal`;
  const contents = forms.map((form) => bytes(form.file));
  const [wasmBinary] = await Promise.all([bytes(`${stem}.wasm`), scriptLoaded(`${stem}.js`)]);
  return {wasmBinary, contents};
}

const isRelaxed = () => WebAssembly.validate(new Uint8Array(RELAXED));

function line(title, picked, value, remark) {
  const item = document.createElement('li');
  const [name, figure, more] = ['span', 'b', 'small'].map((kind) => document.createElement(kind));
  name.textContent = picked ? `${title} (the pick)` : title;
  figure.textContent = value;
  more.textContent = remark;
  item.append(name, figure, more);
  return item;
}

function showBeside() {
  const answering = forms.filter((form) => form.model);
  const words = new Set();
  const lines = state.answers.map((result, place) => {
    facts = answering[place];
    const said = saidBy(result);
    words.add(said.words);
    const share = result.answer ? '' : `${facts.labels[said.first]} ${percent(result.found[said.first])}, `;
    const item = line(facts.name, facts.picked, said.words, `${share}${result.took_ms.toFixed(1)}\u00a0ms, ${facts.shown_size}`);
    if (result.layer && state.answers.length > 1) item.append(drawing(answering, place));
    return item;
  });
  const failed = forms.filter((form) => form.error).map((form) => line(form.name, form.picked, 'no answer', form.error));
  facts = forms[0];
  part('forms').replaceChildren(...lines, ...failed);
  const same = words.size === 1 ? 'All files give the same answer.' : 'The files give different answers.';
  part('agree').textContent = state.answers.length < 2 ? '' : same;
  part('beside').hidden = false;
  part('keeping').hidden = !page.keeps || !(state.last || state.stream);
}

// Return a button that draws the answer of one file over the image; that of the first one is drawn before.
function drawing(answering, place) {
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'draw';
  button.textContent = 'Show over the image';
  button.ariaPressed = place === 0;
  button.addEventListener('click', () => {
    facts = answering[place];
    show(state.answers[place]);
    facts = forms[0];
    document.querySelectorAll('.draw').forEach((other) => { other.ariaPressed = other === button; });
  });
  return button;
}

// ---- images of the hold-out ----

async function showSamples() {
  const {samples} = await asked('samples');
  part('samples').hidden = !samples.length;
  part('gallery').replaceChildren(...samples.map(({image, said, file}) => {
    const [button, picture] = ['button', 'img'].map((kind) => document.createElement(kind));
    button.type = 'button';
    picture.src = image;
    picture.alt = '';
    button.append(picture, said);
    button.addEventListener('click', async () => {
      const content = await (await fetch(file)).blob();
      await openFile(new File([content], said, {type: 'image/jpeg'}), false); // it is in the data set already
      scrollTo({top: 0});
    });
    return button;
  }));
}

// ---- timing ----

// Return the phone and its browser in words. Not every browser tells its model.
async function deviceOf() {
  const data = navigator.userAgentData;
  const brands = (data?.brands ?? []).filter(({brand}) => !/Not.?A.?Brand/i.test(brand));
  const brand = brands.find(({brand: name}) => name === 'Google Chrome') ?? brands.find(({brand: name}) => name !== 'Chromium') ?? brands[0];
  const more = (await data?.getHighEntropyValues?.(['model', 'platform'])) ?? {};
  const agent = navigator.userAgent;
  const known = /(iPhone|iPad|Macintosh|Windows|Android|Linux)/.exec(agent)?.[1] ?? '';
  const browser = /(Firefox|CriOS|FxiOS|Edg|Chrome|Safari)\/([\d.]+)/.exec(agent) ?? ['', '', ''];
  return {
    model: more.model || more.platform || known,
    browser: brand?.brand?.replace('Google ', '') ?? browser[1],
    version: brand?.version ?? browser[2],
    cores: navigator.hardwareConcurrency ?? 1,
  };
}

// Call a function of a worker; an Error if it fails, or if a runtime whose threads cannot start says nothing.
async function called(name, options) {
  const limit_ms = page.protocol.longest_ms;
  let timer;
  const silent = new Promise((done) => {
    timer = setTimeout(done, limit_ms, {error: `the runtime does not answer within ${limit_ms / 1000} s`});
  });
  const {value, error} = await Promise.race([call(name, options), silent]);
  clearTimeout(timer);
  if (error) throw new Error(error);
  return value;
}

// Return where the files are timed: in WebAssembly on one thread, and on more where the page may; on WebGPU where it is there.
function unitsHere() {
  const most = Math.min(page.protocol.most_threads, navigator.hardwareConcurrency ?? 1);
  const units = [{accelerator: 'cpu', threads: 1, title: '1 thread'}];
  if (globalThis.crossOriginIsolated && isRelaxed() && most > 1) units.push({accelerator: 'cpu', threads: most, title: `${most} threads`});
  if (navigator.gpu) units.push({accelerator: 'gpu', threads: 1, title: 'WebGPU'});
  return units;
}

// Load each file into a worker for one unit. One thread runs every file; on other units, the reason why a file has no
// result is kept.
async function loaded({accelerator, threads, title}, refused, tell) {
  const series = [];
  for (const [place, form] of forms.entries()) {
    if (!form.model) continue;
    tell(`${form.name}: loading`);
    const worker = workers.length; // a runtime keeps its threads, and a worker its runtime
    try {
      const software = page.protocol.software ?? false; // without it, WebGPU that a processor renders is refused
      const runtime_ms = await called('start', {worker, threads, runtime: 'litert-web', accelerator, software, compat: !isRelaxed()});
      const facts = await called('load', {worker, model: form.measured});
      series.push({worker, posted: {form: place, accelerator, threads, runtime_ms, ...facts, blocks: []}});
    } catch (error) {
      if (accelerator === 'cpu' && threads === 1) throw error;
      refused.push({form: place, title, reason: error.message});
    }
  }
  return series;
}

// Time all files on one unit, block by block in turn, as the command line does it in a browser.
async function timed(unit, refused, tell) {
  const {runs, least_ms, most_ms, blocks, pause_ms, warm} = page.protocol;
  const series = await loaded(unit, refused, tell);
  for (const {worker} of series) await called('warm', {worker, ...warm});
  for (let block = 0; block < blocks && series.length; block++) {
    tell(`block ${block + 1} of ${blocks}`);
    for (const {worker, posted} of block % 2 ? series.toReversed() : series) {
      await new Promise((done) => setTimeout(done, pause_ms));
      const options = {worker, runs: Math.ceil(runs / blocks), least_ms: least_ms / blocks, most_ms: most_ms / blocks};
      posted.blocks.push(await called('block', options));
    }
  }
  return series.map(({posted}) => posted);
}

// Return what a function returns, with the screen on; an Error if the page was hidden meanwhile: phones slow such pages down.
async function whileShown(work) {
  let hidden = document.hidden;
  const notice = () => { hidden ||= document.hidden; };
  document.addEventListener('visibilitychange', notice);
  // Not awaited: a browser may refuse it, as to save energy, or never answer.
  const lock = navigator.wakeLock?.request('screen').catch(() => null);
  try {
    const result = await work();
    if (hidden) throw new Error(HIDDEN);
    return result;
  } finally {
    document.removeEventListener('visibilitychange', notice);
    lock?.then((sentinel) => sentinel?.release());
  }
}

// Time all files on each unit. Returns the series, and what a unit could not run.
async function timedOnUnits(tell) {
  const series = [];
  const refused = [];
  for (const unit of unitsHere()) {
    series.push(...await timed(unit, refused, (text) => tell(`${unit.title}, ${text} ...`)));
  }
  return {series, refused};
}

async function timeFiles() {
  const tell = (text) => { part('timed').textContent = text; };
  part('time').disabled = true;
  try {
    const {series, refused} = await whileShown(() => timedOnUnits(tell));
    const {times, said} = await asked('timings', {method: 'POST', body: JSON.stringify({device: await deviceOf(), series})});
    const rows = [...times, ...refused.map(({form, title, reason}) => ({form, value: 'no result', remark: `${title}; ${reason}`}))];
    part('times').replaceChildren(...rows.map(({form, value, remark}) => line(forms[form].name, forms[form].picked, value, remark)));
    tell(said);
  } catch (error) {
    tell(error.message);
  } finally {
    workers.splice(0).forEach((worker) => worker.terminate());
    part('time').disabled = false;
  }
}

// ---- photographs that are kept ----

async function keepPhotograph() {
  const tell = (text) => { part('kept').textContent = text; };
  part('keep').disabled = true;
  try {
    if (!part('class').value) throw new Error('Choose the class that it shows.');
    const {model, browser} = await deviceOf();
    const place = new URLSearchParams({class: part('class').value, device: `${browser} on ${model}`});
    const {said, weak} = await asked(`photographs?${place}`, {method: 'POST', body: state.stream ? await frameNow() : state.last});
    tell(said);
    part('class').value = ''; // the next photograph may show another one
    part('weak').textContent = weak;
  } catch (error) {
    tell(error.message);
  } finally {
    part('keep').disabled = false;
  }
}

// Return what the camera shows as a JPEG.
function frameNow() {
  const video = part('video');
  const canvas = new OffscreenCanvas(video.videoWidth, video.videoHeight);
  canvas.getContext('2d').drawImage(video, 0, 0);
  return canvas.convertToBlob({type: 'image/jpeg', quality: 0.95});
}

document.addEventListener('DOMContentLoaded', () => {
  part('time').addEventListener('click', timeFiles);
  part('keep').addEventListener('click', keepPhotograph);
  if (page.keeps) part('stay').textContent = 'Images stay on this device, except those that you keep.';
  part('weak').textContent = page.weak;
  part('class').replaceChildren(new Option('choose ...', ''), ...page.classes.map((name) => new Option(name)));
  new MutationObserver(() => {
    part('time').disabled = false;
    showSamples().catch(fail);
  }).observe(document.body, {attributeFilter: ['data-ready']});
});

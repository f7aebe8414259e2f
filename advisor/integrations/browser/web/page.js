'use strict';

const TOP = 5;
const LAYER_SIDE = 800; // of a layer over an image, in pixels at most
const part = (name) => document.getElementById(name);
const page = JSON.parse(part('facts').textContent);
const forms = page.forms ?? [page]; // the files that answer, the one to ship first
let facts = forms[0]; // of the file that answers now, for the scripts of tasks
const state = {ready: false, stream: null, last: null, answers: []}; // `answers`: of the files to the last image

const bytesOf = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

// Load a script beside this page; a page that is opened as a file can load scripts, but no other files.
const scriptLoaded = (name) => new Promise((done, failed) => {
  const script = document.createElement('script');
  script.src = name;
  script.onload = done;
  script.onerror = () => failed(new Error(`${name} is missing: keep all files of the folder together`));
  document.head.append(script);
});

async function unpacked(text) {
  const stream = new Blob([bytesOf(text)]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// A module of one function with the instruction i8x16.relaxed_swizzle: browsers without relaxed SIMD refuse it.
const RELAXED = [
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 15, 1, 13, 0, 65, 1, 253, 15, 65, 2, 253, 15, 253,
  128, 2, 11,
];

// The same with the instructions i8x16.splat and i8x16.popcnt: browsers without any SIMD refuse it.
const SIMD = [0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11];
const TOO_OLD = 'This browser cannot run the model, because its WebAssembly has no SIMD. Update it, or use another one: '
  + 'Chrome 91, Firefox 89, Safari 16.4 and later have it.';

// Return the runtime and the content of each file, from scripts beside this page.
async function scriptsBeside() {
  const runtime = WebAssembly.validate(new Uint8Array(RELAXED)) ? 'runtime.js' : 'runtime_compat.js';
  await Promise.all([scriptLoaded(runtime), scriptLoaded('model.js')]);
  return {wasmBinary: await unpacked(RUNTIME), contents: [bytesOf(MODEL)]};
}

// Load the runtime and the files. A page from a server has its own `filesOfServer`.
async function start() {
  if (!WebAssembly.validate(new Uint8Array(SIMD))) throw new Error(TOO_OLD);
  const {wasmBinary, contents} = await (typeof filesOfServer === 'function' ? filesOfServer() : scriptsBeside());
  const wasm = await litertRuntime({wasmBinary});
  for (const [place, form] of forms.entries()) {
    try {
      form.model = await LiteRtModel.load(wasm, await contents[place]);
      form.model.run(); // the first run makes ready, and its time says nothing
    } catch (error) {
      if (place === 0) throw error;
      form.error = error.message; // the others answer without it
      wasm.errors.length = 0;
    }
  }
  state.ready = true;
}

// Return the outputs of the file that answers now.
function outputsFor(pixels) {
  facts.model.write(0, (values) => {
    for (let at = 0; at < values.length; at++) values[at] = Math.fround(pixels[at] - facts.mean) / facts.std;
  });
  return facts.model.run(true);
}

// Return the score of each class (`found`) by one file; of some tasks also an `answer` in words, a `layer` of colours over
// the image (rows and columns, and RGBA of its pixels), and the `colours` of the classes in it.
function answerOf(form, source, width, height) {
  facts = form;
  const pixels = pixelsOf(source, width, height, facts.size);
  const begin = performance.now();
  const outputs = outputsFor(pixels);
  return {took_ms: performance.now() - begin, width, height, ...meaningOf(outputs, facts)};
}

// Answer by each file, and show that of the first one large.
function answer(source, width, height) {
  state.answers = forms.filter((form) => form.model).map((form) => answerOf(form, source, width, height));
  facts = forms[0];
  show(state.answers[0]);
  if (typeof showBeside === 'function') showBeside();
}

// Draw a layer of colours in the shape of the image, which it lies over.
function drawLayer(layer, width, height) {
  const canvas = part('layer');
  canvas.hidden = !layer;
  if (!layer) return;
  const small = new OffscreenCanvas(layer.columns, layer.rows);
  small.getContext('2d').putImageData(new ImageData(layer.rgba, layer.columns, layer.rows), 0, 0);
  const scale = Math.min(LAYER_SIDE, Math.max(width, height, layer.columns)) / Math.max(width, height);
  [canvas.width, canvas.height] = [Math.ceil(width * scale), Math.ceil(height * scale)];
  const context = canvas.getContext('2d');
  context.imageSmoothingEnabled = false;
  context.drawImage(small, 0, 0, canvas.width, canvas.height);
}

const least = (place) => facts.least_of[place] ?? facts.threshold ?? 0;
const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.0995 ? 1 : 0)}\u00a0%`;

function row(label, share, enough, colour) {
  const item = document.createElement('li');
  const name = document.createElement('span');
  const bar = document.createElement('div');
  const value = document.createElement('b');
  name.textContent = label;
  value.textContent = percent(share);
  bar.className = 'bar';
  bar.append(document.createElement('div'));
  bar.firstChild.style.width = `${100 * share}%`;
  if (colour) bar.firstChild.style.background = colour; // that of the class in the layer
  item.className = enough ? '' : 'low';
  item.append(name, value, bar);
  return item;
}

// Return what an answer says of the file that `facts` belong to: in words, its most probable class, and whether it counts.
function saidBy({found, answer}) {
  const order = found.map((_, place) => place).sort((one, other) => found[other] - found[one] || one - other);
  const [first] = order;
  const sure = found[first] >= least(first);
  return {order, first, sure, words: answer ?? (sure ? facts.labels[first] : 'Not sure')};
}

function show(result) {
  const {found, took_ms, answer, layer, width, height, colours = []} = result;
  drawLayer(layer, width, height);
  const {order, first, sure, words} = saidBy(result);
  part('answer').textContent = words;
  // A task with words of its own, such as "good" or "nothing", is as sure of them.
  part('answer').dataset.sure = sure || answer !== undefined;
  part('remark').textContent = sure || answer
    ? ''
    : `Most probable: ${facts.labels[first]}, but an answer counts from ${percent(least(first))}.`;
  part('bars').replaceChildren(...order.slice(0, TOP).map((place) => (
    row(facts.labels[place], found[place], found[place] >= least(place), colours[place])
  )));
  const flagged = Object.entries(facts.may_show).filter(([place, score]) => found[place] >= score);
  part('flags').textContent = flagged.length ? `May show: ${flagged.map(([place]) => facts.labels[place]).join(', ')}` : '';
  part('took').textContent = `${took_ms.toFixed(took_ms < 10 ? 1 : 0)}\u00a0ms in this browser`;
  part('result').dataset.probabilities = JSON.stringify(found);
  part('result').dataset.count = 1 + Number(part('result').dataset.count ?? 0);
  part('result').hidden = false;
}

function fail(error) {
  part('status').textContent = error.message ?? String(error);
  part('status').className = 'bad';
  part('status').hidden = false;
}

// `isNew`: the person chose it; a server may keep it.
async function openFile(file, isNew = true) {
  if (!file) return;
  stopCamera();
  part('status').hidden = true;
  try {
    const image = await createImageBitmap(file, {imageOrientation: 'from-image', colorSpaceConversion: 'none'});
    await refuseDark(file, image);
    URL.revokeObjectURL(part('photo').src);
    part('photo').src = URL.createObjectURL(file);
    part('photo').hidden = false;
    state.last = isNew ? file : null;
    answer(image, image.width, image.height);
    image.close();
  } catch (error) {
    fail(error.name === 'InvalidStateError' ? new Error(`${file.name} is no image that this browser can read.`) : error);
  }
}

async function startCamera() {
  try {
    state.stream = await navigator.mediaDevices.getUserMedia({video: {facingMode: 'environment'}, audio: false});
  } catch (error) {
    return fail(new Error(`The camera cannot be used (${error.name}). Take a photo instead.`));
  }
  const video = part('video');
  video.srcObject = state.stream;
  await video.play();
  video.hidden = false;
  part('photo').hidden = true;
  part('live').textContent = 'Stop camera';
  watch();
}

function watch() {
  const video = part('video');
  if (!state.stream) return;
  if (video.videoWidth) answer(video, video.videoWidth, video.videoHeight);
  setTimeout(() => requestAnimationFrame(watch), 100);
}

function stopCamera() {
  state.stream?.getTracks().forEach((track) => track.stop());
  state.stream = null;
  part('video').hidden = true;
  part('live').textContent = 'Live camera';
}

for (const name of ['camera', 'file']) {
  part(name).addEventListener('change', ({target}) => {
    openFile(target.files[0]);
    target.value = '';
  });
}
part('live').hidden = !navigator.mediaDevices?.getUserMedia;
part('live').addEventListener('click', () => (state.stream ? stopCamera() : startCamera()));
document.addEventListener('dragover', (event) => event.preventDefault());
document.addEventListener('drop', (event) => {
  event.preventDefault();
  if (state.ready) openFile(event.dataTransfer.files[0]);
});

start().then(() => {
  part('status').hidden = true;
  part('choices').disabled = false;
  document.body.dataset.ready = true;
  const keeps = !page.forms && location.protocol.startsWith('http') && navigator.serviceWorker;
  if (keeps) navigator.serviceWorker.register('offline.js');
}, fail);

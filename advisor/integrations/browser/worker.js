// Loads a file and times it, at the request of the page that started this worker.
'use strict';
importScripts('litert.js', 'onnxruntime.js', 'webgpu.js'); // beside this script, wherever a server has it

const series = {};

// The same values in each run: floats in [-1, 1), all bytes. Zeros can be faster than real data.
function fillWithNoise(values) {
  let state = 20200;
  const whole = !(values instanceof Float32Array);
  for (let place = 0; place < values.length; place++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    values[place] = values instanceof BigInt64Array ? 0n : whole ? state >>> 24 : state / 2 ** 31 - 1;
  }
}

// `compat`: the browser has no relaxed SIMD.
async function runtimeOf(threads, compat) {
  const script = `litert_wasm_${threads > 1 ? 'threaded_' : compat ? 'compat_' : ''}internal.js`;
  const url = new URL(script, self.location.href).href;
  importScripts(url);
  return litertRuntime({mainScriptUrlOrBlob: url, locateFile: (name) => new URL(name, url).href});
}

async function timedRun() {
  const start = performance.now();
  const running = series.model.run();
  if (running instanceof Promise) await running;
  return performance.now() - start;
}

const median = (values) => values.toSorted((one, other) => one - other)[values.length >> 1];

const calls = {
  // Start a runtime. Returns the milliseconds that this took.
  async start({runtime, accelerator, threads, software, compat}) {
    const start = performance.now();
    Object.assign(series, {accelerator, threads});
    if (accelerator === 'gpu') await GpuModel.start(software);
    else if (runtime === 'litert-web') series.wasm = await runtimeOf(threads, compat);
    else importScripts('ort.wasm.min.js');
    return performance.now() - start;
  },

  // Load a file and run it once.
  async load({model}) {
    const content = new Uint8Array(await (await fetch(model)).arrayBuffer());
    const start = performance.now();
    const {wasm, threads} = series;
    const onWasm = () => (wasm ? LiteRtModel.load(wasm, content, threads) : OnnxModel.load(content, threads));
    const loaded = await (series.accelerator === 'gpu' ? GpuModel.load(content) : onWasm());
    const load_ms = performance.now() - start;
    loaded.inputs.forEach((_, place) => loaded.write(place, fillWithNoise));
    series.model = loaded;
    const first_ms = await timedRun();
    return {load_ms, first_ms, heap_bytes: wasm?.HEAPU8.length ?? null};
  },

  // Run until the browser's optimising compiler is done: the last runs are no faster than those before.
  async warm({runs, least_ms, most_ms}) {
    const start = performance.now();
    const times = [];
    for (;;) {
      times.push(await timedRun());
      const elapsed = performance.now() - start;
      const steady = times.length >= 2 * runs && median(times.slice(-runs)) > 0.97 * median(times.slice(-2 * runs, -runs));
      if (elapsed >= most_ms || (elapsed >= least_ms && steady)) return times.length;
    }
  },

  async block({runs, least_ms, most_ms}) {
    const start = performance.now();
    const times = [];
    for (;;) {
      times.push(await timedRun());
      const elapsed = performance.now() - start;
      if (elapsed >= most_ms || (times.length >= runs && elapsed >= least_ms)) return {times, elapsed_ms: elapsed};
    }
  },

  // Run on the values in a file, which has one input after another. Returns the first output of each.
  async outputs({inputs}) {
    const content = await (await fetch(inputs)).arrayBuffer();
    const found = [];
    let offset = 0;
    while (offset < content.byteLength) {
      series.model.write(0, (values) => {
        values.set(new values.constructor(content.slice(offset, offset + values.byteLength)));
        offset += values.byteLength;
      });
      const [first] = await series.model.run(true);
      found.push(Array.from(first));
    }
    return found;
  },
};

self.onmessage = async ({data: {name, options}}) => {
  try {
    self.postMessage({value: await calls[name](options)});
  } catch (error) {
    self.postMessage({error: String(error?.message ?? error)});
  }
};

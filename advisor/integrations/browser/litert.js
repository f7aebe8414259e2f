// A .tflite file in LiteRT's WebAssembly. This calls the bindings of @litertjs/core, because its own classes take no
// int8 input. It runs in a worker and in a page.

// Make a copy of the runtime from the script that is loaded; `options` are Emscripten's. It keeps the errors it prints.
async function litertRuntime(options) {
  const errors = [];
  const print = (text) => {
    if (text.startsWith('ERROR: ')) errors.push(text.slice(7));
  };
  return Object.assign(await ModuleFactory({print, printErr: print, ...options}), {errors});
}

class LiteRtModel {
  static TYPES = {1: Float32Array, 2: Int32Array, 3: Uint8Array, 6: Uint8Array, 7: Int16Array, 9: Int8Array};

  // Load the content (Uint8Array) of a file into a copy of the runtime.
  static async load(wasm, content, threads = 1) {
    const found = new LiteRtModel();
    try {
      await found.open(wasm, content, threads);
    } catch (error) {
      found.refuse(error);
    }
    found.refuse();
    return found;
  }

  async open(wasm, content, threads) {
    this.wasm = wasm;
    this.environment = wasm.LiteRtEnvironment.create(null);
    this.address = wasm._malloc(content.byteLength);
    wasm.HEAPU8.set(content, this.address);
    this.model = wasm.loadModel(this.environment, this.address, content.byteLength);
    const options = {
      environment: {}, accelerator: 'wasm', cpuOptions: {numThreads: threads}, gpuOptions: {}, webNNOptions: {},
    };
    this.compiled = await wasm.compileModel(this.environment, this.model, options);
    const signature = this.model.getSignature(0);
    this.inputs = this.list(signature.inputNames()).map((_, place) => this.buffer(place));
    signature.delete();
  }

  // Raise what the runtime printed: it goes on without an operator that it lacks. Else raise `error`, if there is one.
  refuse(error) {
    const [first] = this.wasm.errors;
    if (first) throw new Error(first);
    if (error instanceof WebAssembly.RuntimeError) throw new Error(`the runtime crashed: ${error.message}`);
    if (error) throw error;
  }

  list(vector) {
    return Array.from({length: vector.size()}, (_, place) => vector.get(place));
  }

  buffer(place) {
    const type = this.model.getInputTensorType(0, place);
    const kind = this.wasm.LiteRtTensorBufferType.HOST_MEMORY;
    const made = this.wasm.LiteRtTensorBuffer.createManaged(this.environment, kind, type, type.bytes());
    type.delete();
    return made;
  }

  // Call `use` with a view of a buffer's values. The view is invalid afterwards.
  view(buffer, mode, use) {
    const type = buffer.tensorType();
    const array = LiteRtModel.TYPES[type.elementType().value];
    const bytes = type.bytes();
    type.delete();
    if (!array) throw new Error('an input or output has a type that this page does not know');
    const address = buffer.lock(this.wasm.LiteRtTensorBufferLockMode[mode]);
    try {
      return use(new array(this.wasm.HEAPU8.buffer, address, bytes / array.BYTES_PER_ELEMENT));
    } finally {
      buffer.unlock();
    }
  }

  // Call `fill` with the view of an input's values.
  write(place, fill) {
    this.view(this.inputs[place], 'WRITE', fill);
  }

  // Run the file once; the outputs are dropped, or returned as copies of their values.
  run(keep = false) {
    const outputs = this.compiled.run(0, this.inputs);
    this.refuse();
    const values = keep ? outputs.map((each) => this.view(each, 'READ', (found) => found.slice())) : [];
    outputs.forEach((each) => each.delete());
    return values;
  }
}

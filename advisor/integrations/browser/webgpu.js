// A .tflite file on WebGPU, by the classes of @litertjs/core, with the members of LiteRtModel. It runs in a worker.

const LOADER = `export const createWasmLib = async (make, script) => {
  importScripts(script);
  return new make(await self.ModuleFactory({print() {}, printErr() {}}));
};`;

const moduleOf = (text) => URL.createObjectURL(new Blob([text], {type: 'text/javascript'}));

class GpuModel {
  // Start the runtime. Without `software`, refuse a software renderer: its speed says nothing.
  static async start(software) {
    const adapter = await navigator.gpu?.requestAdapter();
    if (!adapter) throw new Error('the browser has no WebGPU adapter on this machine');
    if (!software && (adapter.info.isFallbackAdapter || adapter.info.architecture === 'swiftshader')) {
      throw new Error('WebGPU has only a software renderer on this machine, and its speed says nothing');
    }
    const text = await (await fetch('index.js')).text(); // a worker cannot map the name of the other package
    GpuModel.litert = await import(moduleOf(text.replace('"@litertjs/wasm-utils"', JSON.stringify(moduleOf(LOADER)))));
    await GpuModel.litert.loadLiteRt(new URL('litert_wasm_internal.js', self.location.href).href);
  }

  static async load(content) {
    const found = new GpuModel();
    found.model = await GpuModel.litert.loadAndCompile(content, {accelerator: 'webgpu'});
    // Some browsers run the other operators in WebAssembly, and the runtime still calls that WebGPU.
    const isWhole = found.model.options.accelerator === 'webgpu' && found.model.isFullyAccelerated;
    if (!isWhole) throw new Error('WebGPU does not run all operators of the file');
    found.inputs = found.model.getInputDetails().map(({shape, dtype}) => {
      const array = {float32: Float32Array, int32: Int32Array, uint8: Uint8Array}[dtype];
      if (!array) throw new Error(`WebGPU takes no ${dtype} input`);
      return {shape, values: new array(shape.reduce((all, side) => all * side, 1))};
    });
    return found;
  }

  write(place, fill) {
    const input = this.inputs[place];
    fill(input.values);
    input.tensor?.delete();
    input.tensor = new GpuModel.litert.Tensor(input.values, input.shape);
  }

  async run(keep = false) {
    const outputs = await this.model.run(this.inputs.map(({tensor}) => tensor));
    const here = await Promise.all(outputs.map((each) => each.moveTo('wasm'))); // a run ends when its output is read
    const values = keep ? here.map((each) => each.toTypedArray().slice()) : [];
    here.forEach((each) => each.delete());
    return values;
  }
}

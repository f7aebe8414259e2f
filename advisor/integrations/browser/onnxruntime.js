// An .onnx file in ONNX Runtime's WebAssembly, with the members of LiteRtModel. It runs in a worker.

class OnnxModel {
  static ARRAYS = {float32: Float32Array, int8: Int8Array, uint8: Uint8Array, int32: Int32Array, int64: BigInt64Array};

  static async load(content, threads) {
    const found = new OnnxModel();
    ort.env.wasm.numThreads = threads;
    ort.env.wasm.wasmPaths = new URL('./', self.location.href).href;
    found.session = await ort.InferenceSession.create(content, {executionProviders: ['wasm'], intraOpNumThreads: threads});
    found.inputs = found.session.inputMetadata.map(({name, type, shape}) => {
      const sides = shape.map((side) => (typeof side === 'number' && side > 0 ? side : 1));
      const values = new OnnxModel.ARRAYS[type](sides.reduce((all, side) => all * side, 1));
      return {name, values, tensor: new ort.Tensor(type, values, sides)};
    });
    found.feeds = Object.fromEntries(found.inputs.map(({name, tensor}) => [name, tensor]));
    return found;
  }

  write(place, fill) {
    fill(this.inputs[place].values);
  }

  async run(keep = false) {
    const outputs = await this.session.run(this.feeds);
    return keep ? this.session.outputNames.map((name) => outputs[name].data.slice()) : [];
  }
}

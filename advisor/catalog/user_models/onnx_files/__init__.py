"""Read ONNX files: check them, convert them with onnx2tf, run them with ONNX Runtime."""

"""The `.tflite` flatbuffer as a value: read, measured, edited and described without TensorFlow."""

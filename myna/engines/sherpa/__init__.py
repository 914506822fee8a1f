"""Neural models by sherpa-onnx in child processes."""

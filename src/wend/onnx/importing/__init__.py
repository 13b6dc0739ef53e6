"""The import of ONNX files: see `wend.onnx.load`."""

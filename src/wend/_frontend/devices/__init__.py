"""The functions behind `wend.cuda`, `wend.xpu` and `wend.accelerator`, for all kinds of devices."""

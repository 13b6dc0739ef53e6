"""What programs ask of accelerators: the functions behind `wend.cuda`, `wend.xpu` and the like."""

"""Names of `wend` that programs rarely use: each module is loaded when a program does."""

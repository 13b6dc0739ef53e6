"""The engine, private: layers in the order base, core, ops, transforms, compiler, runtime.

Each layer imports itself and those before; docs/architecture.md draws them.
"""

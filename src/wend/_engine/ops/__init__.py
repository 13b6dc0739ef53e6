"""All ops.  Importing the package registers every primitive and composite of its modules."""

from __future__ import annotations

import os

from wend._engine.base.modules import import_tree

import_tree("wend._engine.ops", os.path.dirname(os.path.abspath(__file__)))

"""All ops.  Importing the package registers every primitive and composite of its modules."""

from __future__ import annotations

import os

from wend.base.modules import import_tree

import_tree("wend.ops", os.path.dirname(os.path.abspath(__file__)))

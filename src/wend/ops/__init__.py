"""All ops.  Importing the package registers every primitive and composite of its modules."""

from __future__ import annotations

import os

from wend.base.modules import import_folder

_ROOT = os.path.dirname(os.path.abspath(__file__))
import_folder("wend.ops", _ROOT)
import_folder("wend.ops.composites", os.path.join(_ROOT, "composites"))

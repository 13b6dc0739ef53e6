# Made by `python -m wend._tools.stubs`; do not edit.
# mypy: disable-error-code="overload-overlap,overload-cannot-match,misc,override"
from wend.signal import former as former
from wend.signal import windows as windows

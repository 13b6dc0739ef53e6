# Made by `python -m wend._tools.stubs`; do not edit.
# mypy: disable-error-code="overload-overlap,overload-cannot-match,misc,override"
from wend.ao.nn.quantized.dynamic import modules as modules
from wend.ao.nn.quantized.dynamic import rnn as rnn
from wend.ao.nn.quantized.dynamic.modules import Linear as Linear
from wend.ao.nn.quantized.dynamic.rnn import GRU as GRU
from wend.ao.nn.quantized.dynamic.rnn import GRUCell as GRUCell
from wend.ao.nn.quantized.dynamic.rnn import LSTM as LSTM
from wend.ao.nn.quantized.dynamic.rnn import LSTMCell as LSTMCell
from wend.ao.nn.quantized.dynamic.rnn import RNNCell as RNNCell

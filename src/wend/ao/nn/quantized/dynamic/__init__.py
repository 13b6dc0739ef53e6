"""torch.ao.nn.quantized.dynamic: floats go in and come out; products are of bytes."""

from wend.ao.nn.quantized.dynamic.modules import Linear
from wend.ao.nn.quantized.dynamic.rnn import GRU, LSTM, GRUCell, LSTMCell, RNNCell

__all__ = ["GRU", "LSTM", "GRUCell", "LSTMCell", "Linear", "RNNCell"]

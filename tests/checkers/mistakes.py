"""Mistakes that type checkers must find: the lines marked, and no others."""

from __future__ import annotations

import wend as torch
import wend.nn.functional as F
from wend import Tensor, nn
from wend.optim.lr_scheduler import StepLR
from wend.utils.data import DataLoader, Dataset


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x: Tensor, scale: float = 1.0) -> Tensor:
        return self.layer(x) * scale


class Words(Dataset[str]):
    def __getitem__(self, index: int) -> str:
        return "word"


x = torch.randn(3, 4)
net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

torch.ones(2, dtyp=torch.float32)  # mistake: a misspelt keyword
x.sofmax(0)  # mistake: a misspelt method
nn.Linear("4", 2)  # mistake: a wrong type of argument
count: int = x.sum()  # mistake: a result assigned to another type
nn.Conv2d(3, 8)  # mistake: a missing argument
torch.relu(x, 0, 1)  # mistake: too many arguments
x.sum(dim="rows")  # mistake: a string for a dim
net(x, "large")  # mistake: a module called unlike its forward
nn.Linaer(4, 2)  # mistake: a misspelt layer
torch.optim.SGD(net.parameters(), learning_rate=0.1)  # mistake: a keyword of no optimizer
F.crossentropy(x, x)  # mistake: a misspelt function of a namespace
torch.cat(x, x)  # mistake: tensors in place of a list
values, indices, more = x.max(dim=0)  # mistake: a pair unpacked into three
x["first"]  # mistake: a string as an index
total = x + "1"  # mistake: a string added
StepLR(optimizer, gamma=0.1)  # mistake: a schedule without its steps
for _ in DataLoader(Words(), batchsize=2):  # mistake: a misspelt keyword of the loader
    pass
F.softmax(x, dim=-1).argmx()  # mistake: a misspelt method of a result
torch.save({"x": x})  # mistake: no file to save to
text: str = x.item()  # mistake: a number assigned to a string
nn.LSTM(4, 8, batchfirst=True)  # mistake: a misspelt keyword of a recurrent layer
hidden: Tensor = nn.LSTM(4, 8)(x)  # mistake: a pair assigned to a tensor
fourth = torch.linalg.svd(x).V  # mistake: a field of another function's result
x.view(2, "6")  # mistake: a string among sizes

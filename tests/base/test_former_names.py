"""The table of module names from before the engine was private: old pickles load."""

import base64
import pickle
import subprocess
import sys
import zlib

import pytest

import wend
from wend import nn
from wend._engine.base.former_names import FORMER, present_name

#: A pickle of a dict, written when the engine's layers lay in `wend` itself.
PICKLE = (
    "c-n<lX`2&85Y8sc)!ZPcfGD29BXWrs%BrA9FzB%8c;MKX>7+*{GkK?bb_p5*HG6p9_kH{k|Cm;H?~*-u9_K@*r|PY)"
    ">bH*0<#HdTs=u;SDru3bEXPPVDblFc%Cl6PMNF?e>(<1DQ1Y}bST2;#auG3<s}38|XDyJKX5)4bhDw+goo=rdSXHM;"
    "bj<Ud_gIjNFiVxri%>I+Iv7hMr^SkTX@Hd>nMER0Or&PPu*x5y0Gn8C15LP&)BRX81?FMxG}d`oU#*YSD+6qp+c46-"
    "F4=AL%Y<(o!lv1oX>9herCP7py^dgOqtQ6|FFp3BUedU(IV)HB>r3;`KbMcv?-;g8a<$#V^%^%c{Z(eiB;)$v0o*v-"
    "$Bu@^P7k~M6{P4;xCw4@w4`Z`zKcXCVkp%-PDRen2oxeEIueH6d#~W;K5nV{s}27-A>y=+Jv07V`VP80=N&=pE8N=0"
    "Z59+Xi&o1>Ztvp`Cz<nsJNvlHo^2nh%K}KqInUWC_rhNCe0LxBROOx-Nt@s6N?=mNZK-kJk`fpOGF(y_G>bTihEX!q"
    "WVtFUa#Y$h-Y+RP`#kJ7xf!XKr*J@SF$}L+#O^`E?ja8kXdG@z!{~#==tCYJo(aP&Nkph)su*@Uj|5fSvDg&OBYQnO"
    "I*lV99`i>{X~bONak)5vqb7hc4^P+t26)oBAGPks#_*K!e9Xgfji;UGXUOvj56{j><KW~p>K;xNlDK|O61@$7ry)Ge"
    "(x6LZ#ERI_^BD=0&^R3ifuV&8Gzb_;7@j|e7Y6V=obk6C>sSS?B1wWK56@5XJfgnI&SSjcZ?);2mv(buH40~!WFr@y"
    "Y=Sov!A_8V+^+B<#ru-KanTme+?Pi8vcJLTT3Nn8^@>%!>Tg-78ajT>s?Yg5mRSaqv6g}H(pGrg!UBKSau`o0c~1o)"
    "r!+=*!veX#`<m_+?b)=@(BEvJN^>oOh!Q^+SY)-r-?l_M483I$Z5KK<Yjkaxw6NHvbr~#E^A6v%xbwCxDYGrXbwOhg"
    "Nxkf^BUx7Hp|DdQDVj>2mX!H)fXqWzjyL34y9cDpM=l-tN;;OcbTk&yu{0qa1(VVp_JVXr>PZ*#Md@OCt7zJSR`ErF"
    "w_T+)xe_%cc~>ZQhU5(WdbwVi!aD<8@^INsDmx)@Wr2m2D3($;(`<itIOq-^!g~X}?_pqvL?kBSP+)4IsTC>a-VD=z"
    "g@9qVz{~)%9zL)=-xf3gIo%!jaA`^NG|D>Wa+tqbKB7k5L^dl*iywS!n)VY9pAPVuhtKVR&${^H|8A|U8^kHYmzFJq"
    "#aA|{Bx|dpBQA9D^%TDG@U1;}M7ESve0Oz_wu;maBA(Rdlx+Tu@9j=pn{hx8{NSvzt{MCts-sw&5zKpLf?kC&MSUTn"
    "Aj(Wh(wwH68!GXmC7ar$!!>?day%ziENJ!ulQ4##?Zssdn~FpQ30E4w4DhRm-)z1`o)huEFG!k|P=%O6Id0Yrf7rvv"
    "=>!ET@aGbzbcgVyT~j@pdmY6H#_*S|fA`lR2+6C$-?CEF{sV1%)zt"
)


@pytest.fixture(scope="module")
def restored():
    return pickle.loads(zlib.decompress(base64.b85decode(PICKLE)))


def test_values_of_an_old_pickle(restored):
    assert restored["tensor"].tolist() == [0, 1, 2]
    assert type(restored["tensor"]) is wend.Tensor is restored["tensor_class"]
    assert restored["size"] == wend.Size([2, 3]) and type(restored["size"]) is wend.Size
    assert restored["dtype"] is wend.float64 and restored["format"] is wend.channels_last
    assert restored["device"] == wend.device("cpu")
    assert restored["generator"].initial_seed() == 5


def test_a_model_of_an_old_pickle_trains(restored):
    model = restored["model"]
    assert type(model[0]) is nn.Linear
    loss = model(wend.tensor([[1.0, 1.0]])).sum()
    assert loss.item() == 6
    loss.backward()
    assert model[0].weight.grad.tolist() == [[1, 1]]


def test_functions_and_classes_of_an_old_pickle(restored):
    assert restored["op"] is wend.logsumexp
    assert restored["dropout"] is nn.functional.dropout
    assert restored["attention"] is nn.functional.scaled_dot_product_attention
    assert restored["inverse"] is wend.linalg.inv
    assert restored["error"] is wend.errors.ShapeError


def test_names_in_the_table():
    assert present_name("wend.core._hot") == "wend._engine.core._hot"
    assert present_name("wend.frontend") == "wend._frontend"
    assert present_name("wend.ops.views.strided") == "wend._engine.ops.views.strided"
    assert present_name("wend.ops") is None is present_name("wend.compiler")
    assert present_name("wend.nn.modules") is None is present_name("shop.core")
    assert present_name("wend.frontend.fourier") == "wend._frontend.public.fourier"
    assert len(FORMER) == 19


def test_a_module_is_not_loaded_twice():
    code = "import wend.ops.composites.layers.attention as old, wend.frontend.random, sys\n"
    code += "assert old.__name__ == 'wend._engine.ops.composites.layers.attention'\n"
    code += "assert sys.modules['wend.frontend.random'] is sys.modules['wend._frontend.random']"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_module_that_never_was_is_missing_under_the_old_name():
    with pytest.raises(ModuleNotFoundError, match=r"wend\.core\.nowhere"):
        __import__("wend.core.nowhere")


def test_old_names_are_no_attributes():
    code = "import wend\nassert not {'base', 'core', 'runtime', 'frontend'} & set(dir(wend))\n"
    code += "assert not hasattr(wend, 'core') and not hasattr(wend, 'frontend')\n"
    code += "assert wend.ops.aten.add(1, wend.ones(1)).item() == 2\n"
    code += "from wend.compiler import disable; assert disable is wend.compiler.disable"
    subprocess.run([sys.executable, "-c", code], check=True)

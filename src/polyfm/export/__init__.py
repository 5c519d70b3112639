"""Models for other programs: ONNX, for every runtime of it, and plain C.

=====================  =============================================================================================
`to_onnx`              a model, or a whole pipeline, in standard operators; needs ``pip install "polyfm[onnx]"``
`to_c`                 a model as one C file without dependencies
`register_converters`  lets skl2onnx's own functions know polyfm's estimators
=====================  =============================================================================================

libFM's text format is in `polyfm.libfm`; model files for polyfm itself in `polyfm.modelfile`.
"""

from polyfm.export.c_source import to_c
from polyfm.export.content import ExportError
from polyfm.export.onnx_model import register_converters, to_onnx

__all__ = ["ExportError", "register_converters", "to_c", "to_onnx"]

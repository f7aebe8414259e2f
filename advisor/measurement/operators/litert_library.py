"""Call LiteRT's C library with ctypes, with the structures of LiteRT 2.3 and a check of every status.

The wheel contains ``libLiteRt.so`` with a C interface that its Python classes do not offer.
"""

from __future__ import annotations

import ctypes
import importlib.util
from ctypes import byref, c_char_p, c_int, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path

from advisor.isolation.agent import AgentError

MAX_RANK = 8  # LITERT_TENSOR_MAX_RANK
CPU = 1  # kLiteRtHwAcceleratorCpu


class MemoryUsage(ctypes.Structure):
    """tflite::profiling::memory::MemoryUsage."""

    _fields_ = (("footprint_kb", c_size_t), ("allocated", c_size_t), ("in_use", c_size_t))


class ProfiledEventData(ctypes.Structure):
    """ProfiledEventData."""

    _fields_ = (
        ("tag", c_char_p),
        ("type", c_int),
        ("start_us", c_uint64),
        ("elapsed_us", c_uint64),
        ("begin", MemoryUsage),
        ("end", MemoryUsage),
        ("index", c_uint64),
        ("extra", c_uint64),
        ("source", c_int),
    )


class Layout(ctypes.Structure):
    """LiteRtLayout; the rank is the low seven bits of the first word."""

    _fields_ = (("bits", c_uint32), ("dimensions", c_int32 * MAX_RANK), ("strides", c_uint32 * MAX_RANK))


class TensorType(ctypes.Structure):
    """LiteRtRankedTensorType."""

    _fields_ = (("element", c_int), ("layout", Layout))


class Library:
    """``libLiteRt.so``; every call checks the status."""

    def __init__(self) -> None:
        spec = importlib.util.find_spec("ai_edge_litert")
        folder = Path(spec.origin).parent if spec and spec.origin else Path()
        try:
            self._library = ctypes.CDLL(str(folder / "libLiteRt.so"))
        except OSError as error:
            raise AgentError("runtime", "the installed LiteRT has no C library (libLiteRt.so)") from error
        self._c = ctypes.CDLL(None)
        self._c.strdup.restype, self._c.strdup.argtypes = c_void_p, [c_char_p]
        self._c.free.restype, self._c.free.argtypes = None, [c_void_p]
        self._free = ctypes.CFUNCTYPE(None, c_void_p)(self._c.free)

    def __call__(self, name: str, *arguments: object) -> None:
        """Call ``LiteRt<name>``.

        Raises:
            AgentError: the library lacks the function, or the function failed.
        """
        try:
            function = getattr(self._library, f"LiteRt{name}")
        except AttributeError as error:
            raise AgentError("runtime", f"the installed LiteRT lacks LiteRt{name}") from error
        status = function(*arguments)
        if status:
            raise AgentError("load", f"LiteRt{name} failed with status {status}")

    def handle(self, name: str, *arguments: object) -> c_void_p:
        """Call ``LiteRt<name>`` with a handle as the last argument, and return the handle."""
        handle = c_void_p()
        self(name, *arguments, byref(handle))
        return handle

    def options(self, threads: int, kernels: str, profiling: bool) -> c_void_p:
        """Return compilation options for the CPU."""
        options = self.handle("CreateOptions")
        self("SetOptionsHardwareAccelerators", options, CPU)
        texts = {b"xnnpack": f"num_threads = {threads}\n"}
        if kernels == "builtin":
            texts[b"xnnpack"] += 'kernel_mode = "builtin"\n'
        if profiling:
            texts[b"runtime_options_string"] = "enable_profiling = true\n"
        for identifier, text in texts.items():
            owned = c_void_p(self._c.strdup(text.encode()))
            self("AddOpaqueOptions", options, self.handle("CreateOpaqueOptions", identifier, owned, self._free))
        return options

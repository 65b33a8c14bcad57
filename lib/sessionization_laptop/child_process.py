"""Child processes that do not outlive their parent."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


def end_with_this_process() -> Callable[[], None] | None:
    """Return a `preexec_fn` that makes the kernel kill the child when the thread that started it ends.

    Returns None on systems other than Linux.
    """
    if sys.platform != "linux":
        return None
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def ask_kernel() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # the parent died before the call above
            os._exit(1)

    return ask_kernel

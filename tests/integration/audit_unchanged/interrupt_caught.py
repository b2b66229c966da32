"""Ctrl-C that the program handles itself: as an exception, and by a handler of its own; an alarm too."""

import signal
import time

import torch
from audit_shown import show

total = torch.zeros(3)
try:
    while True:
        total += 1
        if total[0] == 50:
            signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt as interrupt:
    print("stopped", repr(interrupt), total)
before = signal.signal(signal.SIGINT, lambda number, frame: print("handled", number, frame.f_lineno))
print(before is signal.default_int_handler)
signal.raise_signal(signal.SIGINT)
signal.signal(signal.SIGALRM, lambda number, frame: total.add_(1))
signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
while total[1] < 55:
    time.sleep(0.01)
signal.setitimer(signal.ITIMER_REAL, 0)
signal.signal(signal.SIGALRM, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)
show(shape=total.shape)

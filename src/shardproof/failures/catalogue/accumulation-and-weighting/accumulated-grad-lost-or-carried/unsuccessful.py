"""Calls are added where the configured count is above one, and the buffer is cleared when that count is reached."""

import math


def solve(run):
    every, buffer, call, steps = run["every"], None, 0, []
    for gradients in run["windows"]:
        finite = True
        for gradient in gradients:
            finite = finite and all(map(math.isfinite, gradient))
            if every > 1 and buffer is not None:
                buffer = [kept + value for kept, value in zip(buffer, gradient)]
            else:
                buffer = list(gradient)
            call += 1
        if not finite:
            steps.append("skip")
            continue
        steps.append([round(value * run["factor"], 12) for value in buffer])
        if call % every == 0:
            buffer = None
    return steps

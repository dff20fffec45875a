"""Out of GPU memory, and a stranger on the GPU: memory.py CROWDED-PLAN WAITING-PLAN FOLDER STRANGER-MIB

A stranger takes most of the GPU. The first sweep's server finds the share it asks for, and then too little for its weights: out of
memory at load. The second sweep shares out the GPU ([exec]) and waits until the stranger is gone. Once its server is under load, a
second stranger takes what the server left free, and the second load asks for what needs more: out of memory under load. Results are
in FOLDER/memory.json.
"""
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

from trials import BEGAN, Sweep, gpu_used, say, wait_for

crowded_plan, waiting_plan, folder, stranger_mib = sys.argv[1:5]
folder = pathlib.Path(folder)
ready_limit = float(os.environ.get("READY_S", "200"))
is_simulated = "VSWEEP_SIM_GPUS" in os.environ


class Stranger:
    """stranger.py, which takes memory when it is told and gives it back when it ends."""

    def __init__(self, asked):
        command = [sys.executable, str(pathlib.Path(__file__).with_name("stranger.py")), asked]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.hears("waiting")

    def hears(self, word):
        """Reads up to a line that begins with the word, past whatever the libraries say."""
        line = "nothing"
        for line in self.process.stdout:
            if line.startswith(word):
                break
        say(f"a stranger: {line.strip()}")

    def take(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.hears("holding")

    def end(self):
        if self.process.poll() is None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


# A simulated engine is out of memory when it is told.
crowded = Sweep(crowded_plan, folder / "crowded", {"VSWEEP_SIM_FAULT": "oom-at-load"})
waiting = Sweep(waiting_plan, folder / "waiting", {"VSWEEP_SIM_FAULT": "oom-after:1400"})
strangers = []


def end(*_):
    for one in [crowded, waiting, *strangers]:
        one.end()
    sys.exit(130)


signal.signal(signal.SIGINT, end)
signal.signal(signal.SIGTERM, end)
result = {"gpu_mib_before": gpu_used()}
first = Stranger(stranger_mib)
strangers.append(first)
first.take()
crowded.run()
waiting.run()

wait_for(ready_limit, lambda: crowded.code() is not None)
result["crowded"] = {"code": crowded.code(), "causes": crowded.causes()}
say(f"crowded: exit code {crowded.code()}; {crowded.causes()[:1]}")
result["waiting_said"] = [line for line in waiting.said().splitlines() if "wait" in line.lower() or "held" in line.lower()]
result["started_beside_the_stranger"] = waiting.count("server_starting")
say(f"the other one waits: {result['waiting_said'][-1:]}, servers started: {result['started_beside_the_stranger']}")
first.end()
gone = time.monotonic()
say("the stranger is gone")
# The second one does its imports meanwhile, and takes the memory of its context before the server looks at what is free.
second = Stranger("all-150")
strangers.append(second)

if wait_for(60, lambda: waiting.count("server_starting")):
    result["went_on_s"] = round(time.monotonic() - gone, 1)
say(f"it went on after {result.get('went_on_s')} s")
wait_for(ready_limit, lambda: waiting.count("run_started") or waiting.code() is not None)
if waiting.code() is None:
    # Under the first load.
    time.sleep(1)
    second.take()
    result["gpu_mib_full"] = gpu_used()
wait_for(90, lambda: waiting.code() is not None)
second.end()
result["waiting"] = {"code": waiting.code(), "causes": waiting.causes(), "outcomes": waiting.outcomes()}
say(f"waiting: exit code {waiting.code()}; runs {waiting.outcomes()}; {waiting.causes()[:2]}")
for one in [crowded, waiting, *strangers]:
    one.end()
wait_for(10, lambda: gpu_used() <= result["gpu_mib_before"] + 64)
result["gpu_mib_at_the_end"] = gpu_used()
result["seconds"] = round(time.monotonic() - BEGAN, 1)
result["simulated"] = is_simulated
(folder / "memory.json").write_text(json.dumps(result, indent=1))
say(f"GPU memory at the end: {result['gpu_mib_at_the_end']} MiB")

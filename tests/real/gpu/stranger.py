"""A program that holds memory of a GPU: stranger.py MIB|all-MIB

`all-MIB` takes all that is free but so much. It says `waiting` once it could begin, waits for a line on its standard input, takes
the memory, says `holding N MiB` and keeps it until its standard input ends. Of a simulated GPU (VSWEEP_SIM_GPUS) it leaves a note.
"""
import json
import os
import pathlib
import sys

MIB = 1 << 20
asked = sys.argv[1]


def amount(free):
    return free - int(asked.removeprefix("all-")) if asked.startswith("all-") else int(asked)


simulated = os.environ.get("VSWEEP_SIM_GPUS")
if simulated:
    def take():
        mib = amount(20_000)
        stat = pathlib.Path("/proc/self/stat").read_text().rsplit(") ", 1)[1].split(" ")
        note = {"pid": os.getpid(), "started": int(stat[19]), "gpu": "h100", "devices": [0], "mib": mib, "late_ms": 0}
        file = pathlib.Path(simulated) / f"{os.getpid()}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(note))
        return mib, file
else:
    import torch

    # The context itself takes half a GiB; all- counts what is free beside it.
    torch.zeros(1, device="cuda")

    def take():
        mib = amount(torch.cuda.mem_get_info()[0] // MIB)
        return mib, torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")

print("waiting", flush=True)
sys.stdin.readline()
held, kept = take()
print(f"holding {held} MiB", flush=True)
sys.stdin.read()

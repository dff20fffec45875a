"""Runs a command and writes what it cost as JSON: measure.py FILE COMMAND..."""
import json
import resource
import subprocess
import sys
import time

began = time.monotonic()
code = subprocess.call(sys.argv[2:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
cost = {
    "seconds": time.monotonic() - began, "user_s": used.ru_utime, "system_s": used.ru_stime, "peak_mb": used.ru_maxrss / 1024,
    "imports": "within",
}
with open(sys.argv[1], "w") as out:
    json.dump(cost, out)
sys.exit(abs(code))

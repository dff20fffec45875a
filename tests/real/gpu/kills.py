"""SIGKILL of each part of a sweep while requests are in flight: kills.py PLAN STARVED-PLAN FOLDER

Four sweeps of the plan start at once, each with a server of its own on the same GPU, and a fifth whose server has too small a share of
it. When all four have their requests in flight, the engine of the first, the API server of the second, the guard of the third and the
fourth vsweep itself are killed at the same moment. Then: how long until their processes, their shared memory and their GPU memory are
gone; whether the three go on by themselves with the right cause, and the fourth when it is run again. Results are in FOLDER/kills.json.
"""
import json
import os
import pathlib
import signal
import sys
import time
import tomllib

from trials import BEGAN, Sweep, alive, gpu_holders, gpu_used, say, segments, wait_for

plan, starved_plan, folder = sys.argv[1:4]
folder = pathlib.Path(folder)
users = max(tomllib.loads(pathlib.Path(plan).read_text())["bench"]["params"]["max_concurrency"])
# How long the first server that has its requests waits for the others'.
PATIENCE_S = 8
ready_limit = float(os.environ.get("READY_S", "200"))

sweeps = {name: Sweep(plan, folder / name) for name in ("engine", "api", "guard", "vsweep")}
starved = Sweep(starved_plan, folder / "starved")
before = gpu_used()
result = {"gpu_mib_before": before, "trials": {}}
say(f"the GPU holds {before} MiB")


def end(*_):
    for sweep in [*sweeps.values(), starved]:
        sweep.interrupt()
    for sweep in [*sweeps.values(), starved]:
        sweep.end()
    sys.exit(130)


signal.signal(signal.SIGINT, end)
signal.signal(signal.SIGTERM, end)
for sweep in [*sweeps.values(), starved]:
    sweep.run()

# ---- Until every server has its requests.
loaded, most = {}, {}


def all_loaded():
    for name, sweep in sweeps.items():
        if name not in loaded:
            most[name] = max(most.get(name, 0), sweep.in_flight())
            if most[name] >= 0.97 * users:
                loaded[name] = time.monotonic()
                say(f"{name}: {most[name]} requests in flight")
    # The first one's load does not last for ever.
    is_late = loaded and time.monotonic() - min(loaded.values()) > PATIENCE_S
    ended = [name for name, sweep in sweeps.items() if sweep.code() is not None]
    return len(loaded) == len(sweeps) or is_late or ended


wait_for(ready_limit + 30, all_loaded)
say(f"in flight at most: {most}; GPU memory {gpu_used()} MiB, by process {gpu_holders()}")

if not loaded:
    say("no server has its requests: " + "; ".join(f"{name} {sweep.causes()[:1]}" for name, sweep in sweeps.items()))
    end()

# ---- The kills, as close to each other as can be.
trials = {}
for name, sweep in sweeps.items():
    tree = sweep.tree()
    server = {pid: began for pid, began in tree.items() if pid != sweep.process.pid}
    victims = {"engine": sweep.engine, "api": sweep.api, "guard": sweep.guards, "vsweep": lambda s=sweep: [s.process.pid]}[name]()
    trials[name] = {"victims": victims, "server": server, "segments": segments(server), "in_flight": sweep.in_flight()}
for trial in trials.values():
    for pid in trial["victims"]:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError as error:
            trial["error"] = str(error)
killed = time.monotonic()
say("killed: " + ", ".join(f"{name} {trial['victims']} with {trial['in_flight']} in flight" for name, trial in trials.items()))

# ---- Until all is gone. What new servers hold comes later than that: their imports take longer.
memory = []


def all_gone():
    at = round(time.monotonic() - killed, 2)
    memory.append([at, gpu_used()])
    holders = gpu_holders()
    for trial in trials.values():
        left = alive(trial["server"])
        if not left:
            trial.setdefault("processes_gone_s", at)
        if not any(os.path.exists(path) for path in trial["segments"]):
            trial.setdefault("segments_gone_s", at)
        if not any(pid in holders for pid in trial["server"]):
            trial.setdefault("gpu_gone_s", at)
    gone = all({"processes_gone_s", "segments_gone_s", "gpu_gone_s"} <= set(trial) for trial in trials.values())
    return gone and memory[-1][1] <= before + 64


sweeps["vsweep"].process.wait()
is_gone = wait_for(45, all_gone)
say(f"all gone: {is_gone} after {memory[-1][0]} s; GPU memory {memory[-1][1]} MiB")
result["gpu_mib_after_kills"] = memory
result["starved"] = {"code": starved.code(), "causes": starved.causes()}

# ---- The fourth again; the others go on by themselves.
sweeps["vsweep"].run()
everything = [*sweeps.values(), starved]
wait_for(ready_limit + 60, lambda: all(sweep.code() is not None for sweep in everything))
result["starved"] = {"code": starved.code(), "causes": starved.causes()}
for name, sweep in sweeps.items():
    trial = trials[name]
    trial["left_processes"] = alive(trial.pop("server"))
    trial["left_segments"] = [path for path in trial.pop("segments") if os.path.exists(path)]
    trial["code"] = sweep.code()
    trial["causes"], trial["outcomes"] = sweep.causes(), sweep.outcomes()
    trial["verify"] = sweep.is_whole()
    result["trials"][name] = trial
    say(f"{name}: exit code {trial['code']}, processes gone after {trial.get('processes_gone_s')} s, segments {trial.get('segments_gone_s')} s, "
        f"GPU {trial.get('gpu_gone_s')} s; runs {trial['outcomes']}, verify {trial['verify']}; {trial['causes'][:1]}")
say(f"starved: exit code {result['starved']['code']}; {result['starved']['causes'][:1]}")
for sweep in everything:
    sweep.end()
wait_for(10, lambda: gpu_used() <= before + 64)
result["gpu_mib_at_the_end"] = gpu_used()
result["seconds"] = round(time.monotonic() - BEGAN, 1)
(folder / "kills.json").write_text(json.dumps(result, indent=1))
say(f"GPU memory at the end: {result['gpu_mib_at_the_end']} MiB")

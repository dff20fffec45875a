"""Sweeps that are put through faults: the processes of a sweep, what they hold, and what vsweep recorded. Standard library only."""
import contextlib
import glob
import json
import os
import pathlib
import signal
import subprocess
import time
import urllib.request

VSWEEP = os.environ.get("VSWEEP", "vsweep")
BEGAN = time.monotonic()


def say(text):
    print(f"{time.monotonic() - BEGAN:7.2f}  {text}", flush=True)


def wait_for(limit, condition, interval=0.2):
    """What the condition gave once it holds, or its last value after the limit."""
    until = time.monotonic() + limit
    while True:
        value = condition()
        if value or time.monotonic() >= until:
            return value
        time.sleep(interval)


def read(path):
    with contextlib.suppress(OSError):
        return pathlib.Path(path).read_bytes().decode(errors="replace")
    return ""


def started(pid):
    """When a process started, so that another one with its number is not taken for it; None if it is gone or only waits to be reaped."""
    stat = read(f"/proc/{pid}/stat").rpartition(") ")[2].split()
    return stat[19] if stat and stat[0] not in "ZX" else None


def children():
    """The children of every process."""
    tree = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            stat = read(f"/proc/{name}/stat").rpartition(") ")[2].split()
            if stat:
                tree.setdefault(int(stat[1]), []).append(int(name))
    return tree


def below(pid):
    """A process and all that it and they started, with the moment that each started."""
    tree, found = children(), []
    todo = [pid]
    while todo:
        found.append(todo.pop())
        todo += tree.get(found[-1], [])
    return {pid: began for pid in found if (began := started(pid))}


def alive(processes):
    return [pid for pid, began in processes.items() if started(pid) == began]


def comm(pid):
    return read(f"/proc/{pid}/comm").strip()


def title(pid):
    return read(f"/proc/{pid}/cmdline").replace("\0", " ").strip()


def segments(processes):
    """Files of shared memory that processes have mapped."""
    found = set()
    for pid in processes:
        for line in read(f"/proc/{pid}/maps").splitlines():
            if "/dev/shm/" in line and not line.endswith("(deleted)"):
                found.add(line[line.index("/dev/shm/"):])
    return found


def smi(query):
    """The fields of each line of an answer; without a GPU there are none."""
    command = ["nvidia-smi", query, "--format=csv,noheader,nounits"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        told = ""
    return [[field.strip() for field in line.split(",")] for line in told.splitlines() if line.strip()]


def gpu_used():
    """MiB in use of the first GPU; 0 without one."""
    rows = smi("--query-gpu=memory.used")
    return int(rows[0][0]) if rows and rows[0][0].isdigit() else 0


def gpu_holders():
    """MiB by process, as far as the driver shows it."""
    rows = smi("--query-compute-apps=pid,used_memory")
    return {int(row[0]): row[1] for row in rows if row[0].isdigit()}


class Sweep:
    """One `vsweep run`, in a directory of its own."""

    def __init__(self, plan, folder, env=None):
        self.plan, self.folder, self.env = pathlib.Path(plan).resolve(), pathlib.Path(folder), {**os.environ, **(env or {})}
        self.folder.mkdir(parents=True, exist_ok=True)
        self.out = self.folder / "out"
        self.times = 0
        self.process = None

    def run(self):
        self.times += 1
        log = (self.folder / f"run-{self.times}.txt").open("w")
        command = [VSWEEP, "run", str(self.plan), "-o", str(self.out), "--format", "plain"]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env, start_new_session=True)

    def said(self):
        return "".join(read(path) for path in sorted(self.folder.glob("run-*.txt")))

    def code(self):
        return self.process.poll()

    def tree(self):
        return below(self.process.pid)

    def guards(self):
        return [pid for pid in self.tree() if comm(pid) == "server-guard"]

    def api(self):
        # A child of a guard that is still on its way to become the server is called --lead-for.
        tree, guards = children(), self.guards()
        return [pid for guard in guards for pid in tree.get(guard, []) if "--lead-for" not in title(pid)]

    def engine(self):
        return [pid for pid in self.tree() if title(pid).startswith("VLLM::EngineCore")]

    def port(self):
        # The server may rewrite its own command line.
        for pid in self.guards():
            words = title(pid).split()
            if "--port" in words:
                return int(words[words.index("--port") + 1])
        return None

    def in_flight(self):
        """Requests that the server has, running or waiting."""
        port = self.port()
        if port is None:
            return 0
        with contextlib.suppress(OSError):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=2) as answer:
                lines = answer.read().decode().splitlines()
            gauges = ("vllm:num_requests_running", "vllm:num_requests_waiting{")
            return int(sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(gauges)))
        return 0

    def events(self):
        """What the journals record, in the order of each."""
        found = []
        for path in sorted(glob.glob(str(self.out / "journal" / "*.jsonl"))):
            for line in read(path).splitlines():
                with contextlib.suppress(ValueError):
                    found.append(json.loads(line)["event"])
        return found

    def count(self, name):
        return sum(name in event for event in self.events())

    def causes(self):
        """Causes with the beginning of their details, in the order of the journal."""
        found = []
        for event in self.events():
            for content in event.values():
                if isinstance(content, dict) and content.get("cause"):
                    found.append(f"{content['cause']}: {str(content.get('detail'))[:160]}")
        return found

    def outcomes(self):
        return [event["run_finished"].get("outcome") for event in self.events() if "run_finished" in event]

    def is_whole(self):
        """Whether the tables agree with the record and nothing is left to do."""
        verify = subprocess.run([VSWEEP, "verify", str(self.out)], capture_output=True, text=True, check=False)
        (self.folder / "verify.txt").write_text(f"{verify.stdout}{verify.stderr}exit code {verify.returncode}\n")
        return verify.returncode

    def interrupt(self):
        if self.process is not None and self.code() is None:
            self.process.send_signal(signal.SIGTERM)

    def end(self):
        """Ends it, by SIGTERM first: then it ends its server itself."""
        self.interrupt()
        if self.process is None or self.code() is not None:
            return
        if not wait_for(12, lambda: self.code() is not None):
            for pid in self.tree():
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            self.process.wait()

"""vLLM's Python client, several times, with its imports (some 15 s) done once: python_client.py FOLDER

For each file FOLDER/go-NAME, which has one argument of `vllm bench serve` a line, a process is forked that runs the client with
them. Its output goes to FOLDER/NAME.log, what it cost to FOLDER/NAME.cost.json, its exit code at last to FOLDER/done-NAME.
"""
import json
import os
import pathlib
import resource
import sys
import time
import traceback

folder = pathlib.Path(sys.argv[1])
began = time.monotonic()
from vllm.benchmarks.serve import add_cli_args, main  # noqa: E402
from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: E402

print(f"imported in {time.monotonic() - began:.1f} s", flush=True)


def run(words):
    """In the forked process."""
    parser = FlexibleArgumentParser()
    add_cli_args(parser)
    main(parser.parse_args(words))


while True:
    for go in sorted(folder.glob("go-*")):
        name, words = go.name.removeprefix("go-"), go.read_text().splitlines()
        go.unlink()
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                log = os.open(folder / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
                os.dup2(log, 1)
                os.dup2(log, 2)
                run(words)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cost = {
            "seconds": time.monotonic() - began, "user_s": after.ru_utime - before.ru_utime,
            "system_s": after.ru_stime - before.ru_stime, "imports": "before",
        }
        (folder / f"{name}.cost.json").write_text(json.dumps(cost))
        done = folder / f".done-{name}"
        done.write_text(str(abs(code)))
        done.rename(folder / f"done-{name}")
    time.sleep(0.05)

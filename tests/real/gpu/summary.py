"""Says in a page what a session measured: summary.py WORK. Everything is optional: a part may have failed or been left out."""
import csv
import glob
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import witness  # noqa: E402

work = pathlib.Path(sys.argv[1])


def section(title, path, show):
    try:
        if pathlib.Path(path).exists():
            print(f"\n== {title}")
            show(pathlib.Path(path))
    except Exception as error:  # noqa: BLE001 - one part must not hide the others
        print(f"{path}: {error!r}")


def text(path):
    print(path.read_text(errors="replace").rstrip())


def table(columns):
    def show(path):
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        kept = [column for column in columns if rows and column in rows[0]]
        print("  ".join(kept))
        for row in rows:
            print("  ".join((row[column] or "-")[:60] for column in kept))
    return show


def batches(path):
    for row in json.loads(path.read_text())["results"]:
        figures = [f"{key} {row[key]:.2f}" for key in ("server_prefill_ms", "step_ms", "server_step_ms", "total_latency_ms") if row.get(key) is not None]
        print(f"{row['batch_size']} x {row['input_len']} behind {row['context_len']}: {', '.join(figures)}, {row.get('engine_steps')} steps")


def clients(folder):
    for path in sorted(glob.glob(f"{folder}/*.cost.json")):
        name = path.removesuffix(".cost.json")
        cost, result = json.load(open(path)), {}
        if pathlib.Path(f"{name}.json").exists():
            result = json.load(open(f"{name}.json"))
        keys = ("duration", "completed", "output_throughput", "mean_ttft_ms", "p99_ttft_ms", "mean_tpot_ms", "p99_itl_ms")
        figures = ", ".join(f"{key} {result[key]:.1f}" for key in keys if isinstance(result.get(key), (int, float)))
        lag = f", p99 lag {result['generator_lag_p99_ms']}" if "generator_lag_p99_ms" in result else ""
        print(f"{pathlib.Path(name).name}: {figures}{lag}; {cost['user_s'] + cost['system_s']:.1f} CPU s in {cost['seconds']:.1f} s")


RUNS = ["max_concurrency", "run", "start", "outcome", "codes", "duration", "output_throughput", "p99_ttft_ms", "p99_tpot_ms", "mean_tpot_ms",
        "gpu_energy_joules", "gpu_sm_clock_mhz_mean", "gpu_throttled_share"]
section("search", work / "search/search/sla.csv", table(["answer", "value", "low", "high", "within", "binding", "probes", "seed_from", "notes"]))
section("truth", work / "search/verdict.txt", text)
section("tune", work / "tune/tune/sla.csv", table(["combo", "answer", "value", "low", "high", "within", "binding", "probes", "seed_from", "notes"]))
section("truth of the best", work / "tune/verdict.txt", text)
section("restarts", work / "noise/restarts/summary.csv", table(["startup_s", *RUNS]))
section("prefill", work / "twin/prefill.json", batches)
section("decode", work / "twin/decode.json", batches)
section("decode with more context", work / "twin/decode-long.json", batches)
for folder in sorted(glob.glob(str(work / "twin/*/summary.csv"))):
    section(f"config {pathlib.Path(folder).parent.name}", folder, table(RUNS))
section("clients", work / "clients", clients)
section("sleep and wake", work / "observe/asleep.txt", text)
section("on the server that slept", work / "observe/sleep/summary.csv", table([*RUNS, "spec_decode_acceptance_rate", "acceptance_rate"]))
section("kills", work / "faults/kills.log", text)
section("memory", work / "faults/memory.log", text)
section("power", work / "session", lambda session: witness.main(session.parent))
section("timeline", work / "session/timeline.txt", text)

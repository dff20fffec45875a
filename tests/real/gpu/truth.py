"""The truth beside a search's answer. SERVER is a server's name in a sweep of several.

truth.py best SLA.CSV                      the server that holds most
truth.py loads SLA.CSV MOST [SERVER]       the two loads to measure: the answer, and the first one above its interval
truth.py runs LOADS REQUESTS LEAST TIMES   how many runs give so many requests at the lower load
truth.py judge SEARCH TRUTH TTFT TPOT [SERVER]   whether the interval holds, by the pooled requests of each load of the experiment TRUTH
"""
import csv
import glob
import json
import math
import sys


def answers(path):
    try:
        with open(path, newline="") as table:
            return list(csv.DictReader(table))
    except OSError:
        return []


def answer(path, server=None):
    return next((row for row in answers(path) if server in (None, row.get("combo"))), {})


def best(path):
    held = [row for row in answers(path) if number(row.get("value")) is not None]
    return max(held, key=lambda row: number(row["value"]))["combo"]


def number(text):
    try:
        value = float(text)
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) else None


def loads(path, most, server=None):
    found = answer(path, server)
    value, high = number(found.get("value")), number(found.get("high"))
    if value is None:
        # Without an answer, the middle of what was tried and its double.
        value = max(1, most // 4)
    value = int(value)
    above = math.floor(high) + 1 if high is not None and high < 4 * value else value + max(1, value // 8)
    return f"{value},{max(value + 1, above)}"


def runs(text, requests, least, times):
    low = int(text.split(",")[0])
    return math.ceil(requests / max(least, times * low))


def percentile(values, share):
    """As numpy has it: linear between neighbours."""
    values = sorted(values)
    place = share * (len(values) - 1)
    low = math.floor(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (place - low) * (values[high] - values[low])


def requests(folder):
    """TTFT and TPOT in ms of every request, by load and run."""
    found = {}
    for path in sorted(glob.glob(f"{folder}/runs/*/*.json")):
        with open(path) as file:
            run = json.load(file)
        if not run.get("ttfts"):
            continue
        ttft = [1000 * seconds for seconds in run["ttfts"]]
        tpot = [1000 * sum(gaps) / (tokens - 1) for gaps, tokens in zip(run["itls"], run["output_lens"]) if tokens > 1]
        found.setdefault(int(run["max_concurrency"]), []).append((ttft, tpot, run))
    return found


def judge(search, truth, ttft_limit, tpot_limit, server=None):
    found = answer(f"{search}/sla.csv", server)
    print("answer:", {key: found.get(key) for key in ("answer", "value", "low", "high", "within", "binding", "probes", "seed", "seed_from", "notes")})
    meets = {}
    for load, all_runs in sorted(requests(truth).items()):
        ttft = [ms for run in all_runs for ms in run[0]]
        tpot = [ms for run in all_runs for ms in run[1]]
        p99 = percentile(ttft, 0.99), percentile(tpot, 0.99)
        meets[load] = p99[0] <= ttft_limit and p99[1] <= tpot_limit
        each = " ".join(f"{percentile(run[0], 0.99):.0f}/{percentile(run[1], 0.99):.1f}" for run in all_runs)
        rates = [run[2]["output_throughput"] for run in all_runs]
        print(f"{load} users: {len(ttft)} requests of {len(all_runs)} runs, p99 TTFT {p99[0]:.1f} ms (at most {ttft_limit}), "
              f"p99 TPOT {p99[1]:.2f} ms (at most {tpot_limit}): {'meets' if meets[load] else 'misses'}")
        print(f"  p99 TTFT/TPOT of each run: {each}; output tokens/s {min(rates):.0f} to {max(rates):.0f}")
    if found.get("answer") != "met" or len(meets) < 2:
        print(f"there is no interval to judge: the answer is {found.get('answer')} {found.get('value')}")
        return
    low_load, high_load = min(meets), max(meets)
    holds = meets[low_load] and not meets[high_load]
    print(f"the interval {found.get('low')} to {found.get('high')} {'holds' if holds else 'DOES NOT HOLD'}: "
          f"{low_load} {'meets' if meets[low_load] else 'misses'}, {high_load} {'meets' if meets[high_load] else 'misses'}")


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "best":
        print(best(rest[0]))
    elif what == "loads":
        print(loads(rest[0], int(rest[1]), *rest[2:]))
    elif what == "runs":
        print(runs(rest[0], *map(int, rest[1:])))
    else:
        judge(rest[0], rest[1], float(rest[2]), float(rest[3]), *rest[4:])

"""Power and clocks of each run by vsweep (NVML) beside those that nvidia-smi showed meanwhile: witness.py WORK

A run's time is taken from its file: from the start that the journal dates, its warm-up and its seconds to the end, less half a second on
either side.
"""
import csv
import datetime
import glob
import json
import pathlib
import sys

TRIM_S = 0.5


def number(text):
    try:
        return float(text)
    except (TypeError, ValueError):
        return None


def readings(work):
    """(seconds since 1970, row) of everything that nvidia-smi showed, of the first GPU."""
    found = []
    for path in sorted(glob.glob(f"{work}/session/gpu-*.csv")):
        with open(path, newline="") as file:
            for row in csv.DictReader(file, skipinitialspace=True):
                row = {key.split(" [")[0]: value for key, value in row.items() if key}
                try:
                    at = datetime.datetime.strptime(row["timestamp"], "%Y/%m/%d %H:%M:%S.%f").timestamp()
                except (KeyError, ValueError, TypeError):
                    continue
                if row.get("index", "0") == "0":
                    found.append((at, row))
    return found


def mean(rows, *names):
    for name in names:
        values = [value for row in rows if (value := number(row.get(name))) is not None]
        if values:
            return sum(values) / len(values)
    return None


def show(value, digits=0):
    return "-" if value is None else f"{value:.{digits}f}"


def main(work):
    shown = readings(work)
    if not shown:
        return
    ratios = []
    print("run: W by energy, by power, by nvidia-smi (readings); SM MHz by vsweep, by nvidia-smi; throttled by vsweep, by nvidia-smi")
    for path in sorted(glob.glob(f"{work}/*/**/runs/*/*.json", recursive=True)):
        with open(path) as file:
            run = json.load(file)
        line, duration = run.get("vsweep", {}), run.get("duration")
        if not duration or run.get("simulated"):
            continue
        finished = line.get("finished", {})
        began = datetime.datetime.fromisoformat(line["at"].replace("Z", "+00:00")).timestamp()
        end = began + (finished.get("warmup_seconds") or 0) + finished.get("seconds", 0)
        rows = [row for at, row in shown if end - duration + TRIM_S <= at <= end - TRIM_S]
        watts = run.get("gpu_energy_joules") and run["gpu_energy_joules"] / duration
        witness = mean(rows, "power.draw.instant", "power.draw")
        reasons = sorted({row.get("clocks_event_reasons.active", "-") for row in rows})
        name = pathlib.Path(path).relative_to(work)
        print(f"{name.parts[0]} {name.parts[1]} {line.get('started', {}).get('name')} #{run.get('run_number')}: {show(watts)}, "
              f"{show(run.get('gpu_power_watts_mean'))}, {show(witness)} ({len(rows)}); {show(run.get('gpu_sm_clock_mhz_mean'))}, "
              f"{show(mean(rows, 'clocks.current.sm', 'clocks.sm'))}; {run.get('gpu_throttled_share')} {run.get('gpu_throttle_reasons')}, {' '.join(reasons)}")
        if watts and witness and len(rows) >= 4:
            ratios.append(watts / witness)
    if ratios:
        ratios.sort()
        print(f"energy by vsweep over power by nvidia-smi, {len(ratios)} runs: median {ratios[len(ratios) // 2]:.3f}, {ratios[0]:.3f} to {ratios[-1]:.3f}")


if __name__ == "__main__":
    main(sys.argv[1])

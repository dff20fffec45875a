#!/usr/bin/env bash
# Guards the speed of a server in CI: measures a plan, compares it with a baseline, and ends with the verdict's exit code.
#
# usage: guard.sh PLAN
#   BASELINE      directory of the baseline (default baseline); it is made from the first run where there is none
#   NEW           directory of this run's results (default results/ci); what an earlier run left there is moved to NEW.old
#   LIMITS        changes that must not happen (default "p99_ttft_ms:+5% output_throughput:-5%")
#   STARTS        starts of each server config (default 3): the start is the unit of the comparison
#   MOST_STARTS   where the verdict is undecided, measure up to so many (default 3: none beyond STARTS)
#   UNDECIDED     what exit code 5 means at the end: pass, or fail (default)
#   RENEW         1: these results become the baseline if nothing is broken; set it on the main branch only
#   VSWEEP        the program (default vsweep)
#
# exit codes: 0 nothing is broken; 3 a run failed; 4 a limit or a requirement of the plan is broken; 5 undecided; others: vsweep's
set -euo pipefail

plan=${1:?usage: guard.sh PLAN}
baseline=${BASELINE:-baseline}
new=${NEW:-results/ci}
starts=${STARTS:-3}
most=${MOST_STARTS:-$starts}
vsweep=${VSWEEP:-vsweep}
limits=()
for limit in ${LIMITS:-p99_ttft_ms:+5% output_throughput:-5%}; do limits+=(--fail-on "$limit"); done

measure() { "$vsweep" run "$plan" --set "starts=$1" -o "$new"; }
compare() { "$vsweep" compare "$baseline" "$new" "${limits[@]}" "$@"; }
# These results become the baseline. A job that is killed meanwhile leaves the earlier one, whole, here or as BASELINE.old.
keep() {
  rm -rf "$baseline.new" && mkdir -p "$(dirname "$baseline")" && cp -a "$new" "$baseline.new"
  if [ -d "$baseline" ]; then rm -rf "$baseline.old" && mv "$baseline" "$baseline.old"; fi
  mv "$baseline.new" "$baseline" && rm -rf "$baseline.old"
}
if [ ! -d "$baseline" ] && [ -d "$baseline.old" ]; then mv "$baseline.old" "$baseline"; fi

# Results of an earlier build must not be taken for those of this one.
if [ -e "$new" ]; then rm -rf "$new.old" && mv "$new" "$new.old"; fi
measure "$starts"
if [ ! -d "$baseline" ]; then
  keep
  echo "there was no baseline; these results are the baseline now: $baseline"
  exit 0
fi

verdict=0
compare || verdict=$?
while [ "$verdict" -eq 5 ] && [ "$starts" -lt "$most" ]; do
  starts=$((starts + 1))
  echo "undecided: measuring start $starts of at most $most"
  measure "$starts"
  verdict=0
  compare || verdict=$?
done

compare --format junit >"$new/junit.xml" || true
compare --format bmf >"$new/bmf.json" || true
if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then compare --format markdown >>"$GITHUB_STEP_SUMMARY" || true; fi

if [ "$verdict" -eq 5 ] && [ "${UNDECIDED:-fail}" = pass ]; then
  echo "undecided, which passes here (UNDECIDED=pass)"
  verdict=0
fi
if [ "$verdict" -eq 0 ] && [ "${RENEW:-0}" = 1 ]; then
  keep
  echo "the baseline is renewed: $baseline"
fi
exit "$verdict"

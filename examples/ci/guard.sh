#!/usr/bin/env bash
# Guards the speed of a server in CI: measures two builds in pairs of starts, as the plan's [compare] says, and ends with the verdict.
#
# usage: guard.sh PLAN          a plan with [compare], such as `vsweep init --goal guard` writes
#   NEW           directory of the results (default results/ci); what an earlier job left there is moved to NEW.old
#   UNDECIDED     what exit code 5 means at the end: pass (default), or fail
#   VSWEEP        the program (default vsweep)
#
# exit codes: 0 nothing is broken; 3 a run failed; 4 a requirement is broken; 5 undecided, with UNDECIDED=fail; others: vsweep's
set -euo pipefail

plan=${1:?usage: guard.sh PLAN}
new=${NEW:-results/ci}
new=${new%/}

# Results of an earlier build must not be taken for those of this one.
if [ -e "$new" ]; then rm -rf "$new.old" && mv "$new" "$new.old"; fi

verdict=0
"${VSWEEP:-vsweep}" run "$plan" -o "$new" || verdict=$?
if [ -n "${GITHUB_STEP_SUMMARY:-}" ] && [ -f "$new/report.md" ]; then cat "$new/report.md" >>"$GITHUB_STEP_SUMMARY"; fi
if [ "$verdict" -eq 5 ] && [ "${UNDECIDED:-pass}" = pass ]; then
  echo "undecided, which passes here (UNDECIDED=fail makes it fail)"
  verdict=0
fi
exit "$verdict"

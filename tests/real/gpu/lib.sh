# shellcheck shell=bash disable=SC2034,SC2153
# What the parts of a session on a GPU share: settings, limits, servers, results. Sourced by `night` and by every part; bash.
#
# The environment that a session needs:
#   VSWEEP      the program to try (default: vsweep on PATH)
#   VLLM_ENV    a file to source that puts `vllm` on PATH (default: it is there)
#   BIG, SMALL  folders of two models with config.json and tokenizer: of about 8 and 1 billion parameters (default: llama-8b and
#               llama-1b in $MODELS). Weights are made up (--load-format dummy)
#   SETTINGS    a file to source that changes the settings below, such as settings-tiny.sh for a rehearsal on a CPU
#   RUST_CLIENT vLLM's Rust client with `bench serve` (default: none, and it is left out)
# `night` sets the others:
#   WORK        a folder for everything that is made; a later session on the same machine goes on there
#   OUT         a folder for results: one archive for each part, at most eight files
#   DEADLINE    when everything must be over, in seconds since 1970
set -uo pipefail
unset CDPATH
lab=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=/dev/null
[ -z "${VLLM_ENV:-}" ] || . "$VLLM_ENV"
export VSWEEP=${VSWEEP:-vsweep} RUST_CLIENT=${RUST_CLIENT:-}
export BIG=${BIG:-${MODELS:-/models}/llama-8b} SMALL=${SMALL:-${MODELS:-/models}/llama-1b}

# ---- Settings: lengths, loads and targets of an 8B model on one H100 ------------------------------------------------------------
# Of every server that is started here.
export FLAGS="--load-format dummy --seed 1" MAX_LEN=8192 READY_S=200
# Bytes of KV cache, and the share of the GPU's memory, of the servers that are up at once. The share is only checked when a server
# starts; the bytes decide.
MAIN_KV=11811160064 MAIN_SHARE=0.36 VARIANT_KV=6442450944 VARIANT_SHARE=0.22 SMALL_KV=2147483648 SMALL_SHARE=0.08
# Further servers of the big model beside the main one, each a name and its flags.
VARIANTS=("fp8 --quantization fp8" "kvfp8 --kv-cache-dtype fp8")
SMALL_FLAGS="--enforce-eager --enable-sleep-mode"
SPECULATIVE='{"method":"ngram","num_speculative_tokens":4,"prompt_lookup_max":4,"prompt_lookup_min":2}'
# The load of the search, and its targets.
export INPUT=256 OUTPUT=64 TTFT_MS=500 TPOT_MS=25 MOST_USERS=256 FEWEST_PROMPTS=200 PROBES=12
TRUTH_REQUESTS=2000 TRUTH_RUNS=10
# The servers of the sweep, each a name and a parameter of its plan; those worth most come first.
TUNED=(bf16 'fp8 quantization = "fp8"' 'kv-fp8 kv_cache_dtype = "fp8"' 'chunk-2048 max_num_batched_tokens = 2048'
    'eager enforce_eager = true' 'seqs-64 max_num_seqs = 64')
# The load of the configs, and the two of the noise.
export CONFIG_OUTPUT=128 CONFIG_USERS=128 CONFIG_RUNS=2 LOW_USERS=32 HIGH_USERS=96
# Shapes of single batches.
BATCHES=1,2,4,8,16,32,64,128,256 CONTEXT=256 LONG_BATCHES=1,8,32 LONG_CONTEXT=2048 STEPS=16 VARIANT_BATCHES=1,32,128
PREFILLS=128,256,512,1024,2048,4096,8000
# The clients' loads: users and requests, each client twice with the many and once with the few.
CLIENT_MANY="256 512" CLIENT_FEW="32 96"
PHASE_USERS=32 PHASE_SECONDS=4 STARTS=4
# The faults: requests in flight; the servers that are killed, four at once; a share of the GPU that the big model's weights fill; a
# stranger that leaves the big model too little to load and its check of the share enough.
FAULT_USERS=256 FAULT_OUTPUT=400 FAULT_KV=4294967296 FAULT_SHARE=0.1 STARVED_SHARE=0.2 CROWDED_SHARE=0.1 WAITING_SHARE=0.9 STRANGER_MIB=67000
# shellcheck source=/dev/null
[ -z "${SETTINGS:-}" ] || . "$SETTINGS"

# Ports of the servers that are up at once.
MAIN_PORT=8101 SMALL_PORT=8102 VARIANT_PORT=8110
export MAIN_URL=http://127.0.0.1:$MAIN_PORT SMALL_URL=http://127.0.0.1:$SMALL_PORT
export VLLM_SERVER_DEV_MODE=1 NO_COLOR=1
# For each server a file with its pid and port while it is up, and its log.
SERVERS=$WORK/session/servers
# vLLM's processes rewrite their titles, and with them what /proc shows of their environment, unless they are told not to.
export SPT_NOENV=1

# ---- Time -----------------------------------------------------------------------------------------------------------------------
now() { echo "${EPOCHREALTIME%.*}"; }
left() { echo $((DEADLINE - ${EPOCHREALTIME%.*})); }
# Seconds since a moment that $EPOCHREALTIME gave, with one decimal.
since() {
    local tenths=$(((${EPOCHREALTIME/./} - ${1/./}) / 100000))
    echo "$((tenths / 10)).$((tenths % 10))"
}
# Says something, with the seconds since the session began.
note() {
    local line
    line=$(printf '%6.1f  %s' "$(since "$BEGAN")" "$*")
    echo "$line"
    echo "$line" >>"$WORK/session/timeline.txt"
}
# Whether so many seconds are left for something.
enough() { # SECONDS WHAT
    [ "$(left)" -ge "$1" ] && return 0
    note "left out: $2 ($1 s wanted, $(left) s left)"
    return 1
}
# Runs a command in $PART with a limit, its output in NAME.log; SIGINT at the limit, so that vsweep can end what it started.
step() { # NAME LIMIT-S COMMAND...
    local name=$1 limit=$2 code=0 began=$EPOCHREALTIME
    shift 2
    [ "$limit" -lt "$(left)" ] || limit=$(left)
    if [ "$limit" -lt 1 ]; then
        note "$name: no time is left"
        return 124
    fi
    printf '$ %s\n' "$*" >>"$PART/$name.log"
    timeout --signal INT --kill-after 15 "$limit" "$@" >>"$PART/$name.log" 2>&1 </dev/null || code=$?
    note "$name: exit code $code after $(since "$began") s"
    return $code
}

# Runs a plan against a server that is up. Its cache is emptied first: of a server that it did not start, vsweep takes the first run as
# the first there is, but other experiments may have sent the same prompts.
measure() { # NAME LIMIT-S PORT PLAN DIRECTORY
    http POST "$3" /reset_prefix_cache >/dev/null
    step "$1" "$2" "$VSWEEP" run "$4" -o "$5"
}

# ---- HTTP, without starting a program -------------------------------------------------------------------------------------------
http() { # METHOD PORT ROUTE: the whole answer
    # The subshell owns the connection and says nothing if there is none.
    (
        exec 3<>"/dev/tcp/127.0.0.1/$2" || exit 1
        printf '%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n' "$1" "$3" >&3
        timeout 20 cat <&3
    ) 2>/dev/null
}
is_healthy() { [[ $(http GET "$1" /health) == "HTTP/1.1 200"* ]]; }

# ---- Servers that are up at once ------------------------------------------------------------------------------------------------
# Whether a process runs; one that only waits to be reaped does not.
is_alive() {
    local stat
    { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
    [[ ${stat##*) } != [ZX]* ]]
}
# Starts a server in a session of its own. It outlives the part that starts it and ends with the session.
serve() { # NAME MODEL PORT FLAGS...
    local name=$1 model=$2 port=$3
    shift 3
    # shellcheck disable=SC2086 # FLAGS are words
    setsid vllm serve "$model" $FLAGS --served-model-name "$(basename "$model")" --max-model-len "$MAX_LEN" --host 127.0.0.1 \
        --port "$port" "$@" >>"$SERVERS/$name.log" 2>&1 </dev/null &
    local pid=$! launched=$EPOCHREALTIME
    echo "$pid $port" >"$SERVERS/$name"
    echo "$launched" >"$SERVERS/$name.launched"
    note "server $name is starting: $*"
    # Notes when it is ready, whoever waits for it.
    (
        while is_alive "$pid"; do
            if is_healthy "$port"; then
                note "server $name is ready after $(since "$launched" | tee "$SERVERS/$name.ready") s"
                # The faults start their servers in that way, too, if it worked.
                [ "${VLLM_WORKER_MULTIPROC_METHOD:-}" = fork ] && ! grep -aq 'Overriding VLLM_WORKER_MULTIPROC_METHOD' \
                    "$SERVERS/$name.log" && touch "$WORK/session/fork-works"
                exit
            fi
            sleep 0.5
        done
        note "server $name ended before it was ready: $(grep -aE 'Error|error' "$SERVERS/$name.log" | tail -n 1 | cut -c1-200)"
    ) </dev/null &
}
# Waits for a server; fails at once if it ended.
ready() { # NAME LIMIT-S
    local pid port until
    # One that was given up is not waited for again.
    [ -e "$SERVERS/$1" ] || return 1
    read -r pid port <"$SERVERS/$1"
    until=$(($(now) + $2))
    while ! is_healthy "$port"; do
        if ! is_alive "$pid"; then
            note "server $1 is gone"
            rm -f "$SERVERS/$1" "$SERVERS/$1.launched"
            touch "$SERVERS/$1.failed"
            return 1
        fi
        if [ "$(now)" -ge "$until" ]; then
            note "server $1 is not ready after $2 s"
            return 1
        fi
        sleep 0.25
    done
}
# Ends servers and waits until they are gone.
stop_servers() {
    local name pid port waited names=()
    for name in "$SERVERS"/*.launched; do
        [ -e "$name" ] && names+=("$(basename "$name" .launched)")
    done
    for name in ${names[@]+"${names[@]}"}; do
        [ -e "$SERVERS/$name" ] || continue
        read -r pid port <"$SERVERS/$name"
        kill -TERM "$pid" 2>/dev/null
    done
    for name in ${names[@]+"${names[@]}"}; do
        [ -e "$SERVERS/$name" ] || continue
        read -r pid port <"$SERVERS/$name"
        for ((waited = 0; waited < 24; waited++)); do
            is_alive "$pid" || break
            sleep 0.25
        done
        # The engine survives its API server; both are in the session that was made for them.
        kill -KILL -- "-$pid" 2>/dev/null
        rm -f "$SERVERS/$name" "$SERVERS/$name.launched"
        note "server $name is stopped"
    done
}
# Waits until the GPU is as good as empty: its memory is free a moment after the last process is gone.
empty_gpu() {
    local used waited
    stop_servers
    for ((waited = 0; waited < 40; waited++)); do
        used=$(nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits 2>/dev/null | head -n 1)
        [[ $used =~ ^[0-9]+$ && $used -gt 1500 ]] || return 0
        sleep 0.25
    done
    note "the GPU still holds $used MiB"
}
# Starts whatever of the servers a part needs is not up yet; they start side by side. One that failed is not tried again.
want_servers() { # main|variants|small...
    local name flags place=0
    for name in "$@"; do
        case $name in
            main)
                [ ! -e "$SERVERS/main" ] || continue
                # Where it does not start beside the others it starts alone, once.
                if [ ! -e "$SERVERS/main.failed" ]; then
                    serve main "$BIG" "$MAIN_PORT" --kv-cache-memory-bytes "$MAIN_KV" --gpu-memory-utilization "$MAIN_SHARE"
                elif [ ! -e "$SERVERS/main.alone" ]; then
                    stop_servers
                    touch "$SERVERS/main.alone"
                    serve main "$BIG" "$MAIN_PORT"
                fi
                ;;
            variants)
                for flags in "${VARIANTS[@]}"; do
                    name=${flags%% *}
                    # shellcheck disable=SC2086 # flags are words
                    [ -e "$SERVERS/$name" ] || [ -e "$SERVERS/$name.failed" ] || serve "$name" "$BIG" $((VARIANT_PORT + place)) \
                        --kv-cache-memory-bytes "$VARIANT_KV" --gpu-memory-utilization "$VARIANT_SHARE" ${flags#* }
                    place=$((place + 1))
                done
                ;;
            small)
                # It tries whether the engine can be forked from the API server, which saves a second import of everything.
                # shellcheck disable=SC2086
                [ -e "$SERVERS/small" ] || [ -e "$SERVERS/small.failed" ] || VLLM_WORKER_MULTIPROC_METHOD=fork serve small "$SMALL" "$SMALL_PORT" \
                    --kv-cache-memory-bytes "$SMALL_KV" --gpu-memory-utilization "$SMALL_SHARE" $SMALL_FLAGS \
                    --speculative-config "$SPECULATIVE"
                ;;
        esac
    done
}

# ---- Results --------------------------------------------------------------------------------------------------------------------
# Writes $WORK/NAME as $OUT/NAME.tar.xz in the background; a later archive of the same part takes its place. Copies whose machine is
# lost in the middle are not seen, because the last step is a rename.
pack() { # NAME [nice]
    # Without the session's mark, so that it may outlast it by a moment.
    (
        env -u VSWEEP_GPU_SESSION ${2:+"$2"} python3 "$lab/pack.py" "$WORK/$1" "$OUT/$1.tar.xz" ||
            echo "$1 could not be packed" >>"$WORK/session/timeline.txt"
    ) </dev/null &
}
part() { # NAME: the folder of a part
    PART=$WORK/$1
    mkdir -p "$PART"
    cd "$PART" || exit 1
}

# ---- Plans ----------------------------------------------------------------------------------------------------------------------
# What servers have in common that vsweep starts or finds. Their answers are noise of made-up weights, so they are not compared.
serve_at() { # URL
    printf 'version = 1\n[serve]\nurl = "%s"\nanswer_check = false\n' "$1"
}
serve_by() { # MODEL FLAGS...: a server that vsweep starts
    local model=$1
    shift
    printf 'version = 1\n[serve]\nready_timeout = "%ss"\nstop_grace = "10s"\nanswer_check = false\n' "$READY_S"
    printf "command = '''vllm serve %s %s --served-model-name %s --max-model-len %s %s'''\n" "$model" "$FLAGS" "$(basename "$model")" \
        "$MAX_LEN" "$*"
}
random_load() { # INPUT OUTPUT
    printf '[bench]\ntimeout = "1m"\n[bench.params]\ndataset_name = "random"\nignore_eos = true\n'
    printf 'random_input_len = %s\nrandom_output_len = %s\n' "$1" "$2"
}
search_load() {
    random_load "$INPUT" "$OUTPUT"
    # The truth is computed from every request.
    printf 'save_detailed = true\nnum_prompts = { per = "max_concurrency", times = 4, min = %s }\n' "$FEWEST_PROMPTS"
}
search_target() {
    printf '[sla]\nvary = "max_concurrency"\nmax = %s\ntolerance = 0.05\nmax_probes = %s\n' "$MOST_USERS" "$PROBES"
    printf '[[sla.target]]\nname = "chat"\np99_ttft_ms = "<=%s"\np99_tpot_ms = "<=%s"\n' "$TTFT_MS" "$TPOT_MS"
}

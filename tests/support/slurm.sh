#!/usr/bin/env bash
# A real Slurm on this machine, as root and without systemd: a controller and two nodes with eight fake GPUs each. Everything of it is
# below one folder; nothing is written to /etc.
#   slurm.sh up FOLDER PORT     (uses PORT, PORT+1 and PORT+2)
#   slurm.sh controller FOLDER  starts the controller again
#   slurm.sh node FOLDER NAME   starts the daemon of a node again
#   slurm.sh down FOLDER
set -euo pipefail
what=$1 dir=$2
export SLURM_CONF=$dir/slurm.conf

# Daemons inherit no descriptor, or they would hold the caller's pipes open.
daemon() {
  (
    for fd in /proc/self/fd/*; do fd=${fd##*/}; [ "$fd" -gt 2 ] && eval "exec $fd>&-" 2>/dev/null; done
    exec "$@" </dev/null >>"$dir/log/start.log" 2>&1
  )
}
controller() { daemon slurmctld -f "$SLURM_CONF"; }
node() { daemon slurmd -f "$SLURM_CONF" -N "$1"; }

up() {
  local port=$1 host
  host=$(hostname -s)
  mkdir -p "$dir"/{run,log,state,dev,spool/n0,spool/n1}
  chmod 755 "$dir" "$dir"/*
  # A GPU must be a character device, or a task gets no CUDA_VISIBLE_DEVICES.
  for gpu in 0 1 2 3 4 5 6 7; do ln -sfn /dev/null "$dir/dev/nvidia$gpu"; done
  head -c 1024 /dev/urandom >"$dir/munge.key"
  chmod 600 "$dir/munge.key"
  cat >"$SLURM_CONF" <<CONF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/run/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/run/slurmctld.pid
SlurmdPidFile=$dir/run/%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=1000
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0,sched_min_interval=0
SlurmctldTimeout=10
SlurmdTimeout=10
MessageTimeout=3
KillWait=3
MinJobAge=3600
MaxArraySize=5
ReturnToService=2
GresTypes=gpu
NodeName=n0 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 1)) CPUs=32 RealMemory=256000 Gres=gpu:h100:8
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 2)) CPUs=32 RealMemory=256000 Gres=gpu:h100:8
PartitionName=gpu Nodes=ALL Default=YES MaxTime=01:00:00 PriorityTier=10 PreemptMode=REQUEUE
PartitionName=urgent Nodes=ALL MaxTime=01:00:00 PriorityTier=100 PreemptMode=OFF
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
CONF
  printf 'AutoDetect=off\nNodeName=n[0-1] Name=gpu Type=h100 File=%s/dev/nvidia[0-7]\n' "$dir" >"$dir/gres.conf"
  echo "CgroupAutomount=no" >"$dir/cgroup.conf"
  daemon munged --force --key-file="$dir/munge.key" --socket="$dir/run/munge.socket" --pid-file="$dir/run/munged.pid" \
    --log-file="$dir/log/munged.log" --seed-file="$dir/run/munged.seed"
  controller
  node n0
  node n1
  local end=$((SECONDS + 60))
  until [ "$(timeout 5 sinfo -h -p gpu -N -o %t 2>/dev/null | grep -cx idle)" = 2 ]; do
    [ $SECONDS -lt $end ] || { tail -n 20 "$dir"/log/*.log >&2; echo "the nodes do not become idle" >&2; exit 1; }
    sleep 0.2
  done
}

# Ends a daemon of ours by its recorded id.
end() {
  local pid
  pid=$(cat "$1" 2>/dev/null) || return 0
  tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -qE 'slurm|munged' && kill -KILL "$pid" 2>/dev/null
  rm -f "$1"
}

down() {
  timeout 10 scancel -u root 2>/dev/null || true
  local end=$((SECONDS + 15))
  while [ $SECONDS -lt $end ] && [ -n "$(timeout 5 squeue -h -t R,CG 2>/dev/null)" ]; do sleep 0.2; done
  for pid in "$dir"/run/n?.pid "$dir"/run/slurmctld.pid "$dir"/run/munged.pid; do end "$pid" || true; done
  # What a killed node left: only processes that hold files of this cluster.
  for process in /proc/[0-9]*; do
    grep -q '^slurmstepd' "$process/cmdline" 2>/dev/null || continue
    ls -l "$process/fd" "$process/cwd" 2>/dev/null | grep -q "$dir" && kill -KILL "${process##*/}" 2>/dev/null
  done
  return 0
}

case $what in
up) up "$3" ;;
controller) controller ;;
node) node "$3" ;;
down) down ;;
esac

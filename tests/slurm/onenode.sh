#!/usr/bin/env bash
# A real Slurm on this machine alone, for tests: no systemd, no cgroups, loopback only (but slurmdbd,
# which knows no such setting), everything in one folder, ended by the process ids that it noted.
#
#   onenode.sh install [accounting]        Debian's packages, as root (4 MB; with a database, 40)
#   onenode.sh start FOLDER [accounting]   writes the configuration and starts munged, slurmctld and
#                                          slurmd; with accounting, mariadbd and slurmdbd first
#   onenode.sh stop FOLDER                 cancels all jobs and ends what was started
#
# With NODES=2 there are two nodes, each a slurmd of this machine.
#
# After `start`, FOLDER/bin first in PATH makes sbatch, squeue ... speak to this Slurm. A
# node says that it has 8 cores, 48 GB and 2 GPUs of kind "fake" (files that nobody opens), and three
# partitions: `cpu` and `gpu`, whose jobs go back into the queue when a job of `urgent` needs their place.
# A job that takes more memory than it asked for is ended within seconds.
set -euo pipefail

host=$(hostname -s)
nodes=("$host")
[ "${NODES:-1}" = 1 ] || nodes+=("$host-2")

fail() { echo "onenode.sh: $*" >&2; exit 1; }

install() {
  local kept=/usr/sbin/policy-rc.d made= programs=(slurmctld slurmd sbatch munged) packages
  packages=(slurmctld slurmd slurm-client munge)
  if [ "${1:-}" = accounting ]; then
    programs+=(slurmdbd mariadbd mariadb-install-db my_print_defaults)
    packages+=(slurmdbd mariadb-server-core mariadb-client-core)
  fi
  type "${programs[@]}" >/dev/null 2>&1 && return
  [ "$(id -u)" = 0 ] || fail "installing needs root"
  # dpkg must not try to start services: there may be no systemd.
  if [ ! -e $kept ]; then
    printf '#!/bin/sh\nexit 101\n' >$kept; chmod +x $kept; made=1
  fi
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
    "${packages[@]}" >/dev/null || fail "apt-get could not install ${packages[*]}"
  [ -z "$made" ] || rm -f $kept
}

free_ports() {
  python3 - <<'PYTHON'
import socket
found = [socket.socket() for _ in range(4)]
for one in found:
    one.bind(("127.0.0.1", 0))
print(*(one.getsockname()[1] for one in found))
PYTHON
}

configure() {
  local user controller node accounts storage other each
  user=$(id -un)
  read -r controller node other accounts < <(free_ports)
  mkdir -p "$1"/{bin,log,run,munge,controller}
  storage=AccountingStorageType=accounting_storage/none
  if [ "${2:-}" = accounting ]; then
    storage="AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=$accounts
AccountingStoragePass=$1/run/munge.socket"
    (umask 077; cat >"$1/slurmdbd.conf") <<CONF
DbdHost=$host
DbdAddr=127.0.0.1
DbdPort=$accounts
SlurmUser=$user
AuthType=auth/munge
AuthInfo=socket=$1/run/munge.socket
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=accounts
LogFile=$1/log/slurmdbd.log
PidFile=$1/run/slurmdbd.pid
CONF
  fi
  chmod 755 "$1" "$1/munge"
  (umask 077; head -c 128 /dev/urandom >"$1/munge/key")
  # CUDA_VISIBLE_DEVICES needs one existing device file for each GPU, all different.
  for each in "${nodes[@]}"; do
    mkdir -p "$1/node-$each"
    printf 'NodeName=%s Name=gpu Type=fake File=%s\n' "$each" /dev/null "$each" /dev/zero
  done >"$1/gres.conf"
  printf 'CgroupPlugin=autodetect\nConstrainCores=no\nConstrainRAMSpace=no\n' >"$1/cgroup.conf"
  cat >"$1/slurm.conf" <<CONF
ClusterName=onenode
SlurmctldHost=$host(127.0.0.1)
SlurmUser=$user
SlurmdUser=$user
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$1/run/munge.socket
SlurmctldPort=$controller
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
StateSaveLocation=$1/controller
SlurmdSpoolDir=$1/node-%n
SlurmctldPidFile=$1/run/slurmctld.pid
SlurmdPidFile=$1/run/slurmd-%n.pid
SlurmctldLogFile=$1/log/slurmctld.log
SlurmdLogFile=$1/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
$storage
# Memory is looked at every two seconds, and a job that has too much is ended.
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=2
JobAcctGatherParams=UsePss,OverMemoryKill
# Without accounting squeue has to show jobs that have ended.
MinJobAge=600
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=0,defer=0
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
KillWait=5
# Time limits are looked at once a minute; without slack.
OverTimeLimit=0
# A node that was set down stays so until it is resumed.
ReturnToService=1
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName=DEFAULT CPUs=8 RealMemory=48000 Gres=gpu:fake:2
NodeName=$host NodeAddr=127.0.0.1 Port=$node
$([ ${#nodes[@]} = 1 ] || echo "NodeName=$host-2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$other")
PartitionName=cpu Nodes=ALL Default=YES MaxTime=INFINITE PriorityTier=1 PreemptMode=REQUEUE GraceTime=5 DefMemPerCPU=500
PartitionName=gpu Nodes=ALL MaxTime=INFINITE PriorityTier=1 PreemptMode=REQUEUE GraceTime=5 DefMemPerCPU=500
PartitionName=urgent Nodes=ALL MaxTime=INFINITE PriorityTier=9 PreemptMode=OFF DefMemPerCPU=500
CONF
  # Snakemake's job step takes SLURM_CONF out of the environment, so every program puts it back.
  local name
  for name in srun sbatch squeue scancel scontrol sinfo sacct sacctmgr; do
    printf '#!/bin/sh\nSLURM_CONF=%s/slurm.conf exec /usr/bin/%s "$@"\n' "$1" $name >"$1/bin/$name"
    chmod 755 "$1/bin/$name"
  done
}

# A database of its own, which only this user reaches, by a socket.
keep_accounts() {
  mariadb-install-db --no-defaults --user="$(id -un)" --datadir="$1/database" --skip-test-db \
    --auth-root-authentication-method=normal >"$1/log/install-db.log" 2>&1 ||
    fail "the database could not be made: see $1/log/install-db.log"
  mariadbd --no-defaults --user="$(id -un)" --datadir="$1/database" --skip-networking \
    --socket="$1/run/mariadb.socket" --pid-file="$1/run/mariadbd.pid" \
    --log-error="$1/log/mariadbd.log" >/dev/null 2>&1 &
  for _ in $(seq 150); do [ ! -S "$1/run/mariadb.socket" ] || break; sleep 0.2; done
  MYSQL_UNIX_PORT=$1/run/mariadb.socket slurmdbd || fail "slurmdbd did not start: see $1/log/slurmdbd.log"
  for _ in $(seq 60); do
    ! sacctmgr --immediate add cluster onenode >"$1/log/sacctmgr.log" 2>&1 || return 0
    sleep 1
  done
  fail "slurmdbd does not answer: see $1/log"
}

start() {
  local each
  type slurmctld slurmd sbatch munged >/dev/null || fail "not installed: $0 install"
  configure "$@"
  export SLURM_CONF=$1/slurm.conf
  munged --socket="$1/run/munge.socket" --key-file="$1/munge/key" --pid-file="$1/run/munged.pid" \
    --log-file="$1/log/munged.log" --seed-file="$1/munge/seed" --num-threads=2 --force \
    2>>"$1/log/munged.log" || fail "munged did not start: see $1/log/munged.log"
  [ "${2:-}" != accounting ] || keep_accounts "$1"
  slurmctld || fail "slurmctld did not start: see $1/log/slurmctld.log"
  for each in "${nodes[@]}"; do
    slurmd -N "$each" || fail "slurmd did not start: see $1/log/slurmd-$each.log"
  done
  for _ in $(seq 150); do
    [ "$(timeout 5 sinfo -h -N -p cpu -o %T 2>/dev/null | uniq -c | xargs)" = "${#nodes[@]} idle" ] && return
    sleep 0.2
  done
  fail "the nodes did not become idle in 30 s: see $1/log"
}

stop() {
  local name id
  SLURM_CONF=$1/slurm.conf timeout 10 scancel --user="$(id -un)" 2>/dev/null || true
  for _ in $(seq 60); do
    [ -n "$(SLURM_CONF=$1/slurm.conf timeout 5 squeue -h -t R,CG -o %A 2>/dev/null)" ] || break
    sleep 0.2
  done
  for name in slurmd-"$host" slurmd-"$host-2" slurmctld slurmdbd mariadbd munged; do
    id=$(cat "$1/run/$name.pid" 2>/dev/null) || continue
    # Its number may have become another's.
    grep -q "^${name%%-*}" "/proc/$id/comm" 2>/dev/null || continue
    kill "$id"
    for _ in $(seq 50); do kill -0 "$id" 2>/dev/null || break; sleep 0.1; done
    ! kill -0 "$id" 2>/dev/null || kill -KILL "$id"
  done
}

case "${1:-}" in
  install) install "${2:-}" ;;
  start) start "${2:?a folder}" "${3:-}" ;;
  stop) stop "${2:?a folder}" ;;
  *) sed -n '2,15p' "$0"; exit 2 ;;
esac

#!/bin/bash
# Runs inside the machine of `tools/checkvm --systemd`, as a unit of a real systemd: what the
# installed service promises about sandboxes when it is restarted, stopped, killed and broken.
#
# Prints "CHECKVM end systemd:NAME CODE" for each fact; the project's installed tree is below $1.
set -u
export PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C
installed=$1
export CAISSON_URL=http://127.0.0.1:3986/api
readonly DATA=/var/lib/caisson WAIT_S=120

say() {
	printf 'CHECKVM %s\n' "$*"
}

# fact NAME COMMAND…: one test, named by what it states.
fact() {
	local name=$1 code=0
	shift
	"$@" || code=$?
	say "end systemd:$name $code"
	if [[ $code != 0 ]]; then
		systemctl status --no-pager -n 20 caissond | tail -n 30
	fi
	return 0
}

# until_true COMMAND…: no longer than WAIT_S.
until_true() {
	local end=$((SECONDS + WAIT_S))
	until "$@" > /dev/null 2>&1; do
		((SECONDS < end)) || return 1
		sleep 0.2
	done
}

serves() {
	[[ -r $DATA/admin.key ]] || return 1
	CAISSON_API_KEY=$(< "$DATA/admin.key")
	export CAISSON_API_KEY
	python3 -c 'import sys, urllib.request as u; u.urlopen(sys.argv[1] + "/health")' \
		"$CAISSON_URL"
}

inside() {
	caisson exec --no-stdin -s live -- "$1"
}

# pid and start time of the sandbox's first process, as the machine sees it.
first_process() {
	local procs pid
	procs=$(cat /sys/fs/cgroup/caisson-*/*/cgroup.procs /sys/fs/cgroup/caisson-*/*/*/cgroup.procs \
		2> /dev/null)
	for pid in $procs; do
		[[ $(cat "/proc/$pid/comm" 2> /dev/null) = caisson-init ]] || continue
		printf '%s %s\n' "$pid" "$(sed 's/.*) //' "/proc/$pid/stat" | cut -d ' ' -f 20)"
	done
}

same_sandbox() {
	[[ $(first_process) = "$born" && -n $born ]] && [[ $(inside 'cat /tmp/kept') = kept ]] &&
		[[ $(inside 'ps -o args | grep -c "[s]leep 100000"') = 1 ]]
}

install_it() {
	cp -a "$installed/usr/local/." /usr/local/ && cp -a "$installed/etc/." /etc/ &&
		printf 'CAISSON_DEFAULT_IMAGE=%s\n' "$top/build/image/busybox.tar" \
			> /etc/caisson/caissond.env && systemctl daemon-reload
}

starts_and_creates() {
	systemctl start caissond && until_true serves && caisson create -q --name live \
		--auto-stop 0 > /dev/null && inside 'echo kept > /tmp/kept' &&
		inside 'sleep 100000 > /dev/null 2>&1 &' && born=$(first_process) && same_sandbox
}

outside_of_the_unit() {
	local group
	group=$(systemctl show -p ControlGroup --value caissond)
	[[ -n $group && -n $born ]] &&
		! grep -q "$group" "/proc/${born%% *}/cgroup" &&
		[[ -z $(cat "/sys/fs/cgroup$group/cgroup.subtree_control") ]]
}

restart_keeps_it() {
	local before after
	before=$(systemctl show -p MainPID --value caissond)
	systemctl restart caissond && until_true serves && same_sandbox || return 1
	after=$(systemctl show -p MainPID --value caissond)
	[[ $before != "$after" ]]
}

stop_keeps_it() {
	systemctl stop caissond && [[ $(first_process) = "$born" ]] &&
		[[ $(systemctl is-active caissond) = inactive ]] && systemctl start caissond &&
		until_true serves && same_sandbox
}

kill_keeps_it() {
	local before after
	before=$(systemctl show -p MainPID --value caissond)
	kill -9 "$before" && until_true serves && same_sandbox || return 1
	after=$(systemctl show -p MainPID --value caissond)
	[[ $before != "$after" && $after != 0 ]]
}

reload_of_systemd_keeps_it() {
	systemctl daemon-reexec && until_true serves && same_sandbox && systemctl restart caissond &&
		until_true serves && same_sandbox
}

failed() {
	[[ $(systemctl is-failed caissond) = failed ]]
}

damage_ends_in_failed_and_mends() {
	local db=$DATA/api/caisson.db
	systemctl stop caissond && cp -a "$DATA/api" /root/sound || return 1
	dd if=/dev/zero of="$db" bs=4096 count=2 conv=notrunc status=none
	rm -f "$db-wal" "$db-shm"
	systemctl start caissond
	until_true failed && [[ $(first_process) = "$born" ]] || return 1
	rm -rf "$DATA/api" && cp -a /root/sound "$DATA/api" && systemctl reset-failed caissond &&
		systemctl start caissond && until_true serves && same_sandbox
}

nothing_left() {
	[[ -z $(first_process) ]] &&
		[[ -z $(find "$DATA/boxes" "$DATA/trash" -mindepth 1 -maxdepth 1 ! -name '.*') ]]
}

delete_leaves_nothing() {
	caisson delete -q live || return 1
	until_true nothing_left && return
	first_process
	find "$DATA/boxes" "$DATA/trash" | head
	return 1
}

top=$(sed -n 's/.*caisson_top=\([^ ]*\).*/\1/p' /proc/cmdline)
born=
say "kernel $(uname -r) $(stat -fc %T /sys/fs/cgroup), $(systemctl --version | head -n 1)"
fact install_puts_the_unit install_it
fact unit_starts_and_a_sandbox_runs starts_and_creates
fact sandbox_is_outside_of_the_unit outside_of_the_unit
fact restart_keeps_the_sandbox_and_its_processes restart_keeps_it
fact stop_and_start_keep_the_sandbox stop_keeps_it
fact killed_daemon_comes_back_with_the_sandbox kill_keeps_it
fact reexecuted_systemd_keeps_the_sandbox reload_of_systemd_keeps_it
fact damaged_records_end_in_failed_until_mended damage_ends_in_failed_and_mends
fact delete_leaves_nothing delete_leaves_nothing
say done
